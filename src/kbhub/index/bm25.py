"""BM25 over many chunks at once. Pure arithmetic; imports numpy, so import it lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.ranking import K1, B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.index.postings import Postings

SPARSE = 8
"""Chunks per posting above which only the chunks with a term are summed."""


def scores(
    terms: Sequence[tuple[Postings, float]], lengths: NDArray[np.int32], mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Score every chunk that contains any of the terms.

    Args:
        terms: postings of each term in a base, and its weight (inverse document frequency).
        lengths: tokens per chunk of the base, by position.
        mean_length: mean tokens per chunk, over all bases.

    Returns:
        Positions of the chunks, ascending; their scores; the summed weights of the terms that each contains.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    positions = np.concatenate([postings.positions for postings, _ in terms])
    counts = np.concatenate([postings.counts for postings, _ in terms])
    weights = np.repeat([weight for _, weight in terms], [len(postings) for postings, _ in terms])
    norm = K1 * (1 - B + (B / mean_length) * lengths[positions]) if mean_length else K1
    parts = weights * (K1 + 1) * counts / (counts + norm)
    # Both ways add in the order of the terms, so that the sums are bit-identical.
    if len(positions) * SPARSE < len(lengths):
        matching, inverse = np.unique(positions, return_inverse=True)
        return matching, _summed(inverse, parts), _summed(inverse, weights)
    total = _summed(positions, parts)
    matching = np.flatnonzero(total)
    return matching, total[matching], _summed(positions, weights)[matching]


def _summed(positions: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(positions, weights=values).astype(np.float64, copy=False)
