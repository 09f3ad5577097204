"""Texts of files that may be deleted: kept in the user's data, so that they stay searchable when the files are gone.

What is kept is text alone, compressed, one file for each document, written when it is indexed. A document whose file
is gone has a negative size in the index (see `gone_size`).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kbhub.errors import KbhubError, UsageError
from kbhub.files import read_regular
from kbhub.filters import Filters, included
from kbhub.ignore import parse_rules
from kbhub.later import markdown
from kbhub.places import data_dir, private_directory, write_atomically
from kbhub.types import Document, Heading
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.types import Base, FileEntry, Kind, Scan

FOLDER = "kept"
"""Folder below kbhub's data directory; it has one folder per base."""

ABOUT = "base.json"
"""File that says which base a folder is of, and which patterns the command line added."""

SUFFIX = ".kept"

FORMAT = 1
"""Raised when what is in such a file changes its meaning; a file of a later format is left alone."""

MAX_BYTES = 256 << 20
"""Bytes of one such file, and of the text in it; more than the largest session has."""

_HEADER_BYTES = 16 << 10
"""Bytes of the first line, which has a path."""


@struct
class Kept:
    """What is kept of a file."""

    path: str
    size: int
    """Bytes of the file."""
    mtime_ns: int
    digest: bytes
    """SHA-256 of the file."""
    kind: Kind
    document: Document
    gone: float | None = None
    """When its file was first missed, seconds since the epoch; none if that was not noted."""


def gone_size(size: int) -> int:
    """Give the size under which a document is in the index once its file is gone: below zero, which no file has."""
    return -1 - size


def is_gone(size: int) -> bool:
    """Whether a size in the index is that of a document whose file is gone."""
    return size < 0


def deleted_words(since: float | None) -> str:
    """Say that a file is gone, and since when, for a reader of the text that was kept of it.

    Args:
        since: when it was first missed, seconds since the epoch.
    """
    when = f", first missed on {datetime.fromtimestamp(since, UTC).date()}" if since is not None else ""
    return f"its file was deleted{when}; this is the text that was kept of it"


