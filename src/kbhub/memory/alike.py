"""Pairs of memories that are near in meaning; imports numpy, so nothing that a server loads imports it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import IndexUnavailable
from kbhub.memory.similarity import NEAR_SIMILARITY
from kbhub.reading.graph.nearness import means_of, vector_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.hub import Hub
    from kbhub.memory.catalog import StoredMemory

MOST_ALIKE = 20
"""Limit of pairs."""


def alike(hub: Hub, memories: Sequence[StoredMemory]) -> list[tuple[StoredMemory, StoredMemory, float]]:
    """Return pairs of memories near in meaning, nearest first, without superseded ones; uses indexes as they are."""
    current = [memory for memory in memories if not memory.facts.superseded_by]
    vectors: dict[int, NDArray[np.float32]] = {}
    for base in {memory.shelf.base.id: memory.shelf.base for memory in current}.values():
        index = hub.index(base)
        with suppress(IndexUnavailable), index.snapshot():
            means = means_of(index)
            for number, memory in enumerate(current):
                vector = vector_of(means, memory.path) if memory.shelf.base.id == base.id else None
                if vector is not None:
                    vectors[number] = vector
    numbers = [number for number in vectors if len(vectors[number]) == len(next(iter(vectors.values())))]
    if not numbers:
        return []
    matrix = np.stack([vectors[number] for number in numbers])
    similar = np.triu(matrix @ matrix.T, 1)
    pairs = [
        (current[numbers[one]], current[numbers[other]], float(similar[one, other]))
        for one, other in np.argwhere(similar >= NEAR_SIMILARITY).tolist()
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0].path, pair[1].path))[:MOST_ALIKE]
