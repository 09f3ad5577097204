"""Pack an index: store what a query reads of many chunks contiguously.

Packed are the ids and lengths of all chunks, the signatures of their vectors, and the postings of common terms. All of
it is derived from the other tables, from which later chunks are read until the next packing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.index.engine import PACKED_FROM
from kbhub.index.sqlite.schema import open_again, stored_vectors
from kbhub.index.sqlite.soundness import PACKED_SUM, packed_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.index.columns import Columns
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


def pack(connection: apsw.Connection) -> None:
    """Pack an index, within a transaction.

    Raises:
        apsw.Error: it is damaged.
    """
    # numpy takes 0.1 s to load, and few syncs pack.
    from kbhub.index.sqlite import arrays  # noqa: PLC0415

    rows = _rows_of(connection)
    for table in ("packed", "posting", "gone"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE meta SET value = abs(random() / 2) WHERE key = 'pack'")
    connection.execute("DELETE FROM meta WHERE key IN ('packed_to', ?)", (PACKED_SUM,))
    embedder: Any = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").get
    try:
        known = arrays.columns(None, rows)
        if known.chunks < PACKED_FROM:
            return
        made = arrays.signatures(None, known, rows, lambda ids: stored_vectors(rows, ids)) if embedder else None
    except ValueError as error:  # tables differ, or vectors in length, as no sync of ours leaves them
        raise apsw.CorruptError(str(error)) from error
    connection.execute("INSERT INTO meta VALUES ('packed_to', ?)", (int(known.ids[-1]),))
    connection.executemany("INSERT INTO packed VALUES (?, ?)", arrays.packed(known, made, embedder))
    connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", _postings(connection, known))
    connection.execute("INSERT INTO meta VALUES (?, ?)", (PACKED_SUM, packed_sum(rows)))


def _postings(connection: apsw.Connection, known: Columns) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the postings of common terms; a second thread with its own connection finds those of every other one.

    Nothing else happens at the end of a first index, and SQLite leaves the interpreter to the other thread.
    """
    from kbhub.index.sqlite import arrays  # noqa: PLC0415 - as above

    rows = _rows_of(connection)
    terms = arrays.common_terms(known, rows)
    with closing(open_again(connection)) as reader, ThreadPoolExecutor(1) as thread:
        for start in range(0, len(terms), TERMS):
            some = terms[start : start + TERMS]
            others = thread.submit(arrays.postings_of, some[1::2], known, _rows_of(reader))
            yield from arrays.postings_of(some[::2], known, rows)
            yield from others.result()


def _rows_of(connection: apsw.Connection) -> Rows:
    def rows(statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return connection.execute(statement, values).fetchall()

    return rows
