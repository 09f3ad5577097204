"""Quantised vectors and their similarity; imported on first use, as it imports numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST = 127
"""Largest component of a stored vector; each vector has its own scale, as cosine ignores length."""


def quantise(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Convert vectors of shape (dimensions,) or (n, dimensions) to int8, each scaled to the whole range."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
    return np.rint(vectors * (MOST / np.where(largest, largest, 1))).astype(np.int8)


def similarity(blobs: Sequence[bytes], vector: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the cosine similarity of stored int8 vectors to an int8 one, to the last bit as sqlite-vec computes it."""
    if not blobs:
        return np.zeros(0)
    # Integers below 2^24 are exact as float32, so the order of summation does not matter.
    stored = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    query = vector.astype(np.float32)
    product, squares = (stored @ query).astype(np.float64), np.einsum("ij,ij->i", stored, stored).astype(np.float64)
    distance = 1 - product / (np.sqrt(squares) * np.sqrt(float(query @ query)))
    cosine: NDArray[np.float64] = 1 - distance.astype(np.float32).astype(np.float64)
    return cosine
