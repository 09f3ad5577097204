"""Walk from document to document along links and entries of `related`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kbhub.reading.graph.building import Edge, Graph, Node
    from kbhub.reading.graph.models import EdgeKind


@dataclass(slots=True)
class Step:
    """A reached document, and how it was reached."""

    node: Node
    kind: EdgeKind
    direction: Literal["out", "in"]
    hop: int
    via: Node
    edge: Edge
    """The first such link."""
    count: int = 1
    """Number of such links."""


def walk(graph: Graph, starts: Iterable[Node], hops: int, kinds: Collection[EdgeKind]) -> list[Step]:
    """Follow links in both directions and return the documents reached, nearest first.

    A document is returned at the fewest hops that reach it: at the first hop once per kind and direction, at later hops
    just once.

    Args:
        graph: the link graph.
        starts: documents to start from; not returned.
        hops: most steps.
        kinds: kinds to follow: `link`, `backlink`, `related`; others are ignored.
    """
    level = list(dict.fromkeys(starts))
    seen = set(level)
    reached: list[Step] = []
    for hop in range(1, hops + 1):
        steps: dict[tuple[Node, EdgeKind | None, str | None], Step] = {}
        for node in level:
            for step in _from(graph, node, hop, kinds):
                if step.node in seen:
                    continue
                # Kind and direction only matter at the first hop.
                key = (step.node, step.kind, step.direction) if hop == 1 else (step.node, None, None)
                existing = steps.setdefault(key, step)
                if existing is not step and (existing.via, existing.kind, existing.direction) == (
                    *(step.via, step.kind, step.direction),
                ):
                    existing.count += 1
        reached += steps.values()
        level = list(dict.fromkeys(step.node for step in steps.values()))
        seen.update(level)
    return reached


def _from(graph: Graph, node: Node, hop: int, kinds: Collection[EdgeKind]) -> Iterator[Step]:
    for edge in graph.leaving.get(node, ()):
        kind: EdgeKind = "related" if edge.link.kind == "related" else "link"
        if kind in kinds and edge.goal is not None and edge.goal != node:
            yield Step(edge.goal, kind, "out", hop, node, edge)
    for edge in graph.coming.get(node, ()):
        kind = "related" if edge.link.kind == "related" else "backlink"
        if kind in kinds:
            yield Step(edge.source, kind, "in", hop, node, edge)
