"""Edit other programs' files atomically, with a dated backup of each."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from kbhub.errors import ConfigError
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory, read_regular

MAX_BYTES = 64 * 1024 * 1024
"""Limit for a client's file; Claude Code keeps the history of every project in the same file as its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""For new files in the home directory, which may come to hold other servers' API keys."""


FOLDER = "setup"
"""Folder in the data directory, with a subfolder for each changed file."""

MAX_COPIES = 1000
"""Limit of copies of one file within a second."""

_STAMP = "%Y%m%dT%H%M%SZ"


def read_bytes(path: Path) -> bytes | None:
    """Read a regular file, or return None if it does not exist."""
    try:
        return read_regular(os.path.realpath(path), MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error


def edit(
    path: Path,
    change: Callable[[bytes | None], bytes | None],
    *,
    within: Path | None = None,
) -> None:
    """Edit, create or delete a file; a symlink is followed and stays a symlink.

    `change` maps the old content to the new; None stands for no file. If it raises, nothing is written. `within` is a
    folder, symlinks resolved, that the file must be in, since a project may not be trustworthy. Raises `ConfigError` if
    the file cannot be read or written, is outside `within`, or changed concurrently.
    """
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(within):
        raise ConfigError(path, f"points outside {within}; nothing was written")
    before = read_bytes(path)
    after = change(before)
    if after == before:
        return
    if read_bytes(path) != before:
        raise ConfigError(path, "another program changed the file at the same time; nothing was written, try again")
    try:
        if after is None:
            real.unlink()
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(real, after, mode=_mode(real, private=within is None))
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error


def _mode(real: Path, *, private: bool) -> int:
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        return _NEW_PRIVATE_MODE if private else _NEW_MODE


def back_up(data: Path, file: Path, content: bytes | None) -> Path | None:
    """Save a file's content under a UTC timestamp in the data directory; None if there is no file."""
    if content is None:
        return None
    real = os.path.realpath(file).encode("utf-8", "surrogateescape")
    folder = private_directory(data / FOLDER / hashlib.sha256(real).hexdigest()[:16])
    stamp = time.strftime(_STAMP, time.gmtime())
    names = (f"{file.name}.{stamp}{end}.bak" for end in ("", *(f"-{number}" for number in range(2, MAX_COPIES))))
    copy = next(folder / name for name in names if not (folder / name).exists())
    write_atomically(copy, content)
    return copy
