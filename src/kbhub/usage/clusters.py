"""Clustering of queries by their vectors. Imports numpy, so it is only loaded when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.side_files import Distinct
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIMILARITY = 0.85
"""Cosine above which two queries ask the same: issue "Memories"."""

BLOCK = 256
"""Queries compared with all others at a time: 10 MB of similarities for 10,000 queries."""

TIE_DIGITS = 5
"""Digits to which centrality is compared; float32 sums are no more precise."""


@struct
class Cluster:
    """Queries that ask the same."""

    center: Distinct
    vector: NDArray[np.float32]
    """Of the center, shape (dimensions,)."""
    keys: tuple[str, ...]
    """Of all queries, the most frequent first."""
    count: int
    """How often they were asked."""
    last: float
    """When one of them was last asked, seconds since the epoch."""
    clients: tuple[str, ...]
    """Who asked them."""
    unanswered: bool
    """Whether more than half of the judged answers had the verdict `none`."""

    def nearest(self, vectors: NDArray[np.float32]) -> int | None:
        """Return the index of the nearest vector that asks the same, or None."""
        near = vectors @ self.vector
        nearest = int(near.argmax())
        return nearest if near[nearest] > SIMILARITY else None


def clusters(queries: Sequence[Distinct], vectors: NDArray[np.float32], least: int) -> list[Cluster]:
    """Group queries that ask the same, most frequent first: each joins the most frequent leader that it is similar to.

    The result does not depend on the order of the queries. `vectors` has the shape (queries, dimensions), each of
    length 1, or all zeros (similar to nothing) for none. Clusters asked fewer than `least` times are left out.
    """
    order = sorted(range(len(queries)), key=lambda number: (-queries[number].count, queries[number].key))
    queries, vectors = [queries[number] for number in order], vectors[order]
    leaders = np.full(len(vectors), -1, np.int64)
    for start in range(0, len(vectors), BLOCK):
        free = start + np.flatnonzero(leaders[start : start + BLOCK] < 0)
        near = vectors[free] @ vectors.T > SIMILARITY
        for number, row in zip(free.tolist(), near, strict=True):
            if leaders[number] < 0:
                leaders[row & (leaders < 0)] = number
                leaders[number] = number
    groups = []
    for leader in np.unique(leaders):
        numbers = np.flatnonzero(leaders == leader)
        members, inside = tuple(queries[number] for number in numbers), vectors[numbers]
        counts = [query.count for query in members]
        if (count := sum(counts)) < least:
            continue
        # The one with the greatest mean similarity to all; on a tie, the most frequent.
        nearness = np.round(inside @ (np.asarray(counts, np.float32) @ inside) / count, TIE_DIGITS)
        center = numbers[np.argmax(nearness)]
        keys, last = tuple(query.key for query in members), max(query.last for query in members)
        clients = tuple(sorted({client for query in members for client in query.clients}))
        unanswered = sum(query.none for query in members) > sum(query.strong + query.weak for query in members)
        groups.append(Cluster(queries[center], vectors[center], keys, count, last, clients, unanswered))
    return sorted(groups, key=lambda cluster: (-cluster.count, -cluster.last, cluster.center.key))