class Keeping:
    """The kept texts of one base.

    Args:
        root: kbhub's folder for them; none keeps nothing.
        base: the base.
    """

    def __init__(self, root: Path | None, base: Base) -> None:
        self.root, self.base = root, base
        # By the real path, as the index: the same folder under another id has the same texts.
        digest = hashlib.sha256(str(base.path).encode("utf-8", "surrogateescape")).hexdigest()
        self.folder = root / digest[:16] if root else None
        self.added = _patterns(self.folder)
        """Patterns that the command line added."""
        # A memory that is forgotten must be gone.
        wanted = bool(root) and base.kind != "memory"
        self.rules = parse_rules((*base.keep_deleted, *self.added), "keepDeleted") if wanted else ()

    def wants(self, path: str) -> bool:
        """Whether the text of a file is to be kept."""
        return bool(self.rules) and included(self.rules, path)

    def lacks(self, path: str) -> bool:
        """Whether the text of a file is to be kept and is not there."""
        return self.wants(path) and _name(path) not in self._names

    def save(self, entry: FileEntry, digest: bytes, kind: Kind, document: Document) -> None:
        """Keep the text of a file.

        Raises:
            OSError: it cannot be written.
        """
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
        write_atomically(self.folder / _name(entry.path), first + zlib.compress(json.dumps(_packed(document)).encode()))
        self._names.add(_name(entry.path))

    def load(self, path: str) -> Kept | None:
        """Give what is kept of a file; none if nothing is, or nothing that can be read."""
        if self.folder is None or not self.wants(path):
            return None
        try:
            data = read_regular(self.folder / _name(path), MAX_BYTES)
            first, _, rest = data.partition(b"\n")
            header, unpacker = json.loads(first), zlib.decompressobj()
            body = unpacker.decompress(rest, MAX_BYTES)
            if header["format"] > FORMAT or header["path"] != path or not unpacker.eof:
                return None
            kind = header["kind"]
            document = _unpacked(path, kind, json.loads(body))
            digest, gone = bytes.fromhex(header["sha256"]), header.get("gone")
            return Kept(path, header["size"], header["mtimeNs"], digest, kind, document, gone and float(gone))
        except (OSError, ValueError, KeyError, TypeError, zlib.error):
            return None

    def note(self, path: str, *, gone: bool) -> None:
        """Note when the file of a kept text was first missed, or that it is there again.

        Raises:
            OSError: that cannot be written.
        """
        if self.folder is None or not self.wants(path) or _name(path) not in self._names:
            return
        file = self.folder / _name(path)
        with file.open("rb") as opened:
            try:
                header = json.loads(opened.readline(_HEADER_BYTES))
            except ValueError:
                return
            if not isinstance(header, dict) or ("gone" in header) == gone:
                return
            header.pop("gone", None)
            header |= {"gone": time.time()} if gone else {}
            data = opened.read(MAX_BYTES)
        write_atomically(file, json.dumps(header).encode() + b"\n" + data)

    def gone_since(self, path: str) -> float | None:
        """Give when the file of a kept text was first missed, seconds since the epoch; none if nothing says."""
        if self.folder is None:
            return None
        try:
            with (self.folder / _name(path)).open("rb") as file:
                return float(json.loads(file.readline(_HEADER_BYTES))["gone"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def with_gone(self, found: Scan) -> Scan:
        """Add the files that are gone and whose text is kept to what a walk found, with sizes below zero."""
        if not self.rules or not self._names:
            return found
        here = {_name(path) for path in found.files}
        hidden = tuple(f"{folder}/" if folder else "" for folder in found.unlisted)
        filters = Filters(self.base)
        files = dict(found.files)
        for path, size, mtime in self._headers(self._names - here):
            unknown = path.startswith(hidden or "\0")
            there = os.path.lexists(self.base.path / path)
            if self.wants(path) and not unknown and not there and filters.reason(path) is None:
                files[path] = (gone_size(size), mtime)
        return replace(found, files={path: files[path] for path in sorted(files)})

    def add(self, patterns: Iterable[str]) -> None:
        """Keep what some more patterns name, from now on.

        Raises:
            OSError: that cannot be written down.
        """
        self.added = tuple(dict.fromkeys((*self.added, *patterns)))
        self._write_about()
        self.rules = parse_rules((*self.base.keep_deleted, *self.added), "keepDeleted")

    def forget(self, patterns: Iterable[str]) -> list[str]:
        """Take back patterns that were added, and delete the texts of gone files that patterns name.

        Args:
            patterns: as for `add`; `*` is all.

        Returns:
            Paths whose text was deleted.

        Raises:
            OSError: one cannot be deleted.
        """
        if self.folder is None or not self.folder.is_dir():
            return []
        taken = tuple(patterns)
        rules = parse_rules(taken, "keepDeleted")
        forgotten = []
        for path, _, _ in list(self._headers(self._names)):
            if included(rules, path) and not os.path.lexists(self.base.path / path):
                (self.folder / _name(path)).unlink(missing_ok=True)
                self._names.discard(_name(path))
                forgotten.append(path)
        self.added = tuple(pattern for pattern in self.added if pattern not in taken)
        self._write_about()
        self.rules = parse_rules((*self.base.keep_deleted, *self.added), "keepDeleted")
        return sorted(forgotten)

    @cached_property
    def _names(self) -> set[str]:
        try:
            return {name for name in os.listdir(self.folder) if name.endswith(SUFFIX)} if self.folder else set()  # noqa: PTH208
        except OSError:
            return set()

    def _headers(self, names: Iterable[str]) -> Iterator[tuple[str, int, int]]:
        """Give (path, size, mtime in ns) of kept files that can be read."""
        for name in sorted(names):
            assert self.folder is not None
            try:
                with (self.folder / name).open("rb") as file:
                    header = json.loads(file.readline(_HEADER_BYTES))
                path, size, mtime = str(header["path"]), int(header["size"]), int(header["mtimeNs"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if _name(path) == name:
                yield path, size, mtime

    def _write_about(self) -> None:
        assert self.folder is not None
        private_directory(self.folder)
        about = {"base": str(self.base.path), "keepDeleted": list(self.added)}
        write_atomically(self.folder / ABOUT, json.dumps(about, ensure_ascii=True, indent=2) + "\n")


def change_keeping(hub: Hub, names: Iterable[str], *, keep: Sequence[str], forget: Sequence[str]) -> list[str]:
    """Keep the texts of more files of some bases, or of fewer.

    Args:
        hub: the hub.
        names: ids of bases; those that are not active are left out.
        keep: patterns to add.
        forget: patterns to take back; what is kept of gone files that they name is deleted.

    Returns:
        What was forgotten, in sentences.

    Raises:
        UsageError: a pattern is empty.
        KbhubError: it cannot be written down.
    """
    if not all(pattern.strip() for pattern in (*keep, *forget)):
        raise UsageError("A pattern of files to keep or to forget is empty; name files, such as 'logs/' or '*.jsonl'.")
    chosen, said = set(names), []
    for base in hub.discovery().bases if keep or forget else ():
        if base.id not in chosen or base.kind == "memory":
            continue
        keeping = Keeping(data_dir(hub.options.env) / FOLDER, base)
        try:
            if keep:
                keeping.add(keep)
            gone = keeping.forget(forget) if forget else []
        except OSError as error:
            raise KbhubError(f"What is kept of base {base.id!r} cannot be changed: {error}.") from error
        if forget:
            said.append(f"{base.id}: what was kept of {len(gone)} deleted files is forgotten.")
        if forget and (own := [pattern for pattern in forget if pattern in base.keep_deleted]):
            said.append(f"{base.id}: the config goes on to keep {', '.join(map(repr, own))} (`keepDeleted`).")
    return said


def _name(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32] + SUFFIX


def _patterns(folder: Path | None) -> tuple[str, ...]:
    if folder is None:
        return ()
    try:
        listed = json.loads(read_regular(folder / ABOUT, _HEADER_BYTES))["keepDeleted"]
        return tuple(text for text in listed if isinstance(text, str))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _packed(document: Document) -> dict[str, Any]:
    """Give what a document can be made of again."""
    return {
        "title": document.title,
        "lines": document.lines,
        "body": document.body,
        "frontMatter": document.front_matter,
        "aliases": document.aliases,
        "headings": [asdict(heading) for heading in document.headings],
    }


def _unpacked(path: str, kind: Kind, packed: dict[str, Any]) -> Document:
    lines = tuple(map(str, packed["lines"]))
    if kind not in ("session", "pdf"):
        # Markdown and plain text are their own source, and gain from whatever the parser has learnt since.
        return markdown.parse_document(path, "\n".join((*lines, "")).encode("utf-8", "replace"))
    headings = tuple(Heading(int(one["level"]), str(one["text"]), int(one["line"])) for one in packed["headings"])
    return Document(
        path=path,
        title=str(packed["title"]),
        lines=lines,
        body=int(packed["body"]),
        front_matter=dict(packed["frontMatter"]),
        tags=(),
        aliases=tuple(map(str, packed["aliases"])),
        headings=headings,
        fences=(),
        links=(),
    )
