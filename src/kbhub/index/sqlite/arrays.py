"""The numeric side of an index: the data of many chunks, read at once as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.signatures import likely, sign
from kbhub.index.sqlite.columns import columns, common_terms, existing, packed, postings_of, signatures
from kbhub.index.sqlite.postings import postings
from kbhub.models.vectors import quantise, similarity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "columns",
    "common_terms",
    "existing",
    "likely",
    "packed",
    "paired",
    "postings",
    "postings_of",
    "quantise",
    "sign",
    "signatures",
    "similarity",
]


def paired(rows: Sequence[tuple[int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (chunk, value) pairs as two arrays."""
    return (
        np.array([chunk for chunk, _ in rows], np.int64),
        np.array([value for _, value in rows], np.float64),
    )
