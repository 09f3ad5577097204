"""Reader of an index file: rankings, statistics, documents. Nothing here writes."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.errors import IndexUnavailable
from kbhub.index.engine import FTS_WEIGHTS, WORD, Index, Snapshot, numbers
from kbhub.index.query.parser import Term
from kbhub.index.sqlite.schema import (
    ANOTHERS,
    NAME,
    faults,
    has_vector_functions,
    listed,
    note_damage,
    open_reader,
    stored_vectors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index.signatures import Columns, Postings, Signatures

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError)
"""SQLite errors of a damaged file; our statements cause none of them otherwise."""

NOT_THERE = "it does not exist yet"
"""Reason in the error about an index that was never created."""


class SqliteIndex(Index):
    """Reader of one base's index file; thread-safe."""

    def __init__(self, path: Path, base: str) -> None:
        super().__init__(path, base)
        self._idle: list[tuple[tuple[int, int], apsw.Connection]] = []
        """Idle connections with the identity of their file."""
        self._compares: bool | None = None
        """Whether connections can compare vectors; None until checked."""

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """See `Index`; the state stays, even if its file is replaced meanwhile."""
        identity, connection = self._take()
        outer: Any = getattr(self._local, "seen", None)
        self._local.seen = Snapshot(connection, identity)
        sound = False
        try:
            self.rows("BEGIN")
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
        while self._idle:
            with suppress(IndexError):  # another thread may have taken it
                self._idle.pop()[1].close(force=True)

    def _read_meta(self) -> dict[str, Any]:
        values = dict(self.rows("SELECT key, value FROM meta"))
        if values.get(NAME) != self.path.name:
            raise self.damaged(ANOTHERS)
        return values

    def _read_columns(self, before: Columns | None) -> Columns:
        found: Columns = _arrays().columns(before, self.rows)
        return found

    def _read_signatures(self, before: Signatures | None, columns: Columns) -> Signatures:
        found: Signatures = _arrays().signatures(before, columns, self.rows, self._vectors)
        return found

    def _read_postings(self, term: Term, columns: Columns) -> Postings:
        found: Postings = _arrays().postings(term, columns, self.rows)
        return found

    def chunks_with(self, stem: str, limit: int) -> list[int]:
        """See `Index`."""
        # A temporary view of the same postings by position, not stored in the file.
        self.rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instance USING fts5vocab(main, fts, instance)")
        return [
            chunk
            for (chunk,) in self.rows("SELECT DISTINCT doc FROM temp.instance WHERE term = ? LIMIT ?", stem, limit)
        ]

    def file(self, path: str) -> bytes | None:
        """See `Index`."""
        del path  # the files of the base are where they are
        return None

    def similarities(
        self, vector: NDArray[np.int8], chunks: Sequence[int] | NDArray[np.signedinteger]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See `Index`."""
        if self._compares is None:
            self._compares = has_vector_functions(self._local.seen.connection)
        pairs: tuple[NDArray[np.int64], NDArray[np.float64]]
        if not self._compares:
            pairs = _arrays().compared(self._vectors(chunks), vector)
            return pairs
        pairs = _arrays().paired(
            self.rows(
                "SELECT chunk_id, 1 - vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM @ids AS wanted "
                "JOIN vector ON chunk_id = wanted.value WHERE embedding IS NOT NULL",
                vector.tobytes(),
                numbers(chunks),
            )
        )
        return pairs

    def faults(self) -> list[str]:
        """Return the faults of the file and its tables, and record them for the next writer; reads everything."""
        if problems := faults(self.rows):
            self._note_damage("; ".join(problems))
        return problems

    def _vectors(self, chunks: Sequence[int] | NDArray[np.signedinteger]) -> list[tuple[int, bytes]]:
        return stored_vectors(self.rows, chunks)

    def damaged(self, what: str) -> IndexUnavailable:
        """Return the error for damaged content, and record it so that the next writer rebuilds the index."""
        self._note_damage(what)
        return self._unavailable(f"it is damaged: {what}")

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """See `Index`."""
        try:
            cursor: apsw.Cursor = self._local.seen.connection.execute(_written(statement), tuple(map(_bound, values)))
            return cursor.fetchall()
        except apsw.Error as error:
            if isinstance(error, _DAMAGE):
                self._note_damage(str(error))
            raise self._unavailable(str(error)) from error
        except UnicodeDecodeError as error:
            self._note_damage("a text in it is none")
            raise self._unavailable("the text in it is damaged") from error

    def _note_damage(self, what: str) -> None:
        with suppress(OSError):
            if self._identity() == self._local.seen.file:  # unless it was rebuilt meanwhile
                note_damage(self.path, what)

    def _take(self) -> tuple[tuple[int, int], apsw.Connection]:
        """Return a connection for one snapshot and the identity of its file.

        Connections are shared by threads; one per thread would exhaust the file descriptors of a process.
        """
        try:
            identity = self._identity()
            while self._idle:
                with suppress(IndexError):  # another thread may have taken it
                    file, connection = self._idle.pop()
                    if file == identity:
                        return file, connection
                    connection.close(force=True)
            opened = open_reader(self.path)
            opened.register_fts5_function("occurrences", _occurrences)
        except FileNotFoundError:
            raise self._unavailable(NOT_THERE) from None
        except OSError as error:
            raise self._unavailable(f"{self.path}: {error.strerror}") from error
        except (ValueError, apsw.Error) as error:
            raise self._unavailable(str(error)) from error
        return identity, opened

    def _identity(self) -> tuple[int, int]:
        state = self.path.stat()
        return state.st_dev, state.st_ino

    def _unavailable(self, reason: str) -> IndexUnavailable:
        full = "" if reason == NOT_THERE else " --full"
        return IndexUnavailable(self.base, reason, f"Rebuild it with `kbhub index {self.base}{full}`.")


_WORDS = {
    "ids": "(SELECT value FROM carray(?))",
    "texts": "(SELECT value FROM json_each(?))",
    "number": "CASE WHEN typeof(value) <> 'text' OR value = CAST(CAST(value AS NUMERIC) AS TEXT) THEN 0 + value END",
    "iso_date": "value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]*'",
    "greatest": "max",
    "position": "instr",
    "alike": "LIKE",
    "each": "+",
}
"""What engines write differently. `+` keeps SQLite from using an index, and so from going through all with a key."""


@lru_cache(maxsize=256)
def _written(statement: str) -> str:
    return WORD.sub(lambda word: _WORDS[word[1]], statement)


def _bound(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return listed(value) if isinstance(value, array) or hasattr(value, "astype") else value


def _occurrences(api: apsw.FTS5ExtensionApi, /, *_: Any) -> float:
    """Count the occurrences of a single-phrase query in the current row, weighted by column."""
    return float(sum(map(mul, FTS_WEIGHTS, map(len, api.phrase_locations(0)))))


def _arrays() -> Any:
    """Import and return the numpy part, which takes 0.1 s to load; `status` and the like do without."""
    from kbhub.index.sqlite import columns as arrays  # noqa: PLC0415

    return arrays
