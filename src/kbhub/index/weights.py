"""BM25 arithmetic and its weights. Pure."""

from __future__ import annotations

import math

K1, B = 1.2, 0.75
"""Saturation and length normalisation of BM25, as built into FTS5."""

IDF_FLOOR = 1e-6
"""Inverse document frequency of a term in more than half of the chunks, as in FTS5."""

FTS_COLUMNS = ("title", "headings", "path", "tags", "body")
FTS_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0)
"""Weight of a term's occurrence per column."""

Key = tuple[int, int]
"""A chunk of several bases: (number of the base, chunk id)."""

Place = tuple[str, int, str]
"""Position of a chunk: (path, first line, base id)."""


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Return the BM25 weight of a term that `containing` of all `rows` chunks contain."""
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))
