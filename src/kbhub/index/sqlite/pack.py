"""Packing of an index: the data a query reads of many chunks, stored contiguously.

Packed are the ids and lengths of all chunks, the signatures of their vectors, and the postings of common terms. All of
it is derived from the other tables, from which later chunks are read until the next packing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.index.engine import PACKED_FROM
from kbhub.index.sqlite.schema import open_again, stored_vectors
from kbhub.index.sqlite.soundness import PACKED_SUM, packed_sum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from kbhub.index.columns import Columns
    from kbhub.index.signatures import Signatures
    from kbhub.index.sqlite.columns import Rows

LOOSE_SHARE = 0.1
"""Share of chunks added or deleted since the last packing above which it is due again."""

TERMS = 256
"""Terms whose postings are in memory at once: some MB in an index of a million chunks."""


def is_loose(connection: apsw.Connection) -> bool:
    """Return whether so much has changed since the last packing that it is due again."""
    row: Any = connection.execute(
        "SELECT (SELECT count(*) FROM fts_docsize), (SELECT count(*) FROM gone), "
        "(SELECT value FROM meta WHERE key = 'packed_to')"
    ).fetchone()
    chunks, gone, last = row
    if chunks < PACKED_FROM:
        return bool(gone > PACKED_FROM * LOOSE_SHARE)
    new: Any = connection.execute("SELECT count(*) FROM fts_docsize WHERE id > ?", (last or 0,)).get
    embedder: Any = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").get
    signed = connection.execute("SELECT data FROM packed WHERE name = 'embedder'").get
    return bool(new + gone > LOOSE_SHARE * chunks or (embedder and embedder.encode() != signed))


class Packing:
    """One packing of an index; a context manager.

    Nothing else happens at the end of a first index, and SQLite leaves the interpreter to other threads. So a second
    thread with its own connection reads vectors from the start, while this one may merge the full-text index, and then
    finds half of the postings. The connection is that of the only writer, outside of a transaction.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._reader, self._thread = open_again(connection), ThreadPoolExecutor(1)
        self._state = self._thread.submit(_state, _rows_of(self._reader))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        self._reader.close(force=True)

    def write(self) -> None:
        """Write the packed data, within a transaction."""
        arrays = _arrays()
        embedder, known, made = self._state.result()
        connection = self._connection
        for table in ("packed", "posting", "gone"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("UPDATE meta SET value = abs(random() / 2) WHERE key = 'pack'")
        connection.execute("DELETE FROM meta WHERE key IN ('packed_to', ?)", (PACKED_SUM,))
        if known.chunks < PACKED_FROM:
            return
        connection.execute("INSERT INTO meta VALUES ('packed_to', ?)", (int(known.ids[-1]),))
        connection.executemany("INSERT INTO packed VALUES (?, ?)", arrays.packed(known, made, embedder))
        connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", self._postings(known))
        connection.execute("INSERT INTO meta VALUES (?, ?)", (PACKED_SUM, packed_sum(_rows_of(connection))))

    def _postings(self, known: Columns) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield the postings of common terms; the second thread finds those of every other one."""
        arrays, rows, others = _arrays(), _rows_of(self._connection), _rows_of(self._reader)
        terms = arrays.common_terms(known, rows)
        for start in range(0, len(terms), TERMS):
            some = terms[start : start + TERMS]
            second = self._thread.submit(arrays.postings_of, some[1::2], known, others)
            yield from arrays.postings_of(some[::2], known, rows)
            yield from second.result()


def _state(rows: Rows) -> tuple[str | None, Columns, Signatures | None]:
    """Return the fingerprint of the embedder, the columns, and the signatures if there are enough chunks."""
    arrays = _arrays()
    embedder = dict(rows("SELECT key, value FROM meta WHERE key = 'embedder'")).get("embedder")
    try:
        known = arrays.existing(rows)
        if embedder is None or known.chunks < PACKED_FROM:
            return embedder, known, None
        return embedder, known, arrays.sign(None, known.ids, lambda ids: stored_vectors(rows, ids))
    except ValueError as error:  # tables differ, or vectors in length, as no sync of ours leaves them
        raise apsw.CorruptError(str(error)) from error


def _arrays() -> Any:
    """Import and return the numpy part, which takes 0.1 s to load; few syncs pack."""
    from kbhub.index.sqlite import arrays  # noqa: PLC0415

    return arrays


def _rows_of(connection: apsw.Connection) -> Rows:
    def rows(statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return connection.execute(statement, values).fetchall()

    return rows
