"""The files of a base: which they are, and the one way to open one."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from kbhub.document_names import IGNORE_NAMES, MARKDOWN_SUFFIXES
from kbhub.errors import BaseUnavailable, PathNotContained
from kbhub.files import open_regular
from kbhub.filters import Filters, belongs, too_large
from kbhub.sources.kinds import byte_limit, kind_of
from kbhub.types import FileEntry, Problem, Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.ignore import Layer
    from kbhub.types import Base, Kind

MAX_DEPTH = 100
"""Folders in folders. Paths of the systems end near there, and matching a rule takes time by depth."""

MAX_TIME_NS = 2**63 - 1
"""Times after the year 2262 count as this one: SQLite has no larger integers, and files may be of any year."""

MAX_SKIPPED = 200
"""Entries of `Scan.skipped`; more of them tell nobody more."""

__all__ = ["MARKDOWN_SUFFIXES", "excluded_by", "open_contained", "scan"]

# Where a path can be opened step by step, nobody can slip in a link between the check and the opening.
_STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")


NO_LIMITS: Mapping[Kind, int] = MappingProxyType({})
"""No kind has a size limit of its own."""


def scan(base: Base, *, max_bytes: int, max_files: int, kind_bytes: Mapping[Kind, int] = NO_LIMITS) -> Scan:
    """List the files of a base.

    Args:
        base: the base.
        max_bytes: a longer file is left out and reported.
        kind_bytes: the same for kinds of files that have a limit of their own.
        max_files: once there are this many files, the rest is left out and one entry says so.

    Raises:
        BaseUnavailable: its folder is gone or cannot be listed.
    """
    walk = _Walk(base, max_bytes, max_files, kind_bytes)
    walk.run()
    paths = sorted(walk.entries)
    return Scan({path: walk.entries[path] for path in paths}, tuple(walk.skipped), tuple(sorted(walk.unlisted)))


def excluded_by(
    base: Base, path: str, *, max_bytes: int | None = None, kind_bytes: Mapping[Kind, int] = NO_LIMITS
) -> str | None:
    """What keeps an existing file out of a base, in words; none if `scan` takes it.

    Args:
        base: the base.
        path: relative to the base, with `/`.
        max_bytes: the size limit, if size is to count.
        kind_bytes: those of kinds that have their own.
    """
    try:
        with open_contained(base, path) as file:
            size = os.fstat(file.fileno()).st_size
    except PathNotContained:
        return "it lies outside the base"
    except OSError as error:
        return f"it cannot be opened ({error.strerror})"
    filters = Filters(base)
    reason = filters.reason(path) or _linked_reason(filters, path)
    kind = kind_of(base, path)
    if reason is None and max_bytes is not None and size > (limit := byte_limit(kind, max_bytes, kind_bytes)):
        return too_large(size, limit, kind)
    return reason


def _linked_reason(filters: Filters, path: str) -> str | None:
    """Why a file that a link leads to is not taken under this path."""
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
    inside = _inside(root, os.path.realpath(os.path.join(root, path)))  # noqa: PTH118
    return None if inside is None else inside.replace(os.sep, "/")


def open_contained(base: Base, path: str) -> BinaryIO:
    """Open a file of a base. Every path that came from a user, a model or a file goes through here.

    Links are followed as long as they stay in the base; what is opened is a regular file or nothing.

    Args:
        base: the base.
        path: relative to the base, with `/`. Any string is safe.

    Raises:
        PathNotContained: it is no path inside the base.
        FileNotFoundError: nothing is there.
        OSError: it is a folder, a device or a pipe, or cannot be opened.
    """
    parts = _parts(path)
    if parts is None or not belongs(path, base.only):
        raise PathNotContained(path, base.id)
    root = os.path.realpath(base.path)
    try:
        real = os.path.realpath(os.path.join(root, *parts), strict=True)  # noqa: PTH118
    except UnicodeEncodeError as error:  # a lone surrogate: no file can have that name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    inside = _inside(root, real)
    if inside is None:
        raise PathNotContained(path, base.id)
    if not inside:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.fdopen(_open_below(root, inside.replace(os.sep, "/").split("/")), "rb")


def _open_below(root: str, parts: list[str]) -> int:
    """Open a file by its real path, step by step; a link in it is new and is not followed."""
    if not _STEPWISE:
        return open_regular(os.path.join(root, *parts))  # noqa: PTH118
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = inner
        return open_regular(parts[-1], dir_fd=folder, follow=False)
    finally:
        os.close(folder)


def _parts(path: str) -> list[str] | None:
    """The segments of a relative path, or none if it is not one."""
    separators = {"/", os.sep}
    if not path or "\0" in path or path[0] in separators:
        return None
    parts = path.replace(os.sep, "/").split("/")
    # A colon names a drive or a hidden stream of a file on Windows.
    if any(part in ("", ".", "..") or (os.name == "nt" and ":" in part) for part in parts):
        return None
    return parts


def _inside(root: str, real: str) -> str | None:
    """A real path relative to the base's, empty for the base itself; none if it lies outside."""
    if real == root:
        return ""
    prefix = root if root.endswith(os.sep) else root + os.sep
    return real[len(prefix) :] if real.startswith(prefix) else None


@dataclass(slots=True)
class _Folder:
    """A folder still to list."""

    path: str
    """As the base shows it."""
    real: str
    """As it is on disk, relative to the base; another than `path` below a link."""
    layers: tuple[Layer, ...]


