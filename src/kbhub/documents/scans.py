"""The files of a base as listed by the walk, and a hash of them."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import field
from typing import TYPE_CHECKING

from kbhub.types import FileEntry
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.types import Problem


@struct
class FileListing:
    """The files of a folder; the lists are parallel."""

    prefix: str
    """What the path of each file begins with: the folder and a slash, or nothing."""
    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """In bytes."""
    times: list[int] = field(default_factory=list)
    """In ns since the epoch."""


@struct
class Scan:
    """The files of a base, as listed by the walk."""

    listings: tuple[FileListing, ...] = ()
    """All files. `files` is made of them only if asked for: mostly nothing changed, and a hash of them tells."""
    skipped: tuple[Problem, ...] = ()
    """Files that were skipped although their names match, and why."""
    unlisted: tuple[str, ...] = ()
    """Folders that could not be listed, so that the files below them are unknown rather than deleted."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Suffix → number of text files of a type that is not indexed; only for scans of all files."""
    frame: object = None
    """Everything that decides whether a file belongs to the base, other than the files and folders in it; equal frames
    allow judging single files. None if that is impossible, because of links or too many files."""
    _files: dict[str, tuple[int, int]] = field(default_factory=dict, init=False, compare=False)

    @property
    def files(self) -> dict[str, tuple[int, int]]:
        """Path in the base → (size in bytes, time in ns since the epoch); see `FileEntry`."""
        if not self._files:
            for listing in self.listings:
                paths = map(listing.prefix.__add__, listing.names)
                self._files.update(zip(paths, zip(listing.sizes, listing.times, strict=True), strict=True))
        return self._files

    @property
    def count(self) -> int:
        """Number of files."""
        return sum(len(listing.names) for listing in self.listings)

    def entry(self, path: str) -> FileEntry:
        """Return a file by its path."""
        return FileEntry(path, *self.files[path])


def listing_of(files: Mapping[str, tuple[int, int]]) -> FileListing:
    """Return path → (size in bytes, time in ns) as a listing, sorted by path."""
    paths = sorted(files)
    return FileListing("", paths, [files[path][0] for path in paths], [files[path][1] for path in paths])


def digest_of(scan: Scan) -> str:
    """Return a hash of the paths, sizes and times of all files.

    It also differs if a file system lists the same folder in another order; the index is then read needlessly.
    """
    total = hashlib.blake2b(digest_size=16)
    for listing in scan.listings:
        names = "\0".join((listing.prefix, *listing.names)).encode()
        total.update(array("q", (len(names), len(listing.names))) + array("q", listing.sizes + listing.times))
        total.update(names)
    return total.hexdigest()
