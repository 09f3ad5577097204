"""Comparing vectors; imported when a first vector is wanted, for it imports numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST = 127
"""Largest component of a stored vector: each is scaled by its own, for cosine needs no length."""


def quantise(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Give vectors as int8, each scaled to use the whole range; shape (dimensions,) or (n, dimensions)."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0)
    return np.rint(vectors * (MOST / np.where(largest, largest, 1))).astype(np.int8)


def similarity(blobs: Sequence[bytes], vector: NDArray[np.int8]) -> list[float]:
    """Give the cosine similarity of stored vectors to one, as sqlite-vec computes it, for where that has no build.

    Args:
        blobs: int8 vectors.
        vector: int8, shape (dimensions,).
    """
    if not blobs:
        return []
    stored = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    asked = vector.astype(np.float32)
    found: list[float] = (stored @ asked / (np.linalg.norm(stored, axis=1) * np.linalg.norm(asked))).tolist()
    return found