@dataclass(slots=True)
class _Walk:
    """One pass over a base."""

    base: Base
    max_bytes: int
    max_files: int
    kind_bytes: Mapping[Kind, int]
    entries: dict[str, FileEntry] = field(default_factory=dict)
    skipped: list[Problem] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    filters: Filters = field(init=False)
    root: str = field(init=False)
    entered: set[str] = field(default_factory=set)
    """Real paths of the folders that were listed: each one once, so that links cannot lead round."""
    linked: list[_Folder] = field(default_factory=list)
    """Links to folders, looked at last: a folder keeps its real path where it has one in the base."""
    full: bool = False

    def run(self) -> None:
        """List all folders, then those that only a link leads to."""
        try:
            self.filters = Filters(self.base)
            self.root = str(self.filters.root)
            os.scandir(self.root).close()
        except OSError as error:
            raise BaseUnavailable(self.base.id, f"{self.base.path}: {error.strerror}") from error
        self._descend(_Folder("", "", self.filters.outer))
        while self.linked and not self.full:
            folder = self.linked.pop(0)
            if folder.real not in self.entered:
                self._descend(folder)

    def _descend(self, start: _Folder) -> None:
        stack = [start]
        while stack and not self.full:
            folder = stack.pop()
            if folder.real not in self.entered:
                self.entered.add(folder.real)
                stack += reversed(self._list(folder))

    def _list(self, folder: _Folder) -> list[_Folder]:
        """Take the files of a folder.

        Returns:
            Its folders, in order.
        """
        try:
            with os.scandir(os.path.join(self.root, folder.real)) as found:  # noqa: PTH118
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(folder.path or ".", f"the folder cannot be listed: {error.strerror}")
            self.unlisted.append(folder.path)
            return []
        layers = folder.layers
        names = [entry.name for entry in entries if entry.name in IGNORE_NAMES]
        if names and folder.path:
            layers = self.filters.layers_in(folder.path, folder.real, layers, names)
        prefix = f"{folder.path}/" if folder.path else ""
        folders = []
        for entry in entries:
            path = prefix + entry.name
            try:
                if (inner := self._entry(entry, path, folder, layers)) is not None:
                    folders.append(inner)
            except OSError as error:  # it went, or turned into something else, while we looked
                self._skip(path, f"it cannot be looked at: {error.strerror}")
            if self.full:
                break
        return folders

    def _entry(self, entry: os.DirEntry[str], path: str, folder: _Folder, layers: tuple[Layer, ...]) -> _Folder | None:
        name = entry.name
        if not name.isascii() and not _is_text(name):
            self._skip(path, "its name is not valid UTF-8; rename it")
        elif _is_link(entry):
            self._link(entry, path, layers)
        elif entry.is_dir(follow_symlinks=False):
            if self._leads_on(path) and self.filters.folder_reason(path, name, layers) is None:
                if path.count("/") < MAX_DEPTH:
                    return _Folder(path, f"{folder.real}/{name}" if folder.real else name, layers)
                self._skip(path, f"folders are read {MAX_DEPTH} levels deep; move it up")
        elif belongs(path, self.base.only) and self.filters.file_reason(path, name, layers) is None:
            self._file(entry, path)
        return None

    def _leads_on(self, path: str) -> bool:
        """Whether a folder belongs to the base or holds a part of it."""
        only = self.base.only
        return belongs(path, only) or any(part.startswith(f"{path}/") for part in only)

    def _file(self, entry: os.DirEntry[str], path: str) -> None:
        status = entry.stat()
        kind = kind_of(self.base, path)
        limit = byte_limit(kind, self.max_bytes, self.kind_bytes)
        if not stat.S_ISREG(status.st_mode):
            self._skip(path, "it is a device or a pipe, not a file")
        elif status.st_size > limit:
            self._skip(path, too_large(status.st_size, limit, kind))
        elif len(self.entries) >= self.max_files:
            self.full = True
            reason = f"the base has more than {self.max_files} files (`limits.files` in ~/.kbhub.json)"
            self._skip(self.base.id, f"{reason}; the rest is left out")
        else:
            moment = max(-MAX_TIME_NS, min(status.st_mtime_ns, MAX_TIME_NS))
            self.entries[path] = FileEntry(path, status.st_size, moment)

    def _link(self, entry: os.DirEntry[str], path: str, layers: tuple[Layer, ...]) -> None:
        """Take a link to a file, or keep one to a folder for later, if it stays in the base."""
        directory = os.path.isdir(entry.path)  # noqa: PTH112 - unlike the entry's own, it takes a loop for no folder
        if not (self._leads_on(path) if directory else belongs(path, self.base.only)):
            return
        filters = self.filters
        look = filters.folder_reason if directory else filters.file_reason
        if look(path, entry.name, layers) is not None:
            return
        real = os.path.realpath(entry.path)
        inside = _inside(self.root, real)
        if inside is None:
            self._skip(path, f"the link leads out of the base, to {real}; it is not followed")
        elif not os.path.exists(real):  # noqa: PTH110
            self._skip(path, "the link leads nowhere")
        elif inside and (reason := filters.target_reason(inside.replace(os.sep, "/"))) is not None:
            self._skip(path, f"the link leads to a file or folder that is left out: {reason}")
        elif directory:
            self.linked.append(_Folder(path, inside.replace(os.sep, "/"), layers))
        else:
            self._file(entry, path)

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            subject = path.encode("utf-8", "backslashreplace").decode()
            self.skipped.append(Problem(subject=subject, message=f"{subject}: {reason}."))
        elif len(self.skipped) == MAX_SKIPPED:
            self.skipped.append(Problem(subject=self.base.id, message="More files were skipped than are listed here."))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_link(entry: os.DirEntry[str]) -> bool:
    """Whether it is a symbolic link, or what Windows has instead (Python 3.12 can tell)."""
    return entry.is_symlink() or bool(getattr(entry, "is_junction", bool)())
