"""Documents and chunks as stored in an index, converted from SQLite rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import product
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from kbhub.types import Kind
from kbhub.values import struct

if TYPE_CHECKING:
    from array import array


@struct
class DocumentRow:
    """A document in the index."""

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
    """Time of the last commit, seconds since the epoch."""


@struct
class ChunkRow:
    """A chunk in the index."""

    id: int
    document_id: int
    headings: tuple[str, ...]
    start_line: int
    end_line: int
    prose: int
    """Offset in `text` of the first character after the front matter."""
    text: str


DOCUMENT = "id, path, docid, title, kind, tags, aliases, size, mtime_ns, dated, committed"
"""Columns of `document` for `document_of`."""

CHUNK = "id, document_id, headings, start_line, end_line, prose, text"
"""Columns of `chunk` for `chunk_of`."""

MOST_NESTED = 100
"""Depth of front matter; that of a document has at most 50 (`frontmatter.MAX_DEPTH`)."""

_DOCUMENT_TYPES = frozenset((int, *[str] * 6, int, int, *times) for times in product((int, NoneType), repeat=2))
KINDS = frozenset(get_args(Kind))
"""Kinds of documents."""

_CHUNK_TYPES = (int, int, str, int, int, int, str)


def document_of(row: Sequence[Any]) -> DocumentRow:
    """Convert a row to a document; invalid values, as in a damaged file, raise TypeError or ValueError."""
    if tuple(map(type, row)) not in _DOCUMENT_TYPES or row[4] not in KINDS:
        raise TypeError("what it says of a document makes no sense")
    number, path, docid, title, kind, tags, aliases, *rest = row
    return DocumentRow(number, path, docid, title, kind, texts_of(tags), texts_of(aliases), *rest)


def chunk_of(row: Sequence[Any]) -> ChunkRow:
    """Convert a row to a chunk; raises like `document_of`."""
    if tuple(map(type, row)) != _CHUNK_TYPES:
        raise TypeError("what it says of a chunk makes no sense")
    return ChunkRow(row[0], row[1], texts_of(row[2]), *row[3:])


def title_above(title: str, kind: str, start_line: int) -> str:
    """Return the title under which the chunk at a line (1-based) of a document is indexed.

    A session's title is mostly its first sentence, which would make every turn a hit for its words, so it stands above
    the first turn alone.
    """
    return "" if kind == "session" and start_line > 1 else title


def texts_of(written: str) -> tuple[str, ...]:
    """Parse a stored list of texts; raises like `document_of`, and RecursionError."""
    if written == "[]":  # of most documents; parsing 20,000 takes 0.1 s
        return ()
    texts = json.loads(written)
    if type(texts) is not list or any(type(text) is not str for text in texts):
        raise TypeError("a list of texts in it is none")
    return tuple(texts)


def mapping_of(written: str) -> dict[str, Any]:
    """Parse stored front matter; raises like `texts_of`."""
    mapping: dict[str, Any] = json.loads(written)
    if type(mapping) is not dict:
        raise TypeError("front matter in it is none")
    level: list[Any] = [mapping]
    for _ in range(MOST_NESTED):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return mapping
    raise ValueError("front matter in it is nested too deeply")


@struct
class Selection:
    """The documents and chunks that a query may find in one index, within one snapshot."""

    chunks: array[int]
    """Ids of the chunks, ascending."""
    documents: int
    """Number of documents they belong to."""
    filtered: bool = True
    """Whether a filter or an exclusion selected them."""


K1, B = 1.2, 0.75
"""Saturation and length normalisation of BM25, as built into FTS5."""

IDF_FLOOR = 1e-6
"""Inverse document frequency of a term in more than half of the chunks, as in FTS5."""

FTS_COLUMNS = ("title", "headings", "path", "tags", "body")
FTS_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0)
"""Weight of a term's occurrence per column."""

Key = tuple[int, int]
"""A chunk of several bases: (number of the base, chunk id)."""

Place = tuple[str, int, str]
"""Position of a chunk: (path, first line, base id)."""


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Return the BM25 weight of a term that `containing` of all `rows` chunks contain."""
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))
