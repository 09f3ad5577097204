"""Documents and chunks as an index has them, and how they are made of what SQLite gives."""

from __future__ import annotations

import json
from itertools import product
from types import NoneType
from typing import TYPE_CHECKING, Any

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.types import Kind


@struct
class DocumentRow:
    """A document as the index has it."""

    id: int
    path: str
    docid: str
    title: str
    kind: Kind
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    size: int
    mtime_ns: int
    dated: int | None
    """Front matter `updated` or `date`, seconds since the epoch."""
    committed: int | None
    """Last commit, seconds since the epoch."""


@struct
class ChunkRow:
    """A chunk as the index has it."""

    id: int
    document_id: int
    headings: tuple[str, ...]
    start_line: int
    end_line: int
    prose: int
    """Offset in `text` of the first character after the front matter."""
    text: str


DOCUMENT = "id, path, docid, title, kind, tags, aliases, size, mtime_ns, dated, committed"
"""Columns of `document` that `document_of` takes."""

CHUNK = "id, document_id, headings, start_line, end_line, prose, text"
"""Columns of `chunk` that `chunk_of` takes."""

_DOCUMENT_TYPES = frozenset((int, *[str] * 6, int, int, *times) for times in product((int, NoneType), repeat=2))
_CHUNK_TYPES = (int, int, str, int, int, int, str)


def document_of(row: Sequence[Any]) -> DocumentRow:
    """Make a document of its columns.

    Raises:
        TypeError, ValueError: they are not what was written, as in a damaged file.
    """
    if tuple(map(type, row)) not in _DOCUMENT_TYPES:
        raise TypeError("what it says of a document makes no sense")
    number, path, docid, title, kind, tags, aliases, *rest = row
    return DocumentRow(number, path, docid, title, kind, _texts(tags), _texts(aliases), *rest)


def chunk_of(row: Sequence[Any]) -> ChunkRow:
    """Make a chunk of its columns; raises as `document_of` does."""
    if tuple(map(type, row)) != _CHUNK_TYPES:
        raise TypeError("what it says of a chunk makes no sense")
    return ChunkRow(row[0], row[1], _texts(row[2]), *row[3:])


def place_of(path: Any, line: Any) -> tuple[str, int]:
    """Make a place of a path and a line; raises as `document_of` does."""
    if type(path) is not str or type(line) is not int:
        raise TypeError("what it says of a place makes no sense")
    return path, line


def _texts(written: str) -> tuple[str, ...]:
    return () if written == "[]" else tuple(json.loads(written))
