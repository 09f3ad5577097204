"""BM25 of very many chunks at once. Pure arithmetic; imported when something is first ranked, for it imports numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.ranking import K1, B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.index.postings import Postings

SPARSE = 8
"""Chunks per posting above which only those that have a term are added up."""


def scores(
    terms: Sequence[tuple[Postings, float]], lengths: NDArray[np.int32], mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Score every chunk that has one of some terms.

    Args:
        terms: where each occurs in a base, and its weight (inverse document frequency).
        lengths: tokens of the base's chunks, by position.
        mean_length: tokens of a chunk on average, over all bases.

    Returns:
        Positions of the chunks, ascending, and their scores.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0)
    positions = np.concatenate([postings.positions for postings, _ in terms])
    counts = np.concatenate([postings.counts for postings, _ in terms])
    weights = np.repeat([weight for _, weight in terms], [len(postings) for postings, _ in terms])
    norm = K1 * (1 - B + (B / mean_length) * lengths[positions]) if mean_length else K1
    parts = weights * (K1 + 1) * counts / (counts + norm)
    # Added up in the order of the terms in both ways, so that the sums are the same to the last bit.
    if len(positions) * SPARSE < len(lengths):
        found, inverse = np.unique(positions, return_inverse=True)
        return found, np.bincount(inverse, weights=parts).astype(np.float64, copy=False)
    total = np.bincount(positions, weights=parts).astype(np.float64, copy=False)
    found = np.flatnonzero(total)
    return found, total[found]
