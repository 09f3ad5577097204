"""Create, replace, move and remove files so that readers and crashes see the old content or the new, never a part.

`write_atomically` takes a path; `open_folder` holds a folder of a base open, so that nothing leads out of it.
"""

from __future__ import annotations

import errno
import hashlib
import operator
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from kbhub.errors import ConfigError, PathNotContained
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.files import flags, open_regular, read_regular

ABANDONED_SECONDS = 3600.0
"""Age in seconds from which a temporary file was left behind by a killed process; writing one takes milliseconds."""

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".kbhub-", ".tmp"
"""Names of unfinished files; hidden, so that they are never indexed."""

NEW_FILE_MODE, NEW_FOLDER_MODE = 0o666, 0o777
"""Modes of new files and folders before the umask, as in other editors."""

STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
"""Whether paths can be opened step by step, so that no folder is replaced by a link between check and open."""
FOLDER = flags("RDONLY", "DIRECTORY", "NOFOLLOW", "CLOEXEC")
_NEW = flags("WRONLY", "CREAT", "EXCL", "NOFOLLOW", "CLOEXEC", "BINARY")
_SAME = operator.attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")
"""What tells a file from itself changed or replaced."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""Errors of file systems without hard links."""


def write_atomically(path: Path, text: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically: readers, and crashes, see either the old content or the new."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    # mkstemp creates a 0600 file with an unpredictable name; renaming is only atomic within a folder.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode != 0o600 and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def content_of(path: Path, limit: int) -> bytes | None:
    """Return a configuration file, following links; None if there is none, `ConfigError` if it cannot be read."""
    try:
        return read_regular(os.path.realpath(path), limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error


def edit_content(
    path: Path, limit: int, change: Callable[[bytes | None], bytes | None], *, new_mode: int = 0o644
) -> bytes | None:
    """Edit, create or delete a configuration file, and return what it was; a link stays one, and a mode what it was.

    `change` maps the old content to the new; None stands for no file. If it raises, nothing is written. Raises
    `ConfigError` if the file cannot be read or written, or changed meanwhile.
    """
    real = Path(os.path.realpath(path))
    before = content_of(path, limit)
    after = change(before)
    if after == before:
        return before
    if content_of(path, limit) != before:
        raise ConfigError(path, "another program changed the file at the same time; nothing was written, try again")
    try:
        if after is None:
            real.unlink()
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            mode = new_mode if before is None else stat.S_IMODE(real.stat().st_mode)
            write_atomically(real, after, mode=mode)
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error
    return before


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power failure; Windows cannot open folders, so it is skipped there."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_new(source: str, target: str, source_fd: int | None, target_fd: int | None) -> None:
    """Rename a file, or raise `FileExistsError` if the new name is taken; the descriptors are of open folders."""
    if os.name == "nt":
        os.rename(source, target)  # noqa: PTH104 - never overwrites on Windows
        return
    try:
        os.link(
            source,
            target,
            src_dir_fd=source_fd,
            dst_dir_fd=target_fd,
            follow_symlinks=os.link not in os.supports_follow_symlinks,
        )
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The lock excludes other kbhub processes; only a foreign program could come between these two lines.
        with suppress(FileNotFoundError):
            os.stat(target, dir_fd=target_fd, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        return
    os.unlink(source, dir_fd=source_fd)


@struct
class Content:
    """A file as it was read."""

    data: bytes
    status: os.stat_result

    @property
    def hash(self) -> str:
        """SHA-256 of the bytes, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


@struct(frozen=False)
class Folder:
    """An open folder of a base."""

    path: Path
    """Real path."""
    base: Base
    descriptor: int | None
    """None if the system has no operations relative to a descriptor."""
    made: list[str] = field(default_factory=list)
    """Folders created on the way here, outermost first; real paths."""

    def names(self) -> list[str]:
        """Return the names of its entries."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)  # noqa: PTH208

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, without following links, or None if there is none."""
        try:
            return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, name: str) -> Content:
        """Read a regular file; links and other kinds of files raise `OSError`."""
        with os.fdopen(open_regular(self._at(name), dir_fd=self.descriptor, follow=False), "rb") as file:
            return Content(file.read(), os.fstat(file.fileno()))

    def create(self, name: str, data: bytes, mode: int | None = None) -> None:
        """Write a new file; without a mode, it gets the default under the umask."""
        with self._temporary(data, mode) as temporary:
            self._check()
            _move_new(self._at(temporary), self._at(name), self.descriptor, self.descriptor)
        self.flush()

    def replace(self, name: str, data: bytes, old: Content) -> bool:
        """Replace a file, keeping its mode and, where allowed, its owner."""
        with self._temporary(data, stat.S_IMODE(old.status.st_mode), old.status) as temporary:
            self._check()
            if not self.is_still(name, old):
                return False
            os.replace(self._at(temporary), self._at(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.flush()
        return True

    def remove(self, name: str, old: Content) -> bool:
        """Remove a file; return False and leave it alone if it changed since it was read."""
        self._check()
        if not self.is_still(name, old):
            return False
        os.unlink(self._at(name), dir_fd=self.descriptor)
        self.flush()
        return True

    def move(self, name: str, target: Folder, new: str) -> None:
        """Move a file within the base, without overwriting anything."""
        self._check()
        target._check()
        old, existing = self.status(name), target.status(new)
        same = old is not None and existing is not None and os.path.samestat(old, existing)
        if same and old is not None and old.st_nlink == 1:  # only the case differs, on a case-insensitive system
            os.rename(self._at(name), target._at(new), src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        else:
            _move_new(self._at(name), target._at(new), self.descriptor, target.descriptor)
        target.flush()
        if self.path != target.path:
            self.flush()

    def is_still(self, name: str, old: Content) -> bool:
        """Return whether a file is unchanged since it was read."""
        now = self.status(name)
        return now is not None and bool(_SAME(now) == _SAME(old.status))

    def flush(self) -> None:
        """Sync renames and removals to disk, except on Windows, which cannot."""
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def sweep(self) -> None:
        """Delete half-written files of killed processes."""
        for name in self.names():
            if name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
                status = self.status(name)
                if status and stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > ABANDONED_SECONDS:
                    with suppress(OSError):  # already deleted, or owned by another user
                        os.unlink(self._at(name), dir_fd=self.descriptor)

    def unmake(self) -> None:
        """Remove the folders created on the way here, if they are empty."""
        for folder in reversed(self.made):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106

    @contextmanager
    def _temporary(self, data: bytes, mode: int | None, like: os.stat_result | None = None) -> Iterator[str]:
        """Write bytes under a random name, which is removed at the end if it still exists."""
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        descriptor = os.open(self._at(name), _NEW, NEW_FILE_MODE if mode is None else 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if like is not None and hasattr(os, "fchown"):
                    with suppress(OSError):  # only root may change the owner
                        os.fchown(file.fileno(), like.st_uid, like.st_gid)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield name
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._at(name), dir_fd=self.descriptor)

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def _check(self) -> None:
        """Raise `PathNotContained` if the folder was moved or replaced since it was opened."""
        if os.path.realpath(self.path) != str(self.path):
            raise PathNotContained(str(self.path), self.base.id)


@contextmanager
def open_folder(base: Base, parts: Sequence[str], *, make: bool = False) -> Iterator[Folder]:
    """Hold a folder of a base open; `parts` are the folder names from the base downwards, none of them a link."""
    root = os.path.realpath(base.path)
    folder = Folder(Path(root, *parts), base, None)
    if not STEPWISE:
        _make_by_path(base, root, parts, folder, make=make)
        yield folder
        return
    descriptor = os.open(root, FOLDER)
    try:
        for depth, part in enumerate(parts, start=1):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, NEW_FOLDER_MODE, dir_fd=descriptor)
                    os.fsync(descriptor)
                    folder.made.append(str(Path(root, *parts[:depth])))
            inner = _open_inner(base, part, descriptor)
            os.close(descriptor)
            descriptor = inner
        folder.descriptor = descriptor
        yield folder
    finally:
        os.close(descriptor)


def _open_inner(base: Base, part: str, descriptor: int) -> int:
    try:
        return os.open(part, FOLDER, dir_fd=descriptor)
    except OSError as error:
        # For a link to a folder, O_NOFOLLOW fails with ENOTDIR on Linux and with ELOOP or EMLINK elsewhere.
        try:
            link = stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode)
        except OSError:
            link = False
        if link:
            raise PathNotContained(part, base.id) from error
        raise


def _make_by_path(base: Base, root: str, parts: Sequence[str], folder: Folder, *, make: bool) -> None:
    for depth in range(1, len(parts) + 1):
        path = Path(root, *parts[:depth])
        if make and not path.exists():
            path.mkdir()
            folder.made.append(str(path))
        if os.path.realpath(path) != str(path):
            raise PathNotContained("/".join(parts[:depth]), base.id)
