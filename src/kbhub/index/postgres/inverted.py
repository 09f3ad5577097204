"""Updates of a shared base's postings for chunks that come and go."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.index.postgres.blocks import BLOCK, CHUNK_SHIFT, Block, Occurrences
from kbhub.index.postgres.schema import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from psycopg import Connection

    from kbhub.index.postgres.blocks import Inverter

TERMS_AT_ONCE = 5_000
"""Terms whose stored blocks are in memory at once."""

BLOCKS_AT_ONCE = 20_000
"""Blocks that one statement writes: 30 MB at most."""

_NOTHING = np.zeros(0, np.int64)


def put(connection: Connection[Any], number: int, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows of a base into a table of `WRITTEN`, as one array per column, in a transaction that holds the base."""
    if rows:
        kinds = [column.rpartition(" ")[2] for column in WRITTEN[table].split(", ")]
        arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
        connection.execute(
            f"SELECT kbhub.put_{table}(%s, {arrays})", (number, *(list(column) for column in zip(*rows, strict=True)))
        )


def write_postings(connection: Connection[Any], number: int, added: Inverter, removed: Inverter) -> None:
    """Write the postings of a base, and count the chunks of each term, in a transaction that holds the base.

    Only blocks with removed chunks are changed, and the last one of a term while it has room. The ids of added chunks
    must be larger than all stored ones.
    """
    new = added.sorted()
    gone = {term: np.unique(every >> CHUNK_SHIFT) for term, every in removed.sorted().by_term().items()}
    stored = connection.execute("SELECT FROM kbhub.term_rows(%s) LIMIT 1", (number,)).fetchone()
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
    rows = connection.execute(
        "SELECT * FROM kbhub.take_postings(%s, %s::text[], %s, %s::text[], %s, %s)",
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
    waiting = iter(blocks)
    while some := list(islice(waiting, BLOCKS_AT_ONCE)):
        put(connection, number, "posting", some)


def _count(connection: Connection[Any], number: int, changes: Mapping[str, int]) -> None:
    put(connection, number, "term", [(term, change) for term, change in changes.items() if change])
