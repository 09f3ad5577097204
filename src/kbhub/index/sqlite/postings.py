"""Chunks and counts of a term: packed for common terms, else from FTS5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.columns import growing
from kbhub.index.postings import Postings
from kbhub.index.weights import FTS_WEIGHTS, K1, B, inverse_document_frequency

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kbhub.index.columns import Columns
    from kbhub.index.query import Term
    from kbhub.index.sqlite.columns import Rows

FEW = 200
"""Chunks up to which occurrences are counted per chunk, at 5 µs each; for more they are computed from FTS5's bm25(), at
0.5 µs per chunk and as much again per 10 chunks that have the term anywhere."""

_WEIGHTS = ", ".join(map(str, FTS_WEIGHTS))


def postings(term: Term, columns: Columns, rows: Rows) -> Postings:
    """Look up a term of a query in one snapshot; damaged packed data raises ValueError."""
    if not columns.packed or not term.plain:
        return _of_fts5(term.match, columns, rows)
    stored = rows("SELECT places, counts FROM posting WHERE term = ?", term.tokens[0])
    if not stored:
        return _of_fts5(term.match, columns, rows)
    positions, counts = growing(stored[0][0]), np.diff(growing(stored[0][1]), prepend=0).astype(np.float64)
    if len(positions) != len(counts) or (len(positions) and positions[-1] >= columns.packed):
        raise ValueError("the packed places of a word make no sense")
    if columns.chunks < len(columns.ids):
        alive = columns.alive[positions]
        positions, counts = positions[alive], counts[alive]
    if columns.packed == len(columns.ids):
        return Postings(positions, counts)
    newer = _of_fts5(term.match, columns, rows, len(positions))
    return Postings(np.concatenate([positions, newer.positions]), np.concatenate([counts, newer.counts]))


def _of_fts5(match: str, columns: Columns, rows: Rows, packed: int = 0) -> Postings:
    """Look up a term in FTS5, leaving out `packed` packed chunks, or in all chunks if that is 0."""
    after = columns.last_packed if packed else -1
    likely = packed * (len(columns.ids) - columns.packed) / max(columns.packed, 1)
    if packed and likely <= FEW:
        matches = rows("SELECT rowid, occurrences(fts) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
        ids, counts = _split(matches)
        return Postings(columns.positions(ids), counts)
    matches = rows(f"SELECT rowid, -bm25(fts, {_WEIGHTS}) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
    ids, scores = _split(matches)
    positions = columns.positions(ids)
    # BM25 of a single term, solved for the number of occurrences.
    weight = inverse_document_frequency(columns.chunks, packed + len(ids)) * (K1 + 1)
    mean = columns.tokens / max(columns.chunks, 1)
    norm = K1 * (1 - B + B * columns.lengths[positions] / mean)
    return Postings(positions, np.rint(scores * norm / (weight - scores)))


def _split(rows: list[tuple[int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.array([chunk for chunk, _ in rows], np.int64), np.array([value for _, value in rows], np.float64)
