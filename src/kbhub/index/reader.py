"""Reading an index: rankings, statistics, documents. Nothing here writes."""

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
    from kbhub.index.selection import Selection
    from kbhub.query import Term
    from kbhub.signatures import Signatures

T = TypeVar("T")

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)
"""What SQLite says of a damaged file; our statements are never wrong for another reason."""

NOT_THERE = "it does not exist yet"
"""Reason of the error about an index that was never made."""


@record
class _Seen:
    """What one snapshot has read: the same to its end, whatever other threads read of later states."""

    connection: apsw.Connection
    file: tuple[int, int]
    """What it is a snapshot of."""
    meta: dict[str, Any] | None = None
    columns: Columns | None = None
    signatures: Signatures | None = None


class Index:
    """The index of one base, for reading, from any thread.

    Args:
        path: its file.
        base: id of the base, for messages.
    """

    def __init__(self, path: Path, base: str) -> None:
        self.path, self.base = path, base
        self._local = threading.local()
        self._idle: list[tuple[tuple[int, int], apsw.Connection]] = []
        """Connections that nobody uses, each with the file that it is to."""
        self._remembered: tuple[int, dict[str, Any]] = (-1, {})
        """State of the index, what is remembered of it."""
        self._columns: tuple[int, Columns] | None = None
        """Latest state of the index, its columns; replaced as a whole, so that threads need no lock."""
        self._compares: bool | None = None
        """Whether connections can compare vectors; not known before one is asked."""
        self._signed: tuple[Columns, Any, Signatures] | None = None
        """Columns of a state of the index, its embedder, the signatures at the positions of these columns."""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Keep all reads inside to one state of the index, even if its file is replaced meanwhile.

        Raises:
            IndexUnavailable: there is no index yet, or it cannot be read.
        """
        identity, connection = self._take()
        outer = getattr(self._local, "seen", None)
        self._local.seen = _Seen(connection, identity)
        sound = False
        try:
            self._rows("BEGIN")
            yield
            with suppress(apsw.Error):  # of a damaged file: nothing was written, and it is closed
                connection.execute("COMMIT")
                sound = True
        finally:
            self._local.seen = outer
            # One that was opened as unchanging (see `open_reader`) would not notice changes later.
            if sound and not connection.open_flags & apsw.SQLITE_OPEN_URI:
                self._idle.append((identity, connection))
            else:
                connection.close(force=True)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while held := self._pop():
            held[1].close(force=True)

    def size(self) -> tuple[int, int]:
        """Give the number of chunks and of the tokens in them."""
        known = self.columns()
        return known.chunks, known.tokens

    def generation(self) -> int:
        """Give a number that changes with every change to the index."""
        value = self.meta("generation") or 0
        if not isinstance(value, int):
            raise self.damaged("its generation is no number")
        return value

    def meta(self, key: str) -> Any:
        """Give a value of the table `meta`, none if it is not there."""
        seen = self._seen()
        if seen.meta is None:  # all at once, for one statement takes as long
            seen.meta = dict(self._rows("SELECT key, value FROM meta"))
            if seen.meta.get(NAME) != self.path.name:
                raise self.damaged(ANOTHERS)
        return seen.meta.get(key)

    def remembered(self, name: str, read: Callable[[], T]) -> T:
        """Give what is the same until the index changes, and small.

        Args:
            name: of what.
            read: gives it, in this snapshot.
        """
        generation, known = self.generation(), self._remembered
        if known[0] != generation:
            # Kept in hand, for another thread may be at another state and put its own in place.
            self._remembered = known = (generation, {})
        if name not in known[1]:
            known[1][name] = read()
        found: T = known[1][name]
        return found

    def columns(self) -> Columns:
        """Give what is kept in memory of each chunk, as it is in this snapshot, made of what was kept before it.

        Raises:
            IndexUnavailable: it cannot be read.
        """
        # numpy takes 0.1 s to load, which `status` and the like need not pay.
        from kbhub.index.columns import columns  # noqa: PLC0415

        seen = self._seen()
        if seen.columns is None:
            generation, known = self.generation(), self._columns
            if known and known[0] == generation:
                seen.columns = known[1]
            else:
                # Another thread may be at a later state, which has what is not there yet.
                later = known is not None and known[0] > generation
                with self._sound():
                    seen.columns = columns(known[1] if known and not later else None, self._rows)
                if not (known and later and known[1].pack == seen.columns.pack):
                    self._columns = (generation, seen.columns)
        return seen.columns

    def postings(self, term: Term) -> Postings:
        """Find where a term occurs.

        Raises:
            IndexUnavailable: it cannot be read.
        """
        from kbhub.index.postings import postings  # noqa: PLC0415 - as in `columns`

        known = self.columns()
        with self._sound():
            return postings(term, known, self._rows)

    def semantic(
        self, vector: NDArray[np.float32], limit: int, selection: Selection | None = None
    ) -> list[tuple[int, float]]:
        """Find the chunks nearest to a vector.

        Args:
            vector: shape (dimensions,), of length 1.
            limit: chunks to find.
            selection: the chunks that may be found, none for all.

        Returns:
            (chunk id, cosine similarity), nearest first; fewer where the base has fewer vectors.
        """
        from kbhub.signatures import likely  # noqa: PLC0415 - as in `columns`
        from kbhub.vectors import quantise  # noqa: PLC0415

        (near,) = likely([self.signed(selection, len(vector))], vector, limit)
        ids, values = self.similarities(quantise(vector), self.columns().ids[near])
        best = (-values).argsort(kind="stable")[:limit]
        return list(zip(ids[best].tolist(), values[best].tolist(), strict=True))

    def signed(self, selection: Selection | None, dimensions: int) -> tuple[Signatures, NDArray[np.bool_]]:
        """Give the signatures of the vectors, and which chunks may be found.

        Args:
            selection: the chunks that may be found, none for all.
            dimensions: of the vector that they are to be compared with.
        """
        known = self.columns()
        made = self._signatures()
        if made.meant and len(made.mean) != dimensions:
            raise self.damaged(f"its vectors have {len(made.mean)} dimensions, not {dimensions}")
        return made, known.alive if selection is None else known.selected(selection.chunks)

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Give the ids and the cosine similarities to a vector of those of some chunks that have a vector.

        Args:
            vector: as `vectors.quantise` gives it.
            chunks: their ids.
        """
        import numpy as np  # noqa: PLC0415 - as in `columns`

        from kbhub.vectors import similarity  # noqa: PLC0415

        if self._compares is None:
            self._compares = has_vector_functions(self._connection())
        if self._compares:
            rows = self._rows(
                "SELECT chunk_id, 1 - vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM carray(?) "
                "JOIN vector ON chunk_id = carray.value WHERE embedding IS NOT NULL",
                vector.tobytes(),
                listed(chunks),
            )
            values = np.array([value for _, value in rows], np.float64)
        else:
            rows = self._vectors(chunks)
            values = similarity([blob for _, blob in rows], vector)
        return np.array([one for one, _ in rows], np.int64), values

    def places(self, chunks: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Give where chunks stand: chunk id → (path, first line)."""
        found = self._rows(
            "SELECT chunk.id, path, start_line FROM carray(?) JOIN chunk ON chunk.id = carray.value "
            "JOIN document ON document.id = document_id",
            listed(chunks),
        )
        with self._sound():
            return {chunk: place_of(path, line) for chunk, path, line in found}

    def chunks(self, ids: Sequence[int]) -> dict[int, ChunkRow]:
        """Give chunks by id."""
        found = self._rows(
            f"SELECT {CHUNK} FROM chunk WHERE id IN (SELECT value FROM carray(?))",
            listed(ids),
        )
        with self._sound():
            return {row[0]: chunk_of(row) for row in found}

    def documents(self, ids: Sequence[int]) -> dict[int, DocumentRow]:
        """Give documents by id."""
        found = self._rows(f"SELECT {DOCUMENT} FROM document WHERE id IN (SELECT value FROM carray(?))", listed(ids))
        return {row.id: row for row in self._documents(found)}

    def document(self, path: str) -> DocumentRow | None:
        """Give the document at a path, none if the index has none."""
        found = self._rows(f"SELECT {DOCUMENT} FROM document WHERE path = ?", path)
        return next(iter(self._documents(found)), None)

    def documents_by_docid(self, prefix: str) -> list[DocumentRow]:
        """Give the documents whose docid starts with some hex digits."""
        found = self._rows(
            f"SELECT {DOCUMENT} FROM document WHERE docid >= ? AND docid < ? ORDER BY docid", prefix, prefix + "g"
        )
        return self._documents(found)

    def docid_counts(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Count the documents whose docid starts with each of some hex digits; those with none are left out."""
        found = self._rows(
            "SELECT value, count(*) FROM json_each(?) JOIN document ON docid >= value AND docid < value || 'g' "
            "GROUP BY value",
            json.dumps(list(prefixes)),
        )
        return dict(found)

    def paths(self) -> list[str]:
        """Give the paths of all documents, in order."""
        return [path for (path,) in self._rows("SELECT path FROM document ORDER BY path")]

    def paths_of(self, documents: Sequence[int]) -> dict[int, str]:
        """Give the paths of documents by id."""
        return dict(
            self._rows("SELECT id, path FROM document WHERE id IN (SELECT value FROM carray(?))", listed(documents))
        )

    def files(self, paths: Iterable[str] | None = None) -> dict[str, tuple[int, int]]:
        """Give path → (size, mtime in ns) of every document, or of those at some paths."""
        every = "SELECT path, size, mtime_ns FROM document"
        if paths is None:
            rows = self._rows(every)
        else:
            rows = [row for path in paths for row in self._rows(f"{every} WHERE path = ?", path)]
        return {path: (size, mtime) for path, size, mtime in rows}

    def has_below(self, folder: str) -> bool:
        """Whether anything is known of files below a folder of the base."""
        between = "path > ? AND path < ?"
        rows = f"SELECT 1 FROM document WHERE {between} UNION ALL SELECT 1 FROM problem WHERE {between} LIMIT 1"
        return bool(self._rows(rows, *(f"{folder}/", f"{folder}0") * 2))  # `0` is the character after `/`

    def counts(self) -> tuple[int, int, int]:
        """Give the numbers of documents, chunks, and chunks with a vector."""
        (counted,) = self._rows(
            "SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM chunk), "
            "(SELECT count(*) FROM vector WHERE embedding IS NOT NULL)"
        )
        documents, chunks, vectors = counted
        return int(documents), int(chunks), int(vectors)

    def without_vector(self) -> int:
        """Count the chunks whose vector is still to be made."""
        return int(self._value("SELECT count(*) FROM chunk WHERE id NOT IN (SELECT chunk_id FROM vector)"))

    def faults(self) -> list[str]:
        """Say what is wrong with the file or between its tables, for whoever writes it next, too; reads all of it."""
        if found := faults(self._rows):
            self._note_damage("; ".join(found))
        return found

    def problems(self) -> list[tuple[str, str]]:
        """Give (path, message) of files that could not be indexed as they should."""
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
        from kbhub.index.columns import signatures  # noqa: PLC0415 - as in `columns`

        seen = self._seen()
        if seen.signatures is None:
            columns, embedder, known = self.columns(), self.meta("embedder"), self._signed
            if not (known and known[0] is columns and known[1] == embedder):
                # Of a small index all are made anew: which mean they are of would depend on when one asked first.
                small = len(columns.ids) < PACKED_FROM
                on = known and not small and known[1] == embedder and columns.goes_on_from(known[0])
                before = known[2] if known and on else None
                with self._sound():
                    known = (columns, embedder, signatures(before, columns, self._rows, self._vectors))
                self._signed = known
            seen.signatures = known[2]
        return seen.signatures

    def damaged(self, what: str) -> IndexUnavailable:
        """Give the error about an index that cannot be as it is; whoever writes it next makes it anew."""
        self._note_damage(what)
        return self._unavailable(f"it is damaged: {what}")

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Take what cannot be made sense of for damage."""
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
            if self._identity() == self._seen().file:  # and not made anew meanwhile
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
        """Give a connection for one snapshot, and the file that it is to.

        Threads pass connections on: one for each thread that ever came would exhaust the descriptors of a process.
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
    """Count what the current row of an FTS5 query has of its one phrase, each with the weight of its column."""
    return float(sum(map(mul, FTS_WEIGHTS, map(len, api.phrase_locations(0)))))
