"""Steps from document to document along links and entries of `related`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kbhub.graph.building import Edge, Graph, Node
    from kbhub.graph.models import EdgeKind


@dataclass(slots=True)
class Step:
    """A document that was reached, and how."""

    node: Node
    kind: EdgeKind
    direction: Literal["out", "in"]
    hop: int
    via: Node
    edge: Edge
    """The first link that joins them so."""
    count: int = 1
    """Links that do."""


def walk(graph: Graph, starts: Iterable[Node], hops: int, kinds: Collection[EdgeKind]) -> list[Step]:
    """Go along links, both ways, and give what is reached, nearest first.

    A document is given at the fewest hops that lead to it; there, once for every kind and direction in which it is
    joined at the first hop, and once at all at later ones.

    Args:
        graph: the link graph.
        starts: documents to start from; they are not given.
        hops: steps at most.
        kinds: what to follow: `link`, `backlink`, `related`; other kinds are not for following.
    """
    level = list(dict.fromkeys(starts))
    seen = set(level)
    found: list[Step] = []
    for hop in range(1, hops + 1):
        steps: dict[tuple[Node, EdgeKind | None, str | None], Step] = {}
        for node in level:
            for step in _from(graph, node, hop, kinds):
                if step.node in seen:
                    continue
                # At the first hop the way matters; further on, that it is reached.
                key = (step.node, step.kind, step.direction) if hop == 1 else (step.node, None, None)
                known = steps.setdefault(key, step)
                if known is not step and (known.via, known.kind, known.direction) == (
                    *(step.via, step.kind, step.direction),
                ):
                    known.count += 1
        found += steps.values()
        level = list(dict.fromkeys(step.node for step in steps.values()))
        seen.update(level)
    return found


def _from(graph: Graph, node: Node, hop: int, kinds: Collection[EdgeKind]) -> Iterator[Step]:
    for edge in graph.leaving.get(node, ()):
        kind: EdgeKind = "related" if edge.link.kind == "related" else "link"
        if kind in kinds and edge.goal is not None and edge.goal != node:
            yield Step(edge.goal, kind, "out", hop, node, edge)
    for edge in graph.coming.get(node, ()):
        kind = "related" if edge.link.kind == "related" else "backlink"
        if kind in kinds:
            yield Step(edge.source, kind, "in", hop, node, edge)
