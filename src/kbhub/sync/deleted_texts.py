"""Keep the texts of files that may be deleted, so that they stay searchable.

Only text is kept, compressed, one file per document in the user's data folder, written on indexing. A document whose
file is gone has a negative size in the index: -1 less that of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from kbhub.documents.filters import Filters, included, parse_rules
from kbhub.documents.walk import KEPT, Scan, listing_of
from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub
from kbhub.types import Base, Document, FileEntry, Kind
from kbhub.values import counted, struct
from kbhub.workspace.files import private_directory, read_regular, write_atomically

ABOUT = "base.json"
"""Describes a folder: its base and the patterns added on the command line."""

SUFFIX = ".kept"

FORMAT = 1
"""Format version; files of a later version are left alone."""

MAX_BYTES = 256 << 20
"""Size limit of a kept file and of the text in it; more than the largest session has."""

_HEADER_BYTES = 16 << 10
"""Size limit of the first line, which contains a path."""


@struct
class DeletedText:
    """A kept text and its file."""

    path: str
    size: int
    """Size of the file in bytes."""
    mtime_ns: int
    digest: bytes
    """SHA-256 of the file."""
    kind: Kind
    document: Document
    gone: float | None = None
    """When its file was first found missing, seconds since the epoch; None if that was not recorded."""


def deleted_words(since: float | None) -> str:
    """Return the words that tell a reader of a kept text that its file is gone, and since when (in epoch seconds)."""
    when = f", first missed on {datetime.fromtimestamp(since, UTC).date()}" if since is not None else ""
    return f"its file was deleted{when}; this is the kept text"


class DeletedTexts:
    """The kept texts of one base, in kbhub's folder for them; without one (None), nothing is kept."""

    def __init__(self, root: Path | None, base: Base) -> None:
        self.root, self.base = root, base
        # By real path, as for the index: one folder under two ids shares its texts, unless they are those of projects.
        place = f"{base.path}\0{base.sessions_of}" if base.sessions_of else str(base.path)
        digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        self.folder = root / digest[:16] if root else None
        self.added: tuple[str, ...] = ()
        """Patterns added on the command line."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            if self.folder:
                listed = json.loads(read_regular(self.folder / ABOUT, _HEADER_BYTES))["keepDeleted"]
                self.added = tuple(text for text in listed if isinstance(text, str))
        # A forgotten memory must really be gone.
        enabled = bool(root) and base.kind != "memory"
        self.rules = parse_rules((*base.keep_deleted, *self.added), "keepDeleted") if enabled else ()

    def wants(self, path: str) -> bool:
        """Whether the text of a file should be kept."""
        return bool(self.rules) and included(self.rules, path)

    def lacks(self, path: str) -> bool:
        """Whether the text of a file should be kept but is not yet."""
        return self.wants(path) and _name(path) not in self._names

    def save(self, entry: FileEntry, digest: bytes, kind: Kind, document: Mapping[str, Any]) -> None:
        """Keep the text of a file, given its SHA-256 and what `packed` made of it."""
        assert self.folder is not None
        if not (self.folder / ABOUT).exists():
            self._write_about()
        header = {
            "format": FORMAT,
            "path": entry.path,
            "size": entry.size,
            "mtimeNs": entry.mtime_ns,
            "sha256": digest.hex(),
            "kind": kind,
        }
        first = json.dumps(header).encode() + b"\n"
        write_atomically(self.folder / _name(entry.path), first + zlib.compress(json.dumps(document).encode()))
        self._names.add(_name(entry.path))

    def load(self, path: str) -> DeletedText | None:
        """Return the kept text of a file, or None if there is none or it cannot be read."""
        if self.folder is None or not self.wants(path):
            return None
        # It, the parsers and YAML take 20 ms to load, and every search scans its bases.
        from kbhub.documents.source import unpacked  # noqa: PLC0415

        try:
            data = read_regular(self.folder / _name(path), MAX_BYTES)
            first, _, rest = data.partition(b"\n")
            header, unpacker = json.loads(first), zlib.decompressobj()
            body = unpacker.decompress(rest, MAX_BYTES)
            if header["format"] > FORMAT or header["path"] != path or not unpacker.eof:
                return None
            kind = header["kind"]
            document = unpacked(path, kind, json.loads(body), inline=self.base.inline_tags)
            digest, gone = bytes.fromhex(header["sha256"]), header.get("gone")
            return DeletedText(path, header["size"], header["mtimeNs"], digest, kind, document, gone and float(gone))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return None

    def note(self, path: str, *, gone: bool) -> None:
        """Record that the file of a kept text is missing since now, or that it is back."""
        if self.folder is None or not self.wants(path) or _name(path) not in self._names:
            return
        header = self._header(_name(path))
        if header and ("gone" in header) != gone:
            header.pop("gone", None)
            header |= {"gone": time.time()} if gone else {}
            _, _, body = read_regular(self.folder / _name(path), MAX_BYTES).partition(b"\n")
            write_atomically(self.folder / _name(path), json.dumps(header).encode() + b"\n" + body)

    def gone_since(self, path: str) -> float | None:
        """Return when the file of a kept text was first found missing (seconds since the epoch), or None if unknown."""
        gone = self._header(_name(path)).get("gone")
        return float(gone) if isinstance(gone, int | float) else None

    def with_gone(self, scan: Scan) -> Scan:
        """Add deleted files with kept texts to a scan, with negative sizes."""
        if not self.rules or not self._names:
            return scan
        present = {_name(path) for path in scan.files}
        hidden = tuple(f"{folder}/" if folder else "" for folder in scan.unlisted)
        filters = Filters(self.base)
        files = dict(scan.files)
        for path, size, mtime in self._headers(self._names - present):
            unlisted = path.startswith(hidden or "\0")
            exists = os.path.lexists(self.base.path / path)
            if self.wants(path) and not unlisted and not exists and filters.reason(path) is None:
                files[path] = (-1 - size, mtime)
        return replace(scan, listings=(listing_of(files),))

    def add(self, patterns: Iterable[str]) -> None:
        """Keep the texts of files that match more patterns, from now on."""
        self._change(tuple(dict.fromkeys((*self.added, *patterns))))

    def forget(self, patterns: Iterable[str]) -> list[str]:
        """Remove added patterns and delete the kept texts of missing files that match; return their paths.

        `*` matches everything.
        """
        if self.folder is None or not self.folder.is_dir():
            return []
        removed = tuple(patterns)
        rules = parse_rules(removed, "keepDeleted")
        deleted = []
        for path, _, _ in list(self._headers(self._names)):
            if included(rules, path) and not os.path.lexists(self.base.path / path):
                (self.folder / _name(path)).unlink(missing_ok=True)
                self._names.discard(_name(path))
                deleted.append(path)
        self._change(tuple(pattern for pattern in self.added if pattern not in removed))
        return sorted(deleted)

    @cached_property
    def _names(self) -> set[str]:
        try:
            return {name for name in os.listdir(self.folder) if name.endswith(SUFFIX)} if self.folder else set()  # noqa: PTH208
        except OSError:
            return set()

    def _header(self, name: str) -> dict[str, Any]:
        """Return the first line of a kept file; empty if it cannot be read."""
        with suppress(OSError, ValueError), ((self.folder or Path()) / name).open("rb") as file:
            header = json.loads(file.readline(_HEADER_BYTES))
            return header if isinstance(header, dict) else {}
        return {}

    def _headers(self, names: Iterable[str]) -> Iterator[tuple[str, int, int]]:
        """Yield (path, size, mtime in ns) of readable kept files."""
        for name in sorted(names):
            match self._header(name):
                case {"path": str(path), "size": int(size), "mtimeNs": int(mtime)} if _name(path) == name:
                    yield path, size, mtime

    def _change(self, added: tuple[str, ...]) -> None:
        self.added = added
        self._write_about()
        self.rules = parse_rules((*self.base.keep_deleted, *added), "keepDeleted")

    def _write_about(self) -> None:
        assert self.folder is not None
        private_directory(self.folder)
        about = {"base": str(self.base.path), "keepDeleted": list(self.added)}
        write_atomically(self.folder / ABOUT, json.dumps(about, ensure_ascii=True, indent=2) + "\n")


def change_keeping(hub: Hub, names: Iterable[str], *, keep: Sequence[str], forget: Sequence[str]) -> list[str]:
    """Keep the texts of more or fewer files of some bases; return what was done, in sentences.

    Inactive bases are ignored. Kept texts of missing files that match a pattern in `forget` are deleted.

    Raises `UsageError` if a pattern is empty; `KbhubError` if the change cannot be saved.
    """
    if not all(pattern.strip() for pattern in (*keep, *forget)):
        raise UsageError("Empty pattern of files to keep or to forget. Name files, such as 'logs/' or '*.jsonl'.")
    ids, sentences = set(names), []
    for base in hub.discovery().bases if keep or forget else ():
        if base.id not in ids or base.kind == "memory":
            continue
        keeping = DeletedTexts(hub.data / KEPT, base)
        try:
            if keep:
                keeping.add(keep)
            gone = keeping.forget(forget) if forget else []
        except OSError as error:
            raise KbhubError(f"Cannot change the kept text of base {base.id!r}: {error}.") from error
        if forget:
            sentences.append(f"{base.id}: deleted the kept text of {counted(len(gone), 'deleted file')}.")
        if forget and (own := [pattern for pattern in forget if pattern in base.keep_deleted]):
            sentences.append(f"{base.id}: the config still keeps {', '.join(map(repr, own))} (`keepDeleted`).")
    return sentences


def _name(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32] + SUFFIX
