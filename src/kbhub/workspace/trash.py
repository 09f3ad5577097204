"""The trash: deleted documents and forgotten memories, in the user's data until it is emptied or they expire.

A document has a folder with its bytes and an `entry.json`. The folder gets its final name when both are on disk, and
only then is the document removed: after a crash it is in its place or in the trash. A memory is a file in a folder with
the name of the one that it was in. Folders with other names, and other files, are ignored.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePath

from pydantic import Field, ValidationError

from kbhub.errors import KbhubError
from kbhub.frozen import Model
from kbhub.values import DAY_SECONDS
from kbhub.workspace.files import (
    ABANDONED_SECONDS,
    numbered,
    private_directory,
    read_regular,
    sync_folder,
    write_atomically,
)
from kbhub.workspace.formats import MARKDOWN_SUFFIX, is_markdown

MAX_ENTRY_BYTES = 64 * 1024
"""Limit of an `entry.json`, which holds two paths and some numbers."""

_ENTRY, _DOCUMENT, _UNFINISHED = "entry.json", "document", ".new-"
_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_FORGOTTEN = re.compile(r"(?P<stem>.+)\.\d+(?:-\d+)?")
"""Stem of a forgotten memory: its own, and when it was forgotten."""


class TrashEntry(Model):
    """A deleted document."""

    id: str = Field(description="Its name in the trash, for `kbhub doc restore`.")
    ref: str = Field(description="Its former ref.")
    base: str = Field(description="Id of its base.")
    base_path: Path = Field(description="The base's folder.")
    path: str = Field(description="Its path in the base.")
    deleted: str = Field(description="When it was deleted (ISO 8601, UTC).")
    hash: str = Field(description="SHA-256 of its content, hexadecimal.")
    bytes: int = Field(description="Its size.")
    mode: int = Field(description="Its permission bits.")


class Trash:
    """The trash in a data directory."""

    def __init__(self, data: Path) -> None:
        self._root = Path(os.path.realpath(data)) / "trash"

    def documents(self) -> tuple[TrashEntry, ...]:
        """Return the deleted documents, latest first."""
        entries = []
        with suppress(OSError):
            for name in [folder.name for folder in self._root.iterdir() if _NAME.fullmatch(folder.name)]:
                with suppress(OSError, ValidationError):
                    data = read_regular(self._root / name / _ENTRY, MAX_ENTRY_BYTES, follow=False)
                    if (entry := TrashEntry.model_validate_json(data)).id == name:
                        entries.append(entry)
        return tuple(sorted(entries, key=lambda entry: (entry.deleted, entry.id), reverse=True))

    def keep_document(self, data: bytes, now: datetime, **about: object) -> TrashEntry:
        """Write a document and its entry to the trash; both are on disk on return."""
        private_directory(self._root)
        for folder in self._root.iterdir():  # unfinished and half-removed entries of killed processes
            with suppress(OSError):
                half = folder.name.startswith(_UNFINISHED) or (
                    _NAME.fullmatch(folder.name) and not (folder / _ENTRY).exists()
                )
                abandoned = time.time() - folder.lstat().st_mtime > ABANDONED_SECONDS
                if half and abandoned and not folder.is_symlink():
                    shutil.rmtree(folder, ignore_errors=True)
        name = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        deleted = now.isoformat(timespec="seconds")
        entry = TrashEntry.model_validate({"id": name, "deleted": deleted, "bytes": len(data), **about})
        unfinished = self._root / f"{_UNFINISHED}{secrets.token_hex(8)}"
        unfinished.mkdir(mode=0o700)
        try:
            write_atomically(unfinished / _DOCUMENT, data)
            write_atomically(unfinished / _ENTRY, json.dumps(entry.model_dump(mode="json"), indent=2) + "\n")
            unfinished.rename(self._root / name)
            sync_folder(self._root)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return entry

    def content(self, entry: TrashEntry) -> bytes:
        """Return the bytes of a deleted document."""
        return read_regular(self._root / entry.id / _DOCUMENT, max(entry.bytes, 1), follow=False)

    def discard(self, entry: TrashEntry) -> None:
        """Remove a deleted document, its metadata first, so that none is ever listed without its bytes."""
        folder = self._root / entry.id
        try:
            (folder / _ENTRY).unlink()
            shutil.rmtree(folder)
        except OSError as error:
            raise KbhubError(f"Cannot remove {folder} from the trash: {error.strerror}. Remove it by hand.") from error

    def memories(self, label: str) -> list[Path]:
        """Return the forgotten memories of a folder, by name."""
        folder = self._root / label
        if folder.is_symlink() or not folder.is_dir():
            return []
        return [file for file in sorted(folder.glob(f"*{MARKDOWN_SUFFIX}")) if file.is_file()]

    def keep_memory(self, label: str, file: PurePath, data: bytes, now: float) -> Path:
        """Write a memory to the trash and return its folder there."""
        folder = private_directory(self._root / label)
        names = numbered(f"{file.stem}.{int(now)}{file.suffix}")
        target = next(folder / name for name in names if not (folder / name).exists())
        write_atomically(target, data)
        os.utime(target, (now, now))  # it expires from now on
        return folder

    def expire_memories(self, days: int, now: float) -> None:
        """Delete memories forgotten more than some days ago (0 keeps none); files that cannot be deleted stay."""
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            for file in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
                with suppress(OSError):
                    expired = not days or file.lstat().st_mtime < now - days * DAY_SECONDS
                    if expired and is_markdown(file.name):
                        file.unlink()


def former_stem(file: Path) -> str:
    """Return the name, without suffix, that a forgotten memory had."""
    match = _FORGOTTEN.fullmatch(file.stem)
    return match["stem"] if match else file.stem
