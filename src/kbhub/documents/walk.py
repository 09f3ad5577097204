"""List the files of a base and open them, without ever leaving it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from kbhub.documents.filters import Filters, Layer, belongs, too_large
from kbhub.errors import BaseUnavailable, PathNotContained
from kbhub.types import Base, Kind, Problem
from kbhub.values import struct
from kbhub.workspace.files import FOLDER, STEPWISE, open_regular
from kbhub.workspace.formats import IGNORE_NAMES, NATIVE_SUFFIXES, TAKEN_SUFFIXES, is_text, kind_of, passed_over
from kbhub.workspace.settings import MAX_RULES

KEPT = "kept"
"""Folder in kbhub's data directory with the texts of deleted files."""


@struct
class Limits:
    """How much of the files of a base is read."""

    file_bytes: int
    files: int
    """Files of one base; the rest is left out."""
    kind_bytes: Mapping[Kind, int] = field(default_factory=dict)
    """Bytes of the longest file of kinds with a limit of their own."""
    kept: Path | None = None
    """Folder with the texts of deleted files; None if there is none."""

    def bytes_of(self, kind: Kind) -> int:
        """Return the size limit of files of a kind."""
        return self.kind_bytes.get(kind, self.file_bytes)


def scan(base: Base, limits: Limits) -> Scan:
    """List the files of a base; raises `BaseUnavailable` if it cannot."""
    return Traversal(base, limits).run()


def excluded_by(base: Base, path: str, limits: Limits | None = None) -> str | None:
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
    if reason is None and limits is not None and size > limits.bytes_of(kind):
        return too_large(size, limits.bytes_of(kind), kind)
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


def open_contained(base: Base, path: str) -> BinaryIO:
    """Open a file of a base. Every path from a user, a model or a file goes through here, and any string is safe.

    Links are followed while they stay in the base, and only regular files are opened. Raises `PathNotContained`,
    FileNotFoundError or OSError.
    """
    parts = _parts(path)
    if parts is None or not belongs(path, base.only):
        raise PathNotContained(path, base.id)
    if STEPWISE:
        # Mostly there is no link on the way, so this is the real path; to find that out takes longer than to open it.
        with suppress(OSError, UnicodeEncodeError):
            return os.fdopen(_open_below(str(base.path), parts), "rb")
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


def read_contained(base: Base, path: str, most: int) -> bytes | None:
    """Return a file of a base, or None without one that can be read and has at most so many bytes."""
    with suppress(OSError, ValueError, PathNotContained), open_contained(base, path) as file:
        data = file.read(most + 1)
        return data if len(data) <= most else None
    return None


