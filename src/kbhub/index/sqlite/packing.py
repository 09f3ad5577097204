"""Pack an index: store what a query reads of many chunks contiguously.

Packed are the ids and lengths of all chunks, the signatures of their vectors, and the postings of common terms. All of
it is derived from the other tables, from which later chunks are read until the next packing.
"""

from __future__ import annotations

from typing import Any

import apsw

from kbhub.index.engine import PACKED_FROM
from kbhub.index.sqlite.schema import stored_vectors
from kbhub.index.sqlite.soundness import PACKED_SUM, packed_sum

LOOSE_SHARE = 0.1
"""Share of chunks added or deleted since the last packing above which it is due again."""


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

    def rows(statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return connection.execute(statement, values).fetchall()

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
    connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", arrays.postings_of(known, rows))
    connection.execute("INSERT INTO meta VALUES (?, ?)", (PACKED_SUM, packed_sum(rows)))
