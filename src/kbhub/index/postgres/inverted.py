"""Bring the postings of a shared base in step with chunks that come and go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.index.postgres.blocks import BLOCK, CHUNK_SHIFT, Block, Occurrences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from psycopg import Connection

    from kbhub.index.postgres.blocks import Inverter

TERMS_AT_ONCE = 5_000
"""Terms whose stored blocks are in memory at once."""

_NOTHING = np.zeros(0, np.int64)
_POSTING = "term, first, last, size, chunks, counts, places"
_TYPES = ("int4", "text", "int8", "int8", "int4", "bytea", "bytea", "bytea")


def write_postings(connection: Connection[Any], number: int, added: Inverter, removed: Inverter) -> None:
    """Write the postings of a base, and count the chunks of each term.

    Only blocks with removed chunks are changed, and the last one of a term while it has room.

    Args:
        connection: in a transaction that holds the base's lock.
        number: number of the base.
        added: terms of new chunks, whose ids are larger than all stored ones.
        removed: terms of chunks that are gone.
    """
    connection.execute(
        "CREATE TEMP TABLE IF NOT EXISTS new_posting ON COMMIT DROP AS SELECT * FROM kbhub.posting WITH NO DATA"
    )
    connection.execute(
        "CREATE TEMP TABLE IF NOT EXISTS new_term ON COMMIT DROP AS SELECT * FROM kbhub.term WITH NO DATA"
    )
    new = added.sorted()
    gone = {term: np.unique(every >> CHUNK_SHIFT) for term, every in removed.sorted().by_term().items()}
    stored = connection.execute("SELECT FROM kbhub.posting WHERE base_id = %s LIMIT 1", (number,)).fetchone()
    if stored is None and not gone:
        _insert(connection, number, new.blocks())
        _count(connection, number, Counter(new.sizes()))
        return
    fresh_by_term = new.by_term()
    terms = sorted({*fresh_by_term, *gone})
    for start in range(0, len(terms), TERMS_AT_ONCE):
        some = terms[start : start + TERMS_AT_ONCE]
        blocks = _touched(connection, number, some, gone)
        parts: list[tuple[str, NDArray[np.int64]]] = []
        for term in some:
            lost = gone.get(term, _NOTHING)
            fresh = _without(fresh_by_term.get(term, _NOTHING), lost)
            for block, is_last in blocks.get(term, ()):
                kept = _without(block.occurrences(), lost)
                if is_last:
                    kept, fresh = np.concatenate([kept, fresh]), _NOTHING
                parts.append((term, kept))
            parts.append((term, fresh))
        parts = [(term, every) for term, every in parts if len(every)]
        if parts:
            ends = np.cumsum([len(every) for _, every in parts])
            every = np.concatenate([every for _, every in parts])
            _insert(connection, number, Occurrences(tuple(term for term, _ in parts), ends, every).blocks())
    counts = Counter(new.sizes())
    counts.subtract({term: len(chunks) for term, chunks in gone.items()})
    _count(connection, number, counts)


def _touched(
    connection: Connection[Any], number: int, terms: list[str], gone: dict[str, NDArray[np.int64]]
) -> dict[str, list[tuple[Block, bool]]]:
    """Take out the blocks of terms that lose chunks or have room for more, each with whether it is the term's last."""
    losing = [term for term in terms if term in gone]
    lowest = min((int(gone[term][0]) for term in losing), default=0)
    highest = max((int(gone[term][-1]) for term in losing), default=-1)
    last = (
        "NOT EXISTS (SELECT FROM kbhub.posting q WHERE q.base_id = p.base_id AND q.term = p.term AND q.first > p.first)"
    )
    rows = connection.execute(
        f"DELETE FROM kbhub.posting p WHERE base_id = %s AND term = ANY(%s) AND ((size < %s AND {last}) "
        "OR (term = ANY(%s) AND last >= %s AND first <= %s)) "
        f"RETURNING term, first, last, chunks, counts, places, {last}",
        (number, terms, BLOCK, losing, lowest, highest),
        binary=True,
    ).fetchall()
    found: dict[str, list[tuple[Block, bool]]] = {}
    for term, *block, is_last in sorted(rows, key=lambda row: row[:2]):
        found.setdefault(term, []).append((Block(*block), is_last))
    return found


def _without(every: NDArray[np.int64], gone: NDArray[np.int64]) -> NDArray[np.int64]:
    return every[~np.isin(every >> CHUNK_SHIFT, gone)] if len(gone) else every


def _insert(connection: Connection[Any], number: int, blocks: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy("COPY new_posting FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(_TYPES)
            for block in blocks:
                copy.write_row((number, *block))
        cursor.execute(f"INSERT INTO kbhub.posting(base_id, {_POSTING}) SELECT base_id, {_POSTING} FROM new_posting")
        cursor.execute("TRUNCATE new_posting")


def _count(connection: Connection[Any], number: int, changes: Mapping[str, int]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy("COPY new_term FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(("int4", "text", "int4"))
            for term, change in changes.items():
                if change:
                    copy.write_row((number, term, change))
        cursor.execute(
            "INSERT INTO kbhub.term SELECT * FROM new_term "
            "ON CONFLICT (base_id, term) DO UPDATE SET chunks = term.chunks + excluded.chunks"
        )
        fewer = [term for term, change in changes.items() if change < 0]
        cursor.execute("DELETE FROM kbhub.term WHERE base_id = %s AND chunks = 0 AND term = ANY(%s)", (number, fewer))
        cursor.execute("TRUNCATE new_term")
