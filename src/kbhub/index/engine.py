"""The index of a base as the core sees it, whatever engine holds it.

Two engines hold the same tables (`document`, `chunk`, `vector`, `property`, `link`, `problem`, `meta`, `vocabulary`).
Reads of these are written once, in SQL that both understand; each engine has its own words for the few things that
differ, written `@word`, and its own full-text index, vectors and connections.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from itertools import product
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from kbhub.errors import IndexUnavailable, KbhubError
from kbhub.index.query.parser import Term, fold, searchable
from kbhub.types import Chunk, Kind, Link
from kbhub.values import struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.signatures import Columns, Postings, Signatures


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
    """Bytes; negative for a file that is gone and whose text is kept."""
    mtime_ns: int
    dated: int | None
    """Front matter `updated` or `date`, seconds since the epoch."""
    committed: int | None
    """Time of the last commit, seconds since the epoch."""
    hash: bytes
    """SHA-256 of the file."""


@struct
class ChunkRow:
    """A chunk in the index."""

    id: int
    document_id: int
    headings: tuple[str, ...]
    start_line: int
    end_line: int
    prose: int
    text: str


DOCUMENT = "id, path, docid, title, kind, tags, aliases, size, mtime_ns, dated, committed, hash"
"""Columns of `document` for `document_of`."""

DATED = "coalesce(dated, committed, abs(mtime_ns) / 1000000000)"
"""SQL: date of a document in seconds since the epoch: its own, else that of its last commit, else its mtime."""

CHUNK = "id, document_id, headings, start_line, end_line, prose, text"
"""Columns of `chunk` for `chunk_of`."""

_DOCUMENT_TYPES = frozenset((int, *[str] * 6, int, int, *times, bytes) for times in product((int, NoneType), repeat=2))
KINDS = frozenset(get_args(Kind))

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
    """Return the title under which the chunk at a line (1-based) of a document is indexed."""
    # A session's title is mostly its first sentence, which would make every turn a hit for its words.
    return "" if kind == "session" and start_line > 1 else title


def texts_of(written: str) -> tuple[str, ...]:
    """Parse a stored list of texts; raises like `document_of`, and RecursionError."""
    if written == "[]":  # of most documents; parsing 20,000 takes 0.1 s
        return ()
    texts = json.loads(written)
    if type(texts) is not list or not {str}.issuperset(map(type, texts)):
        raise TypeError("a list of texts in it is none")
    return tuple(texts)


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

Key = tuple[int, int]
"""A chunk of several bases: (number of the base, chunk id)."""

Place = tuple[str, int, str]
"""Position of a chunk: (path, first line, base id)."""


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Return the BM25 weight of a term that `containing` of all `rows` chunks contain."""
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))


T = TypeVar("T")

log = logging.getLogger(__name__)

WORD = re.compile(r"@(\w+)")

PACKED_FROM = 2_000
"""Fewest chunks of a packed index; a smaller one is read in milliseconds anyway."""

AT_ONCE = 500
"""Documents whose files are compared at once; all would take memory that the process never returns."""

MOST_SAID = 200
"""Characters of an error that are repeated: it may quote a value."""

_open_here = threading.local()
"""The indexes with a snapshot in a thread."""


@struct(frozen=False)
class Snapshot:
    """The data read within one snapshot; it does not change even if other threads read later states."""

    connection: Any
    file: tuple[int, int] = (0, 0)
    """Identity of the file of the snapshot, if there is one."""
    meta: dict[str, Any] = field(default_factory=dict)
    """All values of the table `meta`, as reading one takes no less time."""
    columns: Columns | None = None
    signatures: Signatures | None = None
    postings: dict[str, Postings] = field(default_factory=dict)
    """Postings fetched ahead, by token."""


class _Local(threading.local):
    seen: Snapshot


