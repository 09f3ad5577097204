"""Edit other programs' files atomically, with backups so that removing the server can restore them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import ConfigError
from kbhub.values import struct
from kbhub.workspace.files import private_directory, read_regular, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MAX_BYTES = 64 * 1024 * 1024
"""Limit for a client's file; Claude Code keeps the history of every project in the same file as its servers."""

_NEW_MODE = 0o644
_NEW_PRIVATE_MODE = 0o600
"""For new files in the home directory, which may come to hold other servers' API keys."""


FOLDER = "setup"
"""Folder in the data directory, with a subfolder for each changed file."""

ABOUT = "about.json"

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


@struct
class FileChanges:
    """All of kbhub's changes to a file together."""

    content: bytes | None
    """The original content, or None if there was no file."""
    copy: Path | None
    """The backup of the original content."""
    after: str
    """Hex SHA-256 of the content after the last change, to detect changes by others."""
    folders: tuple[Path, ...]
    """Folders created for the file, deepest first."""


class Records:
    """The recorded changes of all files, in kbhub's data directory."""

    def __init__(self, data: Path) -> None:
        self._top = data / FOLDER

    def of(self, file: Path) -> FileChanges | None:
        """Return the recorded change of a file, or None if there is none or it cannot be read."""
        folder = self._folder(file)
        try:
            about = json.loads((folder / ABOUT).read_bytes())
            copy = folder / Path(about["copy"]).name if about["copy"] else None
            content = copy.read_bytes() if copy else None
            return FileChanges(content, copy, str(about["after"]), tuple(map(Path, about["folders"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def copied(self, file: Path, content: bytes | None) -> Path | None:
        """Back up a file's content under a UTC timestamp; return the backup's path, or None if there is no file."""
        if content is None:
            return None
        folder, stamp = private_directory(self._folder(file)), time.strftime(_STAMP, time.gmtime())
        names = (f"{file.name}.{stamp}{end}.bak" for end in ("", *(f"-{number}" for number in range(2, MAX_COPIES))))
        copy = next(folder / name for name in names if not (folder / name).exists())
        write_atomically(copy, content)
        return copy

    def changed(
        self, file: Path, copy: Path | None, before: bytes | None, after: bytes | None, made: Sequence[Path]
    ) -> Path | None:
        """Record a change, merging it with the previous one if nobody else changed the file in between.

        `made` has the folders created for the file, deepest first. Returns the backup of the original content.
        """
        old = self.of(file)
        if old and old.after == digest(before):
            if copy:
                copy.unlink(missing_ok=True)
            copy, made = old.copy, (*made, *old.folders)
        about = {
            "path": os.fsencode(file).decode("utf-8", "replace"),
            "copy": copy.name if copy else None,
            "after": digest(after),
            "folders": [str(folder) for folder in made],
        }
        write_atomically(private_directory(self._folder(file)) / ABOUT, json.dumps(about, indent=2) + "\n")
        return copy

    def undone(self, file: Path, *copies: Path | None) -> None:
        """Delete the record of a change, and the given backups."""
        folder = self._folder(file)
        for path in (folder / ABOUT, *filter(None, copies)):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it still holds other backups, or never existed
            folder.rmdir()

    def _folder(self, file: Path) -> Path:
        real = os.path.realpath(file).encode("utf-8", "surrogateescape")
        return self._top / hashlib.sha256(real).hexdigest()[:16]


def digest(content: bytes | None) -> str:
    """Return the hex SHA-256 of a file's content, or an empty string if there is no file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def missing_folders(file: Path) -> tuple[Path, ...]:
    """Return the parent folders of a file that do not exist, deepest first."""
    return tuple(folder for folder in Path(os.path.realpath(file)).parents if not folder.exists())
