"""What clients' files were before kbhub changed them, kept in kbhub's own data, so that a removal can undo a change."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.places import private_directory, write_atomically
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = "setup"
"""In kbhub's data directory: one folder for each changed file."""

ABOUT = "about.json"

MAX_COPIES = 1000
"""Copies of one file within a second."""

_STAMP = "%Y%m%dT%H%M%SZ"


@struct
class Change:
    """What kbhub did to a file, up to its last change."""

    content: bytes | None
    """What the file held before; none if there was no file."""
    copy: Path | None
    """Where that is kept."""
    after: str
    """SHA-256 of what it held afterwards, in hex: else somebody has changed it since."""
    folders: tuple[Path, ...]
    """Those that were made for it, the deepest first."""


class Records:
    """The changes of files.

    Args:
        data: kbhub's data directory.
    """

    def __init__(self, data: Path) -> None:
        self._top = data / FOLDER

    def of(self, file: Path) -> Change | None:
        """Give what was done to a file; none if nothing was, or that cannot be read."""
        folder = self._folder(file)
        try:
            about = json.loads((folder / ABOUT).read_bytes())
            copy = folder / Path(about["copy"]).name if about["copy"] else None
            content = copy.read_bytes() if copy else None
            return Change(content, copy, str(about["after"]), tuple(map(Path, about["folders"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def copied(self, file: Path, content: bytes | None) -> Path | None:
        """Keep what a file holds before it is changed, under the time (UTC); gives where, none if there is no file.

        Raises:
            OSError: it cannot be kept.
        """
        if content is None:
            return None
        folder, stamp = private_directory(self._folder(file)), time.strftime(_STAMP, time.gmtime())
        names = (f"{file.name}.{stamp}{end}.bak" for end in ("", *(f"-{one}" for one in range(2, MAX_COPIES))))
        copy = next(folder / name for name in names if not (folder / name).exists())
        write_atomically(copy, content)
        return copy

    def changed(
        self, file: Path, copy: Path | None, before: bytes | None, after: bytes | None, made: Sequence[Path]
    ) -> Path | None:
        """Note a change; one that follows upon another is one with it.

        Args:
            file: which.
            copy: what `copied` gave.
            before: what it held.
            after: what it holds.
            made: folders that were made for it, the deepest first.

        Returns:
            The copy of what it held before kbhub changed it.

        Raises:
            OSError: it cannot be noted.
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
        """Forget a change, and delete copies of what is there again.

        Raises:
            OSError: they cannot be deleted.
        """
        folder = self._folder(file)
        for path in (folder / ABOUT, *filter(None, copies)):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it has copies that somebody may miss, or was never made
            folder.rmdir()

    def _folder(self, file: Path) -> Path:
        real = os.path.realpath(file).encode("utf-8", "surrogateescape")
        return self._top / hashlib.sha256(real).hexdigest()[:16]


def digest(content: bytes | None) -> str:
    """Give the SHA-256 of what a file holds, in hex; empty if there is no file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def missing_folders(file: Path) -> tuple[Path, ...]:
    """Give the folders above a file that are not there, the deepest first."""
    return tuple(folder for folder in Path(os.path.realpath(file)).parents if not folder.exists())
