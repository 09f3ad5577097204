"""Rank arithmetic, pure: pooled BM25. No storage, no clock, no model."""

from __future__ import annotations

import math

K1, B = 1.2, 0.75
"""BM25's saturation and length normalisation; the values that FTS5 has built in."""

IDF_FLOOR = 1e-6
"""Inverse document frequency of a term in more than half of the chunks, as FTS5 sets it."""

Key = tuple[int, int]
"""A chunk among several bases: (number of the base, id of the chunk in it)."""

Place = tuple[str, int, str]
"""Where a chunk stands: (path, first line, base id)."""


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Give a term's weight in BM25.

    Args:
        rows: chunks in all bases.
        containing: chunks that contain the term.
    """
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))
