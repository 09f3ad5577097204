"""Places for the documents of a graph: near each other in meaning, pulled together by links, none on top of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import IndexUnavailable
from kbhub.reading.nearness import NEAR_FLOOR, Means, means_of, vector_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.hub import Hub
    from kbhub.reading.graph import Graph, Node

ROUNDS = 50
"""Steps of the layout; after them it hardly moves."""

CELLS = 16
"""Cells along a side of the grid: what is in another cell repels from its middle, as in the Barnes–Hut method."""

NEAR_EACH = 3
"""Documents nearest in meaning to which each is joined."""

AT_ONCE = 1_000
"""Documents compared at once with all others: 20 MB for 5,000."""

SEED = 7
"""Of the layout, so that a picture is the same tomorrow."""


def positions(
    hub: Hub, graph: Graph, nodes: Sequence[Node], links: Sequence[tuple[int, int]]
) -> list[tuple[float, float]]:
    """Return a place for each document, within a circle of radius 1; `links` are pairs of indexes of `nodes`.

    The start is the plane in which the documents' meanings differ most; then links attract and all repel, as
    Fruchterman and Reingold do ("Graph Drawing by Force-directed Placement", 1991), with less and less force.
    """
    if not nodes:
        return []
    places = _by_meaning(_vectors(hub, graph, nodes))
    ends = np.array(links, np.int64).reshape(-1, 2)
    distance = 1.6 / np.sqrt(len(nodes))
    for number in range(ROUNDS):
        moves = _repelled(places, distance)
        pulled = places[ends[:, 0]] - places[ends[:, 1]]
        force = pulled * (np.linalg.norm(pulled, axis=1, keepdims=True) / distance)
        np.add.at(moves, ends[:, 0], -force)
        np.add.at(moves, ends[:, 1], force)
        moves -= places * 0.6
        length = np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-9)
        places += moves / length * np.minimum(length, 0.15 * (1 - number / ROUNDS))
    places -= places.mean(axis=0)
    places /= max(float(np.abs(places).max()), 1e-9)
    return [(round(float(x), 4), round(float(y), 4)) for x, y in places]


def near_pairs(hub: Hub, graph: Graph, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return pairs of documents near in meaning: each with its nearest, from `NEAR_FLOOR` on."""
    if not nodes:
        return []
    vectors = _vectors(hub, graph, nodes)
    pairs: set[tuple[int, int]] = set()
    for start in range(0, len(nodes), AT_ONCE):
        block = vectors[start : start + AT_ONCE]
        similar = block @ vectors.T
        similar[np.arange(len(block)), np.arange(start, start + len(block))] = -1
        count = min(NEAR_EACH, len(nodes) - 1)
        best = np.argpartition(-similar, count, axis=1)[:, :count] if count else np.zeros((len(block), 0), np.int64)
        for row, others in enumerate(best.tolist(), start):
            pairs |= {(min(row, at), max(row, at)) for at in others if similar[row - start, at] >= NEAR_FLOOR}
    return sorted(pairs)


def _vectors(hub: Hub, graph: Graph, nodes: Sequence[Node]) -> NDArray[np.float32]:
    """Return the mean vectors of documents, shape (documents, dimensions); zeros for those without one."""
    means: dict[str, Means] = {}
    for name in {base for base, _ in nodes}:
        links = graph.bases[name]
        if links.means is None:
            index = hub.index(links.base)
            try:
                with index.snapshot():
                    links.means = means_of(index)
            except IndexUnavailable:
                continue
        means[name] = links.means
    found = [vector_of(means[base], path) if base in means else None for base, path in nodes]
    width = max((len(vector) for vector in found if vector is not None), default=2)
    nothing = np.zeros(width, np.float32)
    return np.stack([nothing if vector is None or len(vector) != width else vector for vector in found])


def _by_meaning(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Project vectors onto the two directions in which they differ most, with a little noise between equals."""
    noise = np.random.default_rng(SEED).normal(0, 0.05, (len(vectors), 2))
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    flat = centred @ directions[:, -2:]
    scale = float(np.abs(flat).max())
    return (flat / scale if scale > 1e-6 else np.zeros((len(vectors), 2))) + noise


def _repelled(places: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Return how far each place is pushed by all others."""
    low, high = places.min(axis=0), places.max(axis=0)
    cell = np.minimum(((places - low) / np.maximum(high - low, 1e-9) * CELLS).astype(np.int64), CELLS - 1)
    _, member = np.unique(cell[:, 0] * CELLS + cell[:, 1], return_inverse=True)
    mass = np.bincount(member).astype(np.float32)
    x, y = places.T.astype(np.float32)
    right = x[:, None] - np.bincount(member, x).astype(np.float32) / mass
    up = y[:, None] - np.bincount(member, y).astype(np.float32) / mass
    weight = np.broadcast_to(mass, right.shape).copy()
    weight[np.arange(len(places)), member] -= 1  # nothing repels itself
    weight *= distance**2 / np.maximum(right * right + up * up, (distance / 4) ** 2)
    pushed = [np.einsum("ij,ij->i", apart, weight) for apart in (right, up)]
    return np.stack(pushed, axis=1).astype(np.float64)
