"""Packing an index: what a query reads of many chunks at once is written side by side, to be read in one go.

That is the ids and lengths of all chunks, the signatures of their vectors, and where the terms occur that many of them
have. All of it can be had from the other tables, and what comes after is taken from these until the next packing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw

from kbhub.index.schema import FTS_COLUMNS, FTS_WEIGHTS, stored_vectors
from kbhub.index.soundness import PACKED_SUM, packed_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.index.columns import Columns, Rows

PACKED_FROM = 2_000
"""Chunks of an index that is packed; a smaller one is read in some milliseconds as it is."""

LOOSE_SHARE = 0.1
"""Share of the chunks that are new or gone since the last packing, above which it is due."""

COMMON = 128
"""A term is common if more than one chunk in so many has it; three of four postings are of such terms."""

MOST_ASKED = 400
"""Chunks that have a term above which it counts as common in any case: FTS5 takes a microsecond for each."""


def is_loose(connection: apsw.Connection) -> bool:
    """Say whether so much has changed since the last packing that it is due again."""
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
    from kbhub.index.columns import columns, packed, signatures  # noqa: PLC0415

    def rows(statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return connection.execute(statement, values).fetchall()

    for table in ("packed", "posting", "gone"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("UPDATE meta SET value = abs(random() / 2) WHERE key = 'pack'")
    connection.execute("DELETE FROM meta WHERE key IN ('packed_to', ?)", (PACKED_SUM,))
    embedder: Any = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").get
    try:
        known = columns(None, rows)
        if known.chunks < PACKED_FROM:
            return
        made = signatures(None, known, rows, lambda ids: stored_vectors(rows, ids)) if embedder else None
    except ValueError as error:  # tables differ, or vectors in length, as no sync of ours leaves them
        raise apsw.CorruptError(str(error)) from error
    connection.execute("INSERT INTO meta VALUES ('packed_to', ?)", (int(known.ids[-1]),))
    connection.executemany("INSERT INTO packed VALUES (?, ?)", packed(known, made, embedder).items())
    connection.executemany("INSERT INTO posting VALUES (?, ?, ?)", _postings(known, rows))
    connection.execute("INSERT INTO meta VALUES (?, ?)", (PACKED_SUM, packed_sum(rows)))


def _postings(known: Columns, rows: Rows) -> Iterator[tuple[str, bytes, bytes]]:
    """Write down where common terms occur: (term, positions, counts added up)."""
    import numpy as np  # noqa: PLC0415 - as in `pack`

    from kbhub.index.columns import written  # noqa: PLC0415

    # An id stands once for each occurrence, or as often as its column weighs. Made into one text, they come out of
    # SQLite four times as fast as row by row.
    repeated = {
        column: "||','||".join(["doc"] * int(weight)) for column, weight in zip(FTS_COLUMNS, FTS_WEIGHTS, strict=True)
    }
    weighed = " ".join(f"WHEN '{column}' THEN {doc}" for column, doc in repeated.items())
    listed = f"SELECT group_concat(CASE col {weighed} END) FROM occurrence WHERE term = ?"
    for (term,) in rows("SELECT term FROM vocabulary WHERE doc > ?", min(known.chunks / COMMON, MOST_ASKED)):
        ((ids,),) = rows(listed, term)
        chunks, counts = np.unique(np.fromstring(ids, np.int64, sep=","), return_counts=True)
        yield term, written(known.positions(chunks)), written(np.cumsum(counts))
