"""Read an index: rankings, statistics, documents. Nothing here writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import mul
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from kbhub.errors import IndexUnavailable
from kbhub.index.packing import PACKED_FROM
from kbhub.index.rows import CHUNK, DOCUMENT, ChunkRow, DocumentRow, chunk_of, document_of, place_of
from kbhub.index.schema import (
    ANOTHERS,
    FTS_WEIGHTS,
    NAME,
    has_vector_functions,
    listed,
    note_damage,
    open_reader,
    stored_vectors,
)
from kbhub.index.soundness import faults
from kbhub.values import record

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.columns import Columns
    from kbhub.index.postings import Postings
    from kbhub.index.query import Term
    from kbhub.index.rows import Selection
    from kbhub.index.signatures import Signatures

T = TypeVar("T")

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)
"""SQLite errors of a damaged file; our statements cause none of them otherwise."""

NOT_THERE = "it does not exist yet"
"""Reason in the error about an index that was never created."""


@record
class _Seen:
    """What one snapshot has read; it does not change even if other threads read later states."""

    connection: apsw.Connection
    file: tuple[int, int]
    """Identity of the file of the snapshot."""
    meta: dict[str, Any] | None = None
    columns: Columns | None = None
    signatures: Signatures | None = None


class Index:
    """Read the index of one base; thread-safe.

    Args:
        path: the index file.
        base: id of the base, for messages.
    """

    def __init__(self, path: Path, base: str) -> None:
        self.path, self.base = path, base
        self._local = threading.local()
        self._idle: list[tuple[tuple[int, int], apsw.Connection]] = []
        """Idle connections with the identity of their file."""
        self._remembered: tuple[int, dict[str, Any]] = (-1, {})
        """Generation of the index and its cached values."""
        self._columns: tuple[int, Columns] | None = None
        """Latest generation of the index and its columns; replaced atomically, so that threads need no lock."""
        self._compares: bool | None = None
        """Whether connections can compare vectors; None until checked."""
        self._signed: tuple[Columns, Any, Signatures] | None = None
        """Columns of one generation, its embedder, and the signatures for these columns."""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run all reads inside on one state of the index, even if its file is replaced meanwhile.

        Raises:
            IndexUnavailable: the index does not exist or cannot be read.
        """
        identity, connection = self._take()
        outer = getattr(self._local, "seen", None)
        self._local.seen = _Seen(connection, identity)
        sound = False
        try:
            self._rows("BEGIN")
            yield
            with suppress(apsw.Error):  # damaged file: nothing was written, and the connection is closed
                connection.execute("COMMIT")
                sound = True
        finally:
            self._local.seen = outer
            # A connection opened as immutable (see `open_reader`) would not notice later changes.
            if sound and not connection.open_flags & apsw.SQLITE_OPEN_URI:
                self._idle.append((identity, connection))
            else:
                connection.close(force=True)

    def close(self) -> None:
        """Close idle connections."""
        while held := self._pop():
            held[1].close(force=True)

    def size(self) -> tuple[int, int]:
        """Return the number of chunks and of their tokens."""
        known = self.columns()
        return known.chunks, known.tokens

    def generation(self) -> int:
        """Return a number that changes with every change to the index."""
        value = self.meta("generation") or 0
        if not isinstance(value, int):
            raise self.damaged("its generation is no number")
        return value

    def meta(self, key: str) -> Any:
        """Return a value of the table `meta`, or None."""
        seen = self._seen()
        if seen.meta is None:  # all at once, which takes no longer than one
            seen.meta = dict(self._rows("SELECT key, value FROM meta"))
            if seen.meta.get(NAME) != self.path.name:
                raise self.damaged(ANOTHERS)
        return seen.meta.get(key)

    def remembered(self, name: str, read: Callable[[], T]) -> T:
        """Cache a small value until the index generation changes.

        Args:
            name: name of the value.
            read: computes it in this snapshot.
        """
        generation, cached = self.generation(), self._remembered
        if cached[0] != generation:
            # A local reference, because a thread at another generation may replace the attribute.
            self._remembered = cached = (generation, {})
        if name not in cached[1]:
            cached[1][name] = read()
        value: T = cached[1][name]
        return value

    def columns(self) -> Columns:
        """Return the columns in this snapshot, updated from cached ones.

        Raises:
            IndexUnavailable: the index cannot be read.
        """
        seen = self._seen()
        if seen.columns is None:
            generation, cached = self.generation(), self._columns
            if cached and cached[0] == generation:
                seen.columns = cached[1]
            else:
                # Columns cached by a thread at a later generation cannot be used here.
                later = cached is not None and cached[0] > generation
                with self._sound():
                    seen.columns = _arrays().columns(cached[1] if cached and not later else None, self._rows)
                if not (cached and later and cached[1].pack == seen.columns.pack):
                    self._columns = (generation, seen.columns)
        return seen.columns

    def postings(self, term: Term) -> Postings:
        """Look up a term.

        Raises:
            IndexUnavailable: the index cannot be read.
        """
        known = self.columns()
        with self._sound():
            found: Postings = _arrays().postings(term, known, self._rows)
            return found

    def semantic(
        self, vector: NDArray[np.float32], limit: int, selection: Selection | None = None
    ) -> list[tuple[int, float]]:
        """Find the chunks nearest to a vector.

        Args:
            vector: shape (dimensions,), a unit vector.
            limit: number of chunks.
            selection: chunks that may be found; None for all.

        Returns:
            (chunk id, cosine similarity), nearest first; fewer if the base has fewer vectors.
        """
        (near,) = _arrays().likely([self.signed(selection, len(vector))], vector, limit)
        ids, values = self.similarities(_arrays().quantise(vector), self.columns().ids[near])
        best = (-values).argsort(kind="stable")[:limit]
        return list(zip(ids[best].tolist(), values[best].tolist(), strict=True))

    def signed(self, selection: Selection | None, dimensions: int) -> tuple[Signatures, NDArray[np.bool_]]:
        """Return the signatures of the vectors, and a mask of the chunks that may be found.

        Args:
            selection: chunks that may be found; None for all.
            dimensions: dimensions of the vector to compare.
        """
        columns = self.columns()
        signatures = self._signatures()
        if signatures.meant and len(signatures.mean) != dimensions:
            raise self.damaged(f"its vectors have {len(signatures.mean)} dimensions, not {dimensions}")
        return signatures, columns.alive if selection is None else columns.selected(selection.chunks)

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the ids and cosine similarities of those chunks that have a vector.

        Args:
            vector: as `vectors.quantise` returns it.
            chunks: chunk ids.
        """
        if self._compares is None:
            self._compares = has_vector_functions(self._connection())
        if self._compares:
            rows = self._rows(
                "SELECT chunk_id, 1 - vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM carray(?) "
                "JOIN vector ON chunk_id = carray.value WHERE embedding IS NOT NULL",
                vector.tobytes(),
                listed(chunks),
            )
        else:
            found = self._vectors(chunks)
            values = _arrays().similarity([blob for _, blob in found], vector)
            rows = [(chunk, value) for (chunk, _), value in zip(found, values, strict=True)]
        pairs: tuple[NDArray[np.int64], NDArray[np.float64]] = _arrays().paired(rows)
        return pairs

    def places(self, chunks: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Return chunk id → (path, first line)."""
        rows = self._rows(
            "SELECT chunk.id, path, start_line FROM carray(?) JOIN chunk ON chunk.id = carray.value "
            "JOIN document ON document.id = document_id",
            listed(chunks),
        )
        with self._sound():
            return {chunk: place_of(path, line) for chunk, path, line in rows}

    def chunks(self, ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Return chunks by id."""
        rows = self._rows(
            f"SELECT {CHUNK} FROM chunk WHERE id IN (SELECT value FROM carray(?))",
            listed(ids),
        )
        with self._sound():
            return {row[0]: chunk_of(row) for row in rows}

    def documents(self, ids: Sequence[int]) -> dict[int, DocumentRow]:
        """Return documents by id."""
        rows = self._rows(f"SELECT {DOCUMENT} FROM document WHERE id IN (SELECT value FROM carray(?))", listed(ids))
        return {row.id: row for row in self._documents(rows)}

    def document(self, path: str) -> DocumentRow | None:
        """Return the document at a path, or None if there is none."""
        rows = self._rows(f"SELECT {DOCUMENT} FROM document WHERE path = ?", path)
        return next(iter(self._documents(rows)), None)

    def documents_by_docid(self, prefix: str) -> list[DocumentRow]:
        """Return the documents whose docid has a prefix."""
        rows = self._rows(
            f"SELECT {DOCUMENT} FROM document WHERE docid >= ? AND docid < ? ORDER BY docid", prefix, prefix + "g"
        )
        return self._documents(rows)

    def docid_counts(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Count the documents per docid prefix, leaving out zeros."""
        rows = self._rows(
            "SELECT value, count(*) FROM json_each(?) JOIN document ON docid >= value AND docid < value || 'g' "
            "GROUP BY value",
            json.dumps(list(prefixes)),
        )
        return dict(rows)

    def paths(self) -> list[str]:
        """Return the sorted paths of all documents."""
        return [path for (path,) in self._rows("SELECT path FROM document ORDER BY path")]

    def paths_of(self, documents: Sequence[int]) -> dict[int, str]:
        """Return the paths of documents by id."""
        return dict(
            self._rows("SELECT id, path FROM document WHERE id IN (SELECT value FROM carray(?))", listed(documents))
        )

    def files(self, paths: Iterable[str] | None = None) -> dict[str, tuple[int, int]]:
        """Return path → (size, mtime in ns) of all documents, or of those at some paths."""
        every = "SELECT path, size, mtime_ns FROM document"
        if paths is None:
            rows = self._rows(every)
        else:
            rows = [row for path in paths for row in self._rows(f"{every} WHERE path = ?", path)]
        return {path: (size, mtime) for path, size, mtime in rows}

    def has_below(self, folder: str) -> bool:
        """Whether the index has anything below a folder of the base."""
        between = "path > ? AND path < ?"
        rows = f"SELECT 1 FROM document WHERE {between} UNION ALL SELECT 1 FROM problem WHERE {between} LIMIT 1"
        return bool(self._rows(rows, *(f"{folder}/", f"{folder}0") * 2))  # `0` is the character after `/`

    def text_keys(self, chunks: Sequence[int] | None = None) -> dict[int, int]:
        """Return the keys of chunks' embedded texts, by chunk id; of all chunks if none are given."""
        every = "SELECT chunk_id, key FROM vector"
        if chunks is None:
            return dict(self._rows(every))
        return dict(self._rows(f"{every} WHERE chunk_id IN (SELECT value FROM json_each(?))", json.dumps(list(chunks))))

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of documents, chunks, and chunks with a vector."""
        (counted,) = self._rows(
            "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk), "
            "(SELECT count(*) FROM vector WHERE embedding IS NOT NULL)"
        )
        documents, chunks, vectors = counted
        return int(documents), int(chunks), int(vectors)

    def without_vector(self) -> int:
        """Count the chunks without a vector."""
        return int(self._value("SELECT count(*) FROM chunk WHERE id NOT IN (SELECT chunk_id FROM vector)"))

    def faults(self) -> list[str]:
        """Return the faults of the file and its tables, and record them for the next writer; reads everything."""
        if problems := faults(self._rows):
            self._note_damage("; ".join(problems))
        return problems

    def problems(self) -> list[tuple[str, str]]:
        """Return (path, message) of files that were not indexed properly."""
        return self._rows(
            "SELECT path, message FROM problem UNION ALL "
            "SELECT path, problem FROM document WHERE problem IS NOT NULL ORDER BY 1"
        )

    def _documents(self, rows: Iterable[Sequence[Any]]) -> list[DocumentRow]:
        with self._sound():
            return [document_of(row) for row in rows]

    def _vectors(self, chunks: Sequence[int] | NDArray[np.signedinteger]) -> list[tuple[int, bytes]]:
        return stored_vectors(self._rows, chunks)

    def _signatures(self) -> Signatures:
        """Give the signatures of the vectors as they are in this snapshot, made of those before it."""
        seen = self._seen()
        if seen.signatures is None:
            columns, embedder, known = self.columns(), self.meta("embedder"), self._signed
            if not (known and known[0] is columns and known[1] == embedder):
                # Recompute all of a small index: its mean would otherwise depend on when it was first read.
                small = len(columns.ids) < PACKED_FROM
                on = known and not small and known[1] == embedder and columns.goes_on_from(known[0])
                before = known[2] if known and on else None
                with self._sound():
                    known = (columns, embedder, _arrays().signatures(before, columns, self._rows, self._vectors))
                self._signed = known
            seen.signatures = known[2]
        return seen.signatures

    def damaged(self, what: str) -> IndexUnavailable:
        """Return the error for damaged content, and record it so that the next writer rebuilds the index."""
        self._note_damage(what)
        return self._unavailable(f"it is damaged: {what}")

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Treat errors from invalid content as damage."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise self.damaged(str(error)) from error

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._connection().execute(statement, values).fetchall()
        except apsw.Error as error:
            if isinstance(error, _DAMAGE):
                self._note_damage(str(error))
            raise self._unavailable(str(error)) from error
        except UnicodeDecodeError as error:
            self._note_damage("a text in it is none")
            raise self._unavailable("the text in it is damaged") from error

    def _note_damage(self, what: str) -> None:
        with suppress(OSError):
            if self._identity() == self._seen().file:  # unless it was rebuilt meanwhile
                note_damage(self.path, what)

    def _value(self, statement: str, *values: apsw.SQLiteValue) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None

    def _connection(self) -> apsw.Connection:
        return self._seen().connection

    def _seen(self) -> _Seen:
        seen: _Seen = self._local.seen
        return seen

    def _take(self) -> tuple[tuple[int, int], apsw.Connection]:
        """Return a connection for one snapshot and the identity of its file.

        Connections are shared by threads; one per thread would exhaust the file descriptors of a process.
        """
        try:
            identity = self._identity()
            while held := self._pop():
                if held[0] == identity:
                    return held
                held[1].close(force=True)
            opened = open_reader(self.path)
            opened.register_fts5_function("occurrences", _occurrences)
        except FileNotFoundError:
            raise self._unavailable(NOT_THERE) from None
        except OSError as error:
            raise self._unavailable(f"{self.path}: {error.strerror}") from error
        except (ValueError, apsw.Error) as error:
            raise self._unavailable(str(error)) from error
        return identity, opened

    def _pop(self) -> tuple[tuple[int, int], apsw.Connection] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _identity(self) -> tuple[int, int]:
        state = self.path.stat()
        return state.st_dev, state.st_ino

    def _unavailable(self, reason: str) -> IndexUnavailable:
        full = "" if reason == NOT_THERE else " --full"
        return IndexUnavailable(self.base, reason, f"`kbhub index {self.base}{full}` makes it anew.")


def _occurrences(api: apsw.FTS5ExtensionApi, /, *_: Any) -> float:
    """Count the occurrences of a single-phrase query in the current row, weighted by column."""
    return float(sum(map(mul, FTS_WEIGHTS, map(len, api.phrase_locations(0)))))


def _arrays() -> Any:
    """Return what needs numpy, which takes 0.1 s to load; `status` and the like do without."""
    from kbhub.index import arrays  # noqa: PLC0415

    return arrays
