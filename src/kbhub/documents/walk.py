"""List the files of a base within limits, and open them safely."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self

from kbhub.documents.filters import Filters, belongs, too_large
from kbhub.documents.traversal import MAX_DEPTH, Scan, Traversal, inside_of, listing_of
from kbhub.errors import PathNotContained
from kbhub.types import Base, Kind
from kbhub.values import struct
from kbhub.workspace.files import open_regular
from kbhub.workspace.formats import CONVERTED_KINDS, byte_limit, is_text, kind_of
from kbhub.workspace.settings import LimitSettings

KEPT = "kept"
"""Folder in kbhub's data directory with the texts of deleted files."""

__all__ = ["MAX_DEPTH", "excluded_by", "open_contained", "scan"]

# Opening a path step by step prevents replacing a folder with a link between check and open.
_STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")

NO_LIMITS: Mapping[Kind, int] = MappingProxyType({})
"""All kinds have the limit of documents."""


@struct
class Limits:
    """How much of the files of a base is read."""

    file_bytes: int
    """Bytes of the longest file."""
    files: int
    """Files of one base; the rest is left out."""
    kind_bytes: Mapping[Kind, int] = field(default_factory=dict)
    """Bytes of the longest file of kinds with a limit of their own."""
    kept: Path | None = None
    """Folder with the texts of deleted files; None if there is none."""

    @staticmethod
    def of(settings: LimitSettings, data: Path) -> Limits:
        """Return the limits of the settings."""
        own: dict[Kind, int] = {"pdf": settings.pdf_bytes, "session": settings.session_bytes}
        kinds = {**dict.fromkeys(CONVERTED_KINDS, settings.converted_bytes), **own}
        return Limits(settings.file_bytes, settings.files, kinds, data / KEPT)


def scan(base: Base, *, max_bytes: int, max_files: int, kind_bytes: Mapping[Kind, int] = NO_LIMITS) -> Scan:
    """List the files of a base, in order of path; raises `BaseUnavailable` if it cannot.

    Larger files than `max_bytes`, or than `kind_bytes` of their kind, are skipped and reported; after `max_files`, the
    rest is reported in one entry.
    """
    unordered = Traversal(base, max_bytes, max_files, kind_bytes).run()
    return replace(unordered, listings=(listing_of(unordered.files),))


def excluded_by(
    base: Base, path: str, *, max_bytes: int | None = None, kind_bytes: Mapping[Kind, int] = NO_LIMITS
) -> str | None:
    """Explain why an existing file is not in a base, or return None if `scan` lists it."""
    try:
        with open_contained(base, path) as file:
            size = os.fstat(file.fileno()).st_size
    except PathNotContained:
        return "it is outside the base"
    except OSError as error:
        return f"it cannot be opened ({error.strerror})"
    filters = Filters(base)
    reason = filters.reason(path) or _linked_reason(filters, path)
    kind = kind_of(base, path)
    if reason is None and max_bytes is not None and size > (limit := byte_limit(kind, max_bytes, kind_bytes)):
        return too_large(size, limit, kind)
    return reason


def _linked_reason(filters: Filters, path: str) -> str | None:
    """Why a file reached through a link is not listed under this path."""
    root = str(filters.root)
    inside = _real_path(root, path)
    if inside is None or inside == path:
        return None
    folder, _, name = path.rpartition("/")
    home = _real_path(root, folder) if folder else ""
    if home is not None and home != folder and filters.reason(real := f"{home}/{name}".lstrip("/")) is None:
        return f"the base has it as {real!r}"
    return filters.target_reason(inside)


def _real_path(root: str, path: str) -> str | None:
    inside = inside_of(root, os.path.realpath(os.path.join(root, path)))  # noqa: PTH118
    return None if inside is None else inside.replace(os.sep, "/")


class KeptFolder:
    """Keeps the folder of the last opened file open for the next file, which is mostly in the same one.

    A context manager. For tiny files, opening each folder on the way takes longer than everything else about reading.
    """

    def __init__(self) -> None:
        self._way: tuple[str, ...] = ()
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._way:
            os.close(self._descriptor)
        self._way = ()

    def descriptor(self, root: str, folders: Sequence[str]) -> int:
        """Open a folder below `root`, step by step; a link found on the way is not followed.

        The descriptor is valid until the next call.
        """
        way = (root, *folders)
        if way != self._way:
            self.__exit__()
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            folder = os.open(root, flags)
            for name in folders:
                try:
                    inner = os.open(name, flags, dir_fd=folder)
                finally:
                    os.close(folder)
                folder = inner
            self._way, self._descriptor = way, folder
        return self._descriptor


def open_contained(base: Base, path: str, kept: KeptFolder | None = None) -> BinaryIO:
    """Open a file of a base. Every path from a user, a model or a file goes through here, and any string is safe.

    Links are followed while they stay in the base, and only regular files are opened; `kept` makes it faster to open
    many files, folder by folder. Raises `PathNotContained`, FileNotFoundError or OSError.
    """
    parts = _parts(path)
    if parts is None or not belongs(path, base.only):
        raise PathNotContained(path, base.id)
    if _STEPWISE:
        # Mostly there is no link on the way, so this is the real path; to find that out takes longer than to open it.
        with suppress(OSError, UnicodeEncodeError):
            return os.fdopen(_open_below(str(base.path), parts, kept), "rb")
    root = os.path.realpath(base.path)
    try:
        real = os.path.realpath(os.path.join(root, *parts), strict=True)  # noqa: PTH118
    except UnicodeEncodeError as error:  # a lone surrogate: no file can have that name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    inside = inside_of(root, real)
    if inside is None:
        raise PathNotContained(path, base.id)
    if not inside:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.fdopen(_open_below(root, inside.replace(os.sep, "/").split("/")), "rb")


def _open_below(root: str, parts: list[str], kept: KeptFolder | None = None) -> int:
    """Open a file by its real path, step by step; a link found on the way is not followed."""
    if not _STEPWISE:
        return open_regular(os.path.join(root, *parts))  # noqa: PTH118
    with KeptFolder() if kept is None else nullcontext(kept) as folder:
        return open_regular(parts[-1], dir_fd=folder.descriptor(root, parts[:-1]), follow=False)


def is_relative(path: str) -> bool:
    """Return whether a string can be the path of a document: relative, without `..`, and valid Unicode."""
    return _parts(path) is not None and is_text(path)


def _parts(path: str) -> list[str] | None:
    """Segments of a relative path, or None if it is not one."""
    separators = {"/", os.sep}
    if not path or "\0" in path or path[0] in separators:
        return None
    parts = path.replace(os.sep, "/").split("/")
    # On Windows, a colon denotes a drive or an alternate data stream.
    if any(part in ("", ".", "..") or (os.name == "nt" and ":" in part) for part in parts):
        return None
    return parts
