"""One folder of a base, held open: files in it are read, made, replaced and removed whole or not at all.

Where the system can, every step goes through the descriptor of a folder that was opened part by part without
following a link, so that nobody can lead a write elsewhere by putting a link in the way between check and write.
Where it cannot (Windows), the real path is checked again just before each change.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import PathNotContained
from kbhub.files import open_regular
from kbhub.places import ABANDONED_SECONDS
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.types import Base

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".kbhub-", ".tmp"
"""Names of files that are still being written; hidden, so that no index takes them."""

NEW_FILE_MODE, NEW_FOLDER_MODE = 0o666, 0o777
"""Modes of what is new, less the user's umask, as every editor has it."""

_STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)
"""What a file system without hard links answers to making one."""


@struct
class Content:
    """A file as it was read."""

    data: bytes
    status: os.stat_result

    @property
    def hash(self) -> str:
        """SHA-256 of the bytes, hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(slots=True)
class Folder:
    """A folder of a base that is held open."""

    path: Path
    """Real path."""
    base: Base
    descriptor: int | None
    """None where the system cannot work below a descriptor."""
    made: list[str] = field(default_factory=list)
    """Folders that were made on the way here, outermost first; real paths."""

    def names(self) -> list[str]:
        """Give the names of what is in it."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)  # noqa: PTH208

    def status(self, name: str) -> os.stat_result | None:
        """Give the status of something in it (of a link, the link's own), none if nothing has the name."""
        try:
            return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, name: str) -> Content:
        """Read a regular file.

        Raises:
            OSError: it is not there, is a link or no regular file, or cannot be read.
        """
        with os.fdopen(open_regular(self._at(name), dir_fd=self.descriptor, follow=False), "rb") as file:
            return Content(file.read(), os.fstat(file.fileno()))

    def create(self, name: str, data: bytes, mode: int | None = None) -> None:
        """Write a file that is not there yet.

        Args:
            name: its name.
            data: its bytes.
            mode: its mode; none for what the user's umask leaves of a new file's.

        Raises:
            FileExistsError: something has the name.
            OSError: it cannot be written; nothing is left behind.
        """
        with self._temporary(data, mode) as temporary:
            self._check()
            self._move_new(temporary, self, name)
        self.flush()

    def replace(self, name: str, data: bytes, old: Content) -> bool:
        """Write a file in place of one, keeping its mode and, where allowed, its owner.

        Args:
            name: its name.
            data: the new bytes.
            old: the file as it was read.

        Returns:
            Whether it was done; not if the file is no longer the one that was read.

        Raises:
            OSError: it cannot be written; the old file is untouched.
        """
        with self._temporary(data, stat.S_IMODE(old.status.st_mode), old.status) as temporary:
            self._check()
            if not self.is_still(name, old):
                return False
            os.replace(self._at(temporary), self._at(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.flush()
        return True

    def remove(self, name: str, old: Content) -> bool:
        """Remove a file if it is still the one that was read; says whether it was."""
        self._check()
        if not self.is_still(name, old):
            return False
        os.unlink(self._at(name), dir_fd=self.descriptor)
        self.flush()
        return True

    def move(self, name: str, target: Folder, new: str) -> None:
        """Give a file another name, perhaps in another folder of the base, never one that is taken.

        Raises:
            FileExistsError: something has the name.
            OSError: it cannot be moved; at worst (the process is killed) it has both names.
        """
        self._check()
        target._check()
        here, there = self.status(name), target.status(new)
        same = here is not None and there is not None and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        if same and here is not None and here.st_nlink == 1:  # only the case differs, where the system ignores it
            self._rename(name, target, new)
        else:
            self._move_new(name, target, new)
        target.flush()
        if self.path != target.path:
            self.flush()

    def is_still(self, name: str, old: Content) -> bool:
        """Whether a file is the one that was read, unchanged since."""
        now = self.status(name)
        then = old.status
        return now is not None and (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) == (
            then.st_dev,
            then.st_ino,
            then.st_size,
            then.st_mtime_ns,
        )

    def flush(self) -> None:
        """Make what was renamed or removed here survive a power failure; Windows cannot and does without."""
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def sweep(self) -> None:
        """Remove what killed processes left half written here."""
        for name in self.names():
            if name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
                status = self.status(name)
                if status and stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > ABANDONED_SECONDS:
                    with suppress(OSError):  # somebody else did it, or owns it
                        os.unlink(self._at(name), dir_fd=self.descriptor)

    def unmake(self) -> None:
        """Remove the folders that were made on the way here, as far as they are empty."""
        for folder in reversed(self.made):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106

    @contextmanager
    def _temporary(self, data: bytes, mode: int | None, like: os.stat_result | None = None) -> Iterator[str]:
        """Write bytes under a name that nobody can guess; what has still that name at the end is removed."""
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        descriptor = os.open(self._at(name), _NEW, NEW_FILE_MODE if mode is None else 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if like is not None and hasattr(os, "fchown"):
                    with suppress(OSError):  # only root may give files away
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

    def _move_new(self, name: str, target: Folder, new: str) -> None:
        if os.name == "nt":
            os.rename(self._at(name), target._at(new))  # noqa: PTH104 - it never overwrites there
            return
        try:
            os.link(
                self._at(name),
                target._at(new),
                src_dir_fd=self.descriptor,
                dst_dir_fd=target.descriptor,
                follow_symlinks=os.link not in os.supports_follow_symlinks,
            )
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # The lock keeps other kbhubs away; between these two lines only a foreign program could be quicker.
            if target.status(new) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from error
            self._rename(name, target, new)
            return
        os.unlink(self._at(name), dir_fd=self.descriptor)

    def _rename(self, name: str, target: Folder, new: str) -> None:
        os.rename(self._at(name), target._at(new), src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def _check(self) -> None:
        """Raise `PathNotContained` if the folder is no longer where it was when it was opened."""
        if os.path.realpath(self.path) != str(self.path):
            raise PathNotContained(str(self.path), self.base.id)


@contextmanager
def open_folder(base: Base, parts: Sequence[str], *, make: bool = False) -> Iterator[Folder]:
    """Hold a folder of a base open.

    Args:
        base: the base.
        parts: names of folders from the base's own down; none of them may be a link.
        make: whether to make those that are missing.

    Raises:
        PathNotContained: one of them is a link.
        OSError: one is missing, is no folder, or cannot be opened or made.
    """
    root = os.path.realpath(base.path)
    folder = Folder(Path(root, *parts), base, None)
    if not _STEPWISE:
        _make_by_path(base, root, parts, folder, make=make)
        yield folder
        return
    descriptor = os.open(root, _FOLDER)
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
        return os.open(part, _FOLDER, dir_fd=descriptor)
    except OSError as error:
        # Linux says ENOTDIR of a link that is not to be followed to a folder, others ELOOP (or EMLINK).
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
