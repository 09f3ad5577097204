"""Backups of clients' files in kbhub's data directory, so that removing the server can restore the original."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.values import struct
from kbhub.workspace.places import private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = "setup"
"""Folder in the data directory, with a subfolder for each changed file."""

ABOUT = "about.json"

MAX_COPIES = 1000
"""Limit of copies of one file within a second."""

_STAMP = "%Y%m%dT%H%M%SZ"


@struct
class Change:
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
    """The recorded changes of all files.

    Args:
        data: kbhub's data directory.
    """

    def __init__(self, data: Path) -> None:
        self._top = data / FOLDER

    def of(self, file: Path) -> Change | None:
        """Return the recorded change of a file, or None if there is none or it cannot be read."""
        folder = self._folder(file)
        try:
            about = json.loads((folder / ABOUT).read_bytes())
            copy = folder / Path(about["copy"]).name if about["copy"] else None
            content = copy.read_bytes() if copy else None
            return Change(content, copy, str(about["after"]), tuple(map(Path, about["folders"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def copied(self, file: Path, content: bytes | None) -> Path | None:
        """Back up a file's content under a UTC timestamp; return the backup's path, or None if there is no file.

        Raises:
            OSError: the backup cannot be written.
        """
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

        Args:
            file: the file.
            copy: the backup from `copied`.
            before: the content before the change.
            after: the content after it.
            made: folders created for the file, deepest first.

        Returns:
            The backup of the original content.

        Raises:
            OSError: the record cannot be written.
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
        """Delete the record of a change, and the given backups.

        Raises:
            OSError: they cannot be deleted.
        """
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
