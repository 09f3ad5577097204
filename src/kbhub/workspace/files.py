"""Open and read untrusted files safely."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# O_NONBLOCK: opening a FIFO would otherwise block until there is a writer; regular files ignore it.
# O_NOCTTY: a terminal must not become our controlling one. O_BINARY: Windows would translate line endings.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: Path | str, *, dir_fd: int | None = None, follow: bool = True) -> int:
    """Open a file for reading if it is a regular one, and return a descriptor, which the caller must close.

    `path` is relative to the descriptor `dir_fd` if that is given, and may be a symbolic link with `follow`.
    """
    descriptor = os.open(path, _READ | (0 if follow else getattr(os, "O_NOFOLLOW", 0)), dir_fd=dir_fd)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_regular(path: Path | str, limit: int, *, follow: bool = True) -> bytes:
    """Read a whole regular file; raise `OSError` with `EFBIG` if it is larger than `limit` bytes."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"Larger than {limit} bytes", str(path))
    return data
