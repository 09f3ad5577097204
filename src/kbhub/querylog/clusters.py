"""Which queries ask the same: pure arithmetic on their vectors. Imports numpy, so it is loaded when it is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.index.querylog import Distinct

SIMILARITY = 0.85
"""Cosine above which two queries ask the same: issue "Memories"."""

LEAST = 5
"""Askings of the smallest cluster. Same source."""

BLOCK = 256
"""Queries that are compared with all others at a time: 10 MB of similarities for 10,000."""

TIE_DIGITS = 5
"""Digits to which two queries are equally central: float32 tells no more of a sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Queries that ask the same."""

    members: tuple[Distinct, ...]
    """The most asked first."""
    center: Distinct
    """The one that is nearest to all of them."""
    vector: NDArray[np.float32]
    """Of the center, shape (dimensions,)."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Give the keys of its members."""
        return tuple(one.key for one in self.members)

    @property
    def count(self) -> int:
        """Give how often they were asked."""
        return sum(one.count for one in self.members)

    @property
    def last(self) -> float:
        """Give when one was last asked, seconds since the epoch."""
        return max(one.last for one in self.members)

    @property
    def clients(self) -> tuple[str, ...]:
        """Give who asked."""
        return tuple(sorted({client for one in self.members for client in one.clients}))

    def mostly(self, verdict: str) -> bool:
        """Whether more than half of the answers that were judged had a verdict."""
        counts: dict[str, int] = {
            name: sum(getattr(one, name) for one in self.members) for name in ("strong", "weak", "none")
        }
        return 2 * counts[verdict] > sum(counts.values())


def clusters(queries: Sequence[Distinct], vectors: NDArray[np.float32], least: int = LEAST) -> list[Cluster]:
    """Gather the queries that ask the same: each joins the most asked one that it is near to and that leads.

    The result depends on the queries alone, not on their order.

    Args:
        queries: distinct ones.
        vectors: theirs, shape (queries, dimensions), of length 1; all zero where there is none, which is near to none.
        least: askings of the smallest one that is given.

    Returns:
        Those of at least so many askings, the most asked first.
    """
    order = sorted(range(len(queries)), key=lambda number: (-queries[number].count, queries[number].key))
    queries, vectors = [queries[number] for number in order], vectors[order]
    leaders = _leaders(vectors)
    found = []
    for leader in np.unique(leaders):
        numbers = np.flatnonzero(leaders == leader)
        members = tuple(queries[number] for number in numbers)
        if sum(one.count for one in members) < least:
            continue
        center = numbers[_central(vectors[numbers], [one.count for one in members])]
        found.append(Cluster(members, queries[center], vectors[center]))
    return sorted(found, key=lambda cluster: (-cluster.count, -cluster.last, cluster.center.key))


def _leaders(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Give the number of the leader of each query."""
    leaders = np.full(len(vectors), -1, np.int64)
    for start in range(0, len(vectors), BLOCK):
        free = start + np.flatnonzero(leaders[start : start + BLOCK] < 0)
        near = vectors[free] @ vectors.T > SIMILARITY
        for number, row in zip(free.tolist(), near, strict=True):
            if leaders[number] < 0:
                leaders[row & (leaders < 0)] = number
                leaders[number] = number
    return leaders


def _central(vectors: NDArray[np.float32], counts: Sequence[int]) -> int:
    """Give the number of the query with the greatest mean similarity to all; of equal ones the most asked."""
    total = np.asarray(counts, np.float32) @ vectors
    nearness = np.round(vectors @ total / sum(counts), TIE_DIGITS)
    return int(np.argmax(nearness))