def _open_below(root: str, parts: list[str]) -> int:
    """Open a file by its real path, step by step; a link found on the way is not followed."""
    if not STEPWISE:
        return open_regular(os.path.join(root, *parts))  # noqa: PTH118
    folder = os.open(root, FOLDER)
    try:
        for name in parts[:-1]:
            inner = os.open(name, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        return open_regular(parts[-1], dir_fd=folder, follow=False)
    finally:
        os.close(folder)


def is_relative(path: str) -> bool:
    """Return whether a string can be the path of a document: relative, without `..`, and valid Unicode."""
    return _parts(path) is not None and is_text(path)


def _parts(path: str) -> list[str] | None:
    """Segments of a relative path, or None if it is not one."""
    parts = path.replace(os.sep, "/").split("/")
    # On Windows, a colon denotes a drive or an alternate data stream.
    outside = "\0" in path or (os.name == "nt" and ":" in path)
    return None if outside or not {"", ".", ".."}.isdisjoint(parts) else parts


@struct
class Scan:
    """The files of a base, as listed by the walk."""

    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Path in the base → (size in bytes, time in ns since the epoch), by path; see `FileEntry`."""
    skipped: tuple[Problem, ...] = ()
    """Files that were skipped although their names match, and why."""
    unlisted: tuple[str, ...] = ()
    """Folders that could not be listed, so that the files below them are unknown rather than deleted."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """Suffix → number of text files of a type that is not indexed; only for scans of all files."""
    frame: object = None
    """Everything that decides whether a file belongs to the base, other than the files and folders in it; equal frames
    allow judging single files. None if that is impossible, because of links or too many files."""

    def hides(self, path: str) -> bool:
        """Return whether a path is below a folder that could not be listed."""
        return any(not folder or path.startswith(f"{folder}/") for folder in self.unlisted)


def digest_of(scan: Scan) -> str:
    """Return a hash of the paths, sizes and times of all files."""
    paths = "\0".join(scan.files).encode()
    total = hashlib.blake2b(array("q", [len(scan.files), *chain.from_iterable(scan.files.values())]), digest_size=16)
    total.update(paths)
    return total.hexdigest()


MAX_DEPTH = 100
"""Nesting levels of folders. Systems limit paths near that depth, and matching a rule takes time by depth."""

MAX_TIME_NS = 2**63 - 1
"""Later times, after the year 2262, are clamped to this: SQLite has no larger integers."""

MAX_SKIPPED = 200


@struct(frozen=False)
class PendingFolder:
    """A folder still to list."""

    path: str
    """Path as the base shows it."""
    real: str
    """Path on disk, relative to the base; differs from `path` below a link."""
    layers: tuple[Layer, ...]
    prefix: str = ""
    """`path` and a slash; empty for the base itself."""


@struct(frozen=False)
class Traversal:
    """One pass over a base, or over some of its files."""

    base: Base
    limits: Limits
    wanted: Collection[str] | None = None
    """Paths to look at; None for all files of the base."""
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    """See `Scan.files`; unordered."""
    skipped: list[Problem] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    joined: bool = False
    """Whether there are files, such as links, that cannot be judged independently of others."""
    full: bool = False
    """Whether there are more files than `limits.files`."""
    filters: Filters = field(init=False)
    root: str = field(init=False)
    entered: set[str] = field(default_factory=set)
    """Real paths of the folders listed so far; each is listed once, so links cannot form cycles."""
    linked: list[PendingFolder] = field(default_factory=list)
    """Links to folders, followed last: a folder in the base keeps its real path."""
    _names: dict[str, set[str]] = field(default_factory=dict)
    """Folder → names in it that lead to `wanted`."""

    def run(self) -> Scan:
        """List all folders, then those only reachable through links; raises `BaseUnavailable` if it cannot."""
        try:
            self.filters = Filters(self.base)
            self.root = str(self.filters.root)
            os.scandir(self.root).close()
        except OSError as error:
            raise BaseUnavailable(self.base.id, f"{self.base.path}: {error.strerror}") from error
        for path in self.wanted or ():
            with suppress(OSError):
                status = os.lstat(os.path.join(self.root, path))  # noqa: PTH118
                # Writing a file with several hard links may change another document.
                self.joined |= stat.S_ISREG(status.st_mode) and status.st_nlink > 1
            parts = path.split("/")
            for end, part in enumerate(parts):
                self._names.setdefault("/".join(parts[:end]), set()).add(part)
        pending = [PendingFolder("", "", self.filters.outer)]
        while (pending or self.linked) and not self.full:
            folder = pending.pop() if pending else self.linked.pop(0)
            if folder.real not in self.entered:
                self.entered.add(folder.real)
                pending += reversed(self._list(folder))
        for file in dict.fromkeys(self.filters.overfull):
            self._skip(file, f"only the first {MAX_RULES} of its rules are used; write fewer patterns")
        alone = not (self.joined or self.full or len(self.skipped) > MAX_SKIPPED)
        return Scan(
            dict(sorted(self.files.items())),
            tuple(self.skipped),
            tuple(sorted(self.unlisted)),
            self.passed_over,
            (self.base, self.limits, self.filters.outer) if alone else None,
        )

    def _list(self, folder: PendingFolder) -> list[PendingFolder]:
        """Collect the files of a folder and return its subfolders, in order."""
        try:
            entries = sorted(self._unjudged(folder), key=attrgetter("name"))
        except OSError as error:
            self._skip(folder.path or ".", f"the folder cannot be listed: {error.strerror}")
            self.unlisted.append(folder.path)
            return []
        folders, only = list[PendingFolder](), self.base.only
        for entry in entries:
            name = entry.name
            path = folder.prefix + name
            try:
                if not name.isascii() and not is_text(name):
                    self._skip(path, "its name is not valid UTF-8; rename it")
                elif entry.is_symlink() or getattr(entry, "is_junction", bool)():  # a Windows junction, from 3.12 on
                    self._link(entry, path, folder)
                elif entry.is_dir(follow_symlinks=False):
                    if not belongs(path, only, above=True) or self.filters.folder_reason(path, name, folder.layers):
                        continue
                    self.joined |= self.wanted is not None and path in self.wanted  # everything below may be new
                    if path.count("/") < MAX_DEPTH:
                        real = f"{folder.real}/{name}" if folder.real else name
                        folders.append(PendingFolder(path, real, folder.layers, f"{path}/"))
                    else:
                        self._skip(path, f"folders are only read {MAX_DEPTH} levels deep; move it up")
                elif (self.wanted is None or path in self.wanted) and belongs(path, only):
                    if self.filters.file_reason(path, name, folder.layers) is None:
                        self._file(entry, path)
                    elif not name.startswith("."):
                        self._pass_over((name,), folder)
            except OSError as error:  # it was deleted or replaced in the meantime
                self._skip(path, f"it cannot be read: {error.strerror}")
            if self.full:
                break
        return folders

    def _unjudged(self, folder: PendingFolder) -> list[os.DirEntry[str]]:
        """Collect a folder's plain files, and return the entries that must be judged one by one."""
        place, only = os.path.join(self.root, folder.real), self.base.only  # noqa: PTH118
        whole = self.wanted is None and (not only or (folder.path != "" and belongs(folder.path, only)))
        plain, passed, names = dict[str, tuple[int, int]](), list[str](), self._names.get(folder.path, set())
        at_once = whole and self.base.kind != "session"
        if at_once:
            with os.scandir(place) as entries:
                listed, passed = self._split(entries, plain)
            at_once = len(self.files) + len(plain) <= self.limits.files
        if not at_once:
            relevant = None if self.wanted is None else names.union(IGNORE_NAMES)
            with os.scandir(place) as entries:
                listed = [entry for entry in entries if relevant is None or entry.name in relevant]
        ignore = sorted([entry.name for entry in listed if entry.name in IGNORE_NAMES])
        if ignore and folder.path:
            folder.layers = self.filters.layers_in(folder.path, folder.real, folder.layers, ignore)
        if not at_once:
            return listed if self.wanted is None else [entry for entry in listed if entry.name in names]
        for layer in filter(None, (self.filters.exclude, *folder.layers)):
            for name in layer.among(folder.prefix, plain):
                if self.filters.rule_reason(folder.prefix + name, folder.layers, directory=False):
                    del plain[name]
        for name, file in plain.items():
            self.files[folder.prefix + name] = file
        self._pass_over(passed, folder)
        return listed

    def _split(
        self, entries: Iterable[os.DirEntry[str]], plain: dict[str, tuple[int, int]]
    ) -> tuple[list[os.DirEntry[str]], list[str]]:
        """Collect plain text files; return the entries to examine further, and names of passed-over text files."""
        # Inlined, as most files end here: a call for each would take a quarter more time.
        limit, hidden = self.limits.bytes_of(self.base.kind), self.filters.include_hidden
        others, passed = [], []
        for entry in entries:
            name = entry.name
            try:
                if name[0] == "." and not hidden and name not in IGNORE_NAMES:
                    continue
                if name[0] == "." or not (name.isascii() or is_text(name)) or not entry.is_file(follow_symlinks=False):
                    others.append(entry)
                    continue
                if not name.endswith(NATIVE_SUFFIXES):
                    if self.base.include or (lower := name.lower()).endswith(TAKEN_SUFFIXES):
                        others.append(entry)
                    elif passed_over(lower):
                        passed.append(name)
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:  # it was deleted or replaced in the meantime
                others.append(entry)
                continue
            if status.st_size > limit or not -MAX_TIME_NS <= status.st_mtime_ns <= MAX_TIME_NS:
                others.append(entry)
            else:
                plain[name] = status.st_size, status.st_mtime_ns
        return others, passed

    def _pass_over(self, names: Iterable[str], folder: PendingFolder) -> None:
        """Count the files of a folder that are skipped only for their suffix, unless the base has session logs."""
        for name in names if self.wanted is None and self.base.kind == "document" else ():
            kind = passed_over(name)
            if kind and self.filters.rule_reason(folder.prefix + name, folder.layers, directory=False) is None:
                self.passed_over[kind] += 1

    def _file(self, entry: os.DirEntry[str], path: str) -> None:
        status = entry.stat()
        kind = kind_of(self.base, path)
        limit = self.limits.bytes_of(kind)
        if not stat.S_ISREG(status.st_mode):
            self._skip(path, "it is a device or a pipe, not a file")
        elif status.st_size > limit:
            self._skip(path, too_large(status.st_size, limit, kind))
        elif len(self.files) >= self.limits.files:
            self.full = True
            reason = f"the base has more than {self.limits.files} files (`limits.files` in ~/.kbhub.json)"
            self._skip(self.base.id, f"{reason}; the rest is skipped")
        else:
            self.files[path] = (status.st_size, max(-MAX_TIME_NS, min(status.st_mtime_ns, MAX_TIME_NS)))

    def _link(self, entry: os.DirEntry[str], path: str, folder: PendingFolder) -> None:
        """Collect a link to a file, or queue one to a folder, if its target is in the base."""
        place = os.path.join(self.root, folder.real, entry.name)  # noqa: PTH118
        directory = os.path.isdir(place)  # noqa: PTH112 - unlike entry.is_dir(), it is False for a loop
        if not belongs(path, self.base.only, above=directory):
            return
        filters, layers = self.filters, folder.layers
        reason_for = filters.folder_reason if directory else filters.file_reason
        if reason_for(path, entry.name, layers) is not None:
            return
        self.joined = True
        real = os.path.realpath(place)
        inside = inside_of(self.root, real)
        if inside is None:
            self._skip(path, f"the link leads out of the base, to {real}, so it is not followed")
        elif not os.path.exists(real):  # noqa: PTH110
            self._skip(path, "the link is broken")
        elif inside and (reason := filters.target_reason(inside.replace(os.sep, "/"))) is not None:
            self._skip(path, f"the link leads to a file or folder that is skipped: {reason}")
        elif directory:
            self.linked.append(PendingFolder(path, inside.replace(os.sep, "/"), layers, f"{path}/"))
        else:
            self._file(entry, path)

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            subject = path.encode("utf-8", "backslashreplace").decode()
            self.skipped.append(Problem(subject=subject, message=f"{subject}: {reason}."))
        elif len(self.skipped) == MAX_SKIPPED:
            self.skipped.append(Problem(subject=self.base.id, message="More files were skipped than listed here."))


def inside_of(root: str, real: str, separator: str = os.sep) -> str | None:
    """Return a real path relative to the base's, empty for the base itself, or None if it is outside."""
    if real == root:
        return ""
    prefix = root if root.endswith(separator) else root + separator
    return real[len(prefix) :] if real.startswith(prefix) else None
