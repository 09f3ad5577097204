"""Which chunks have a term, and how often: packed for terms that many chunks have, else asked of FTS5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.columns import growing
from kbhub.index.schema import FTS_WEIGHTS
from kbhub.ranking import K1, B, inverse_document_frequency
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kbhub.index.columns import Columns, Rows
    from kbhub.query import Term

FEW = 200
"""Chunks up to which each is asked for the number of occurrences, 5 µs a chunk; for more FTS5's own bm25() is taken
apart, 0.5 µs a chunk and as much again for each 10 chunks that have the term anywhere."""

_WEIGHTS = ", ".join(map(str, FTS_WEIGHTS))


@struct
class Postings:
    """Where one term occurs in one index."""

    positions: NDArray[np.int64]
    """Of the chunks that have it, ascending; see `columns`."""
    counts: NDArray[np.float64]
    """Its occurrences in each, those in a title or a heading counted with the weight of that column."""

    def __len__(self) -> int:
        return len(self.positions)


def postings(term: Term, columns: Columns, rows: Rows) -> Postings:
    """Find where a term occurs.

    Args:
        term: of a query.
        columns: of the index, in this snapshot.
        rows: reads within the snapshot.

    Raises:
        ValueError: what is packed in the index is damaged.
    """
    if not columns.packed or not term.plain:
        return _of_fts5(term.match, columns, rows)
    stored = rows("SELECT places, counts FROM posting WHERE term = ?", term.tokens[0])
    if not stored:
        return _of_fts5(term.match, columns, rows)
    positions, counts = growing(stored[0][0]), np.diff(growing(stored[0][1]), prepend=0).astype(np.float64)
    if len(positions) != len(counts) or (len(positions) and positions[-1] >= columns.packed):
        raise ValueError("the packed places of a word make no sense")
    if columns.chunks < len(columns.ids):
        there = columns.alive[positions]
        positions, counts = positions[there], counts[there]
    if columns.packed == len(columns.ids):
        return Postings(positions, counts)
    since = _of_fts5(term.match, columns, rows, len(positions))
    return Postings(np.concatenate([positions, since.positions]), np.concatenate([counts, since.counts]))


def _of_fts5(match: str, columns: Columns, rows: Rows, packed: int = 0) -> Postings:
    """Ask FTS5 about the chunks that are not packed, or about all.

    Args:
        match: an expression of one phrase.
        columns: of the index.
        rows: reads within the snapshot.
        packed: packed chunks that match and are left out; 0 for all chunks.
    """
    after = columns.last_packed if packed else -1
    likely = packed * (len(columns.ids) - columns.packed) / max(columns.packed, 1)
    if packed and likely <= FEW:
        found = rows("SELECT rowid, occurrences(fts) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
        ids, counts = _split(found)
        return Postings(columns.positions(ids), counts)
    found = rows(f"SELECT rowid, -bm25(fts, {_WEIGHTS}) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
    ids, scores = _split(found)
    positions = columns.positions(ids)
    # BM25 of a single term, solved for the number of its occurrences.
    weight = inverse_document_frequency(columns.chunks, packed + len(ids)) * (K1 + 1)
    mean = columns.tokens / max(columns.chunks, 1)
    norm = K1 * (1 - B + B * columns.lengths[positions] / mean)
    return Postings(positions, np.rint(scores * norm / (weight - scores)))


def _split(found: list[tuple[int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.array([one for one, _ in found], np.int64), np.array([number for _, number in found], np.float64)
