"""Changing other programs' files: whole or not at all, with their mode and their links."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.files import read_regular
from kbhub.places import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES = 64 * 1024 * 1024
"""Of a client's file: Claude Code keeps the history of every project in the file of its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""Of a client's file in the home directory: its other servers' entries will hold keys."""


def read_bytes(path: Path) -> bytes | None:
    """Give what a file holds, or none if there is none.

    Raises:
        ConfigError: it cannot be read, or is no file.
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
    """Change a file; a link is followed and stays a link, a file that does not exist is made.

    Args:
        path: the file.
        change: gives the new content for the old; none stands for no file. What it raises leaves all as it is.
        within: a folder, links resolved, that the file must lie in: a project may come from anybody.

    Raises:
        ConfigError: the file cannot be read or written, leads elsewhere, or is changed by somebody just now.
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