class Index(ABC):
    """Reader of one base's index; thread-safe. Everything but `path` and `base` is read within a snapshot.

    `path` identifies the index, and its files lie beside it; `base` is the base's id, for messages.
    """

    def __init__(self, path: Path, base: str) -> None:
        self.path, self.base = path, base
        self._local = _Local()
        self._remembered: tuple[int, dict[str, Any]] = (-1, {})
        self._columns: tuple[int, Columns] | None = None
        """Latest generation of the index and its columns; replaced atomically, so that threads need no lock."""
        self._signed: tuple[Columns, Any, Signatures] | None = None

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Run all reads inside on one state of the index; unexpected errors inside become IndexUnavailable.

        They count as failures of this index, unless another one is read at the same time.
        """
        indexes: list[Index] = _open_here.__dict__.setdefault("indexes", [])
        with self._snapshot():
            indexes.append(self)
            try:
                yield self
            except (KbhubError, OSError):
                raise
            except Exception as error:
                if any(index is not self for index in indexes):
                    raise
                raise self.failed(error) from error
            finally:
                indexes.remove(self)

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[None]:
        """See `snapshot`."""

    @abstractmethod
    def close(self) -> None:
        """Close idle connections."""

    @abstractmethod
    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement with `?` for each value, and `@word` where engines differ, on the base's tables.

        Values are numbers, texts, None; for `@ids` the result of `numbers`, for `@texts` a list of texts.
        """

    @abstractmethod
    def damaged(self, what: str) -> IndexUnavailable:
        """Return the error for damaged content."""

    @abstractmethod
    def _unavailable(self, reason: str) -> IndexUnavailable:
        """Return the error for an index that cannot be read, with what to do."""

    def failed(self, error: Exception) -> IndexUnavailable:
        """Log an unexpected error, and return the one to raise."""
        log.error("base %r could not be read", self.base, exc_info=error)
        return self._unavailable(f"reading it failed: {type(error).__name__}: {str(error)[:MOST_SAID]}")

    @abstractmethod
    def _read_columns(self, before: Columns | None) -> Columns:
        """Return the columns of this snapshot, extending those of an earlier one."""

    @abstractmethod
    def _read_signatures(self, before: Signatures | None, columns: Columns) -> Signatures:
        """Return the signatures of this snapshot's vectors, extending those of an earlier one."""

    @abstractmethod
    def postings(self, term: Term, ahead: Iterable[str] = ()) -> Postings:
        """Look up a term; an engine over a network fetches the stems `ahead`, which are looked up next, together."""

    @abstractmethod
    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the ids and cosine similarities to a quantised vector of those chunks, ascending, that have one."""

    @abstractmethod
    def chunks_with(self, stem: str, limit: int) -> list[int]:
        """Return ids of chunks with a stem, which is not stemmed again; at most `limit`, in no order."""

    @abstractmethod
    def faults(self) -> list[str]:
        """Return the faults of the index; reads everything."""

    @abstractmethod
    def file(self, path: str) -> bytes | None:
        """Return the bytes of a document's file; None if the index does not hold files, or not this one."""

    def meta(self, key: str) -> Any:
        """Return a value of the table `meta`, or None."""
        return self._local.seen.meta.get(key)

    def generation(self) -> int:
        """Return a number that changes with every change to the index."""
        value = self.meta("generation") or 0
        if not isinstance(value, int):
            raise self.damaged("its generation is no number")
        return value

    def remembered(self, name: str, read: Callable[[], T]) -> T:
        """Cache a small named value until the index generation changes."""
        generation, cached = self.generation(), self._remembered
        if cached[0] != generation:
            # A local reference, because a thread at another generation may replace the attribute.
            self._remembered = cached = (generation, {})
        if name not in cached[1]:
            cached[1][name] = read()
        value: T = cached[1][name]
        return value

    def columns(self) -> Columns:
        """Return the columns in this snapshot, updated from cached ones."""
        seen = self._local.seen
        if seen.columns is None:
            generation, cached = self.generation(), self._columns
            if cached and cached[0] == generation:
                seen.columns = cached[1]
            else:
                # Columns cached by a thread at a later generation cannot be used here.
                later = cached is not None and cached[0] > generation
                with self.sound():
                    seen.columns = self._read_columns(cached[1] if cached and not later else None)
                if not (cached and later and cached[1].pack == seen.columns.pack):
                    self._columns = (generation, seen.columns)
        return seen.columns

    def signed(self, selection: Selection | None, dimensions: int) -> tuple[Signatures, NDArray[np.bool_]]:
        """Return the signatures of vectors with these dimensions, and a mask of the selected chunks (None: all)."""
        seen, columns = self._local.seen, self.columns()
        if seen.signatures is None:
            embedder, known = self.meta("embedder"), self._signed
            if not (known and known[0] is columns and known[1] == embedder):
                # Recompute all of a small index: its mean would otherwise depend on when it was first read.
                small = len(columns.ids) < PACKED_FROM
                on = known and not small and known[1] == embedder and columns.goes_on_from(known[0])
                before = known[2] if known and on else None
                with self.sound():
                    known = (columns, embedder, self._read_signatures(before, columns))
                self._signed = known
            seen.signatures = known[2]
        signatures = seen.signatures
        if signatures.meant and len(signatures.mean) != dimensions:
            raise self.damaged(f"its vectors have {len(signatures.mean)} dimensions, not {dimensions}")
        return signatures, self.selected(selection)

    def selected(self, selection: Selection | None) -> NDArray[np.bool_]:
        """Return a mask of the selected chunks; of all that exist for None."""
        columns = self.columns()
        return columns.alive if selection is None else columns.selected(selection.chunks)

    def places(self, chunks: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Return chunk id → (path, first line)."""
        columns = self.columns()
        documents = columns.documents[columns.positions(chunks)] if len(chunks) else ()
        rows = self.rows(
            "SELECT chunk.id, path, start_line FROM (SELECT id, document_id, start_line FROM chunk WHERE id IN @ids) "
            "AS chunk JOIN (SELECT id, path FROM document WHERE id IN @ids) AS document ON document.id = document_id",
            numbers(chunks),
            numbers(documents),
        )
        for _, path, line in rows:
            if type(path) is not str or type(line) is not int:
                raise self.damaged("what it says of a place makes no sense")
        return {chunk: (path, line) for chunk, path, line in rows}

    def chunks(self, ids: Sequence[int]) -> list[ChunkRow]:
        """Return the chunks with some ids, in no order."""
        rows = self.rows(f"SELECT {CHUNK} FROM chunk WHERE id IN @ids", numbers(ids))
        with self.sound():
            return list(map(chunk_of, rows))

    def documents(self, ids: Sequence[int]) -> list[DocumentRow]:
        """Return the documents with some ids, in no order."""
        return self._documents("id IN @ids", numbers(ids))

    def document(self, path: str) -> DocumentRow | None:
        """Return the document at a path, or None if there is none."""
        return next(iter(self.documents_at([path])), None)

    def documents_at(self, paths: Sequence[str]) -> list[DocumentRow]:
        """Return the documents at paths."""
        return self._documents("path IN @texts", list(paths))

    def documents_by_docid(self, prefix: str) -> list[DocumentRow]:
        """Return the documents whose docid has a prefix."""
        return self._documents("docid >= ? AND docid < ? ORDER BY docid", prefix, prefix + "g")

    def _documents(self, which: str, *values: Any) -> list[DocumentRow]:
        rows = self.rows(f"SELECT {DOCUMENT} FROM document WHERE {which}", *values)
        with self.sound():
            return list(map(document_of, rows))

    def latest(self, limit: int) -> list[DocumentRow]:
        """Return the documents changed last."""
        return self._documents(f"true ORDER BY {DATED} DESC, path LIMIT ?", limit)

    def every_document(self) -> list[DocumentRow]:
        """Return all documents by path."""
        return self._documents("true ORDER BY path")

    def documents_after(self, path: str, limit: int) -> list[DocumentRow]:
        """Return a page of documents by path, after the last path of the previous page (empty for the first page)."""
        return self._documents("path > ? ORDER BY path LIMIT ?", path, limit)

    def docid_counts(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Count the documents per docid prefix."""
        # Not a join: without statistics, PostgreSQL would look at every document once per prefix.
        statement = (
            "SELECT value, (SELECT count(*) FROM document WHERE docid >= value AND docid < value || 'g') "
            "FROM @texts AS wanted"
        )
        return dict(self.rows(statement, sorted(set(prefixes))))

    def paths(self) -> list[str]:
        """Return the sorted paths of all documents."""
        return [path for (path,) in self.rows("SELECT path FROM document ORDER BY path")]

    def files(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return path → (size, mtime in ns) of the documents at some paths."""
        rows = self.rows("SELECT path, size, mtime_ns FROM document WHERE path IN @texts", list(paths))
        return {path: (size, mtime) for path, size, mtime in rows}

    def file_states(self) -> Iterator[tuple[str, int, int]]:
        """Yield (path, size, mtime in ns) of all documents, read some at a time."""
        last = 0
        query = "SELECT id, path, size, mtime_ns FROM document WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self.rows(query, last, AT_ONCE):
            if rows[-1][0] <= last:  # prevents an endless loop
                raise self.damaged("its documents are out of order")
            last = rows[-1][0]
            for _, path, size, mtime in rows:
                yield path, size, mtime

    def has_below(self, folder: str) -> bool:
        """Return whether the index has anything below a folder of the base."""
        between = "path > ? AND path < ?"
        rows = f"SELECT 1 FROM document WHERE {between} UNION ALL SELECT 1 FROM problem WHERE {between} LIMIT 1"
        return bool(self.rows(rows, *(f"{folder}/", f"{folder}0") * 2))  # `0` is the character after `/`

    def chunk_paths(self, prefix: str) -> dict[int, str]:
        """Return chunk id → path of the documents whose path begins with a prefix."""
        joined = "chunk JOIN document ON document.id = document_id WHERE substr(path, 1, ?) = ?"
        return dict(self.rows(f"SELECT chunk.id, path FROM {joined}", len(prefix), prefix))

    def text_keys(self, chunks: Sequence[int] | None = None) -> dict[int, int]:
        """Return the keys of chunks' embedded texts, by chunk id; of all chunks if None."""
        every = "SELECT chunk_id, key FROM vector"
        return dict(self.rows(*((every,) if chunks is None else (f"{every} WHERE chunk_id IN @ids", numbers(chunks)))))

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of documents, chunks, and chunks with a vector."""
        ((documents, chunks, vectors),) = self.rows(
            "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk), "
            "(SELECT count(*) FROM vector WHERE embedding IS NOT NULL)"
        )
        return documents, chunks, vectors

    def without_vector(self) -> int:
        """Count the chunks without a vector."""
        return int(self.rows("SELECT count(*) FROM chunk WHERE id NOT IN (SELECT chunk_id FROM vector)")[0][0])

    def problems(self) -> list[tuple[str, str]]:
        """Return (path, message) of files that were not indexed properly."""
        return self.rows(
            "SELECT path, message FROM problem UNION ALL "
            "SELECT path, problem FROM document WHERE problem IS NOT NULL ORDER BY 1"
        )

    @contextmanager
    def sound(self) -> Iterator[None]:
        """Treat errors from invalid content as damage: raise IndexUnavailable."""
        try:
            yield
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise self.damaged(str(error)[:MOST_SAID]) from error


def numbers(ids: Sequence[int] | NDArray[np.signedinteger]) -> Any:
    """Return ids as a value for `@ids`."""
    return ids.astype("int64", copy=False) if hasattr(ids, "astype") else array("q", ids)


@struct
class NewDocument:
    """A document to write."""

    path: str
    docid: str
    size: int
    mtime_ns: int
    hash: bytes
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    front_matter: Mapping[str, Any]
    dated: int | None
    problem: str | None
    chunks: tuple[Chunk, ...]
    keys: tuple[int, ...]
    """`references.chunk_key` of the embedded text of each chunk."""
    kind: str = "document"
    links: tuple[Link, ...] = ()
    written_status: str = ""


WRITTEN_STATUS = "written status"
"""Key of `written_status`: no filter has a space in it, and it is read before others, which override it."""


def properties(document: NewDocument) -> Iterator[tuple[str, str | int | float]]:
    """Yield (key, value) for filters, case-folded, per element of a list; keys of nested mappings are joined by `.`."""
    yield from _flattened("tag", document.tags)
    for key, value in document.front_matter.items():
        yield from _flattened(fold(key), value)
    if document.written_status:
        yield WRITTEN_STATUS, document.written_status


def _flattened(key: str, value: Any) -> Iterator[tuple[str, str | int | float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flattened(f"{key}.{fold(str(name))}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _flattened(key, inner)
    elif isinstance(value, bool | str):
        yield key, fold(str(value))
    elif value is not None:
        yield key, value


def searched_texts(document: NewDocument) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the searched texts of each chunk, by column (`ranking.FTS_COLUMNS`)."""
    path = searchable(document.path.rpartition(".")[0] or document.path)
    tags = searchable(" ".join(document.tags))
    short: dict[str, str] = {}  # a title is mostly a heading, too, and one heading is above several chunks
    for chunk in document.chunks:
        above = title_above(document.title, document.kind, chunk.start_line)
        title, headings = " ".join([above, *document.aliases]), " ".join(chunk.headings)
        for text in (title, headings):
            if text not in short:
                short[text] = searchable(text)
        yield short[title], short[headings], path, tags, searchable(chunk.text)
