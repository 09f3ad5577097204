"""Changing other programs' files: whole or not at all, after a copy was made, with their mode and their links."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.files import read_regular
from kbhub.places import write_atomically
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES = 64 * 1024 * 1024
"""Of a client's file: Claude Code keeps the history of every project in the file of its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""Of a client's file in the home directory: its other servers' entries will hold keys."""

_STAMP = "%Y%m%dT%H%M%SZ"


@struct
class Changed:
    """What an edit did."""

    backup: Path | None = None
    written: bool = False


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
    backup: bool = True,
) -> Changed:
    """Change a file; a link is followed and stays a link, a file that does not exist is made.

    Args:
        path: the file.
        change: gives the new content for the old; none stands for no file. What it raises leaves all as it is.
        within: a folder, links resolved, that the file must lie in: a project may come from anybody.
        backup: whether to keep a copy of the old file beside it.

    Raises:
        ConfigError: the file cannot be read or written, leads elsewhere, or is changed by somebody just now.
    """
    real = Path(os.path.realpath(path))
    if within is not None and not real.is_relative_to(within):
        raise ConfigError(path, f"leads out of {within}; nothing was written")
    before = read_bytes(path)
    after = change(before)
    if after == before:
        return Changed()
    if read_bytes(path) != before:
        raise ConfigError(path, "something else changed the file at this moment; nothing was written, try again")
    try:
        copy = back_up(path) if backup and before is not None else None
        if after is None:
            real.unlink()
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(real, after, mode=_mode(real, private=within is None))
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error
    return Changed(copy, written=True)


def back_up(path: Path) -> Path | None:
    """Copy a file, with its mode, to a new name beside it that has the time (UTC); none if there is no file.

    Raises:
        OSError: it cannot be.
        ConfigError: the file cannot be read.
    """
    content = read_bytes(path)
    if content is None:
        return None
    stamp = time.strftime(_STAMP, time.gmtime())
    names = (f"{path.name}.{stamp}{end}.bak" for end in ("", *(f"-{number}" for number in range(2, 1000))))
    copy = next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))
    write_atomically(copy, content, mode=_mode(Path(os.path.realpath(path)), private=True))
    return copy


def _mode(real: Path, *, private: bool) -> int:
    try:
        return stat.S_IMODE(real.stat().st_mode)
    except FileNotFoundError:
        return _NEW_PRIVATE_MODE if private else _NEW_MODE
