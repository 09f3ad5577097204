"""Edit other programs' files atomically, keeping their modes and symlinks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.workspace.files import read_regular
from kbhub.workspace.places import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES = 64 * 1024 * 1024
"""Limit for a client's file; Claude Code keeps the history of every project in the same file as its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""For new files in the home directory, which may come to hold other servers' API keys."""


def read_bytes(path: Path) -> bytes | None:
    """Read a file, or return None if it does not exist.

    Raises:
        ConfigError: it cannot be read or is not a regular file.
    """
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

    Args:
        path: the file.
        change: maps the old content to the new; None stands for no file. If it raises, nothing is written.
        within: a folder, symlinks resolved, that the file must be in, since a project may not be trustworthy.

    Raises:
        ConfigError: the file cannot be read or written, is outside `within`, or changed concurrently.
    """
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(within):
        raise ConfigError(path, f"leads out of {within}; nothing was written")
    before = read_bytes(path)
    after = change(before)
    if after == before:
        return
    if read_bytes(path) != before:
        raise ConfigError(path, "something else changed the file at this moment; nothing was written, try again")
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
