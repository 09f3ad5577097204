"""Related documents: by links, backlinks, `related`, shared tags and meaning."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable, UsageError
from kbhub.reading.graph.building import graph_of
from kbhub.reading.graph.faults import Faults
from kbhub.reading.graph.models import EDGE_KINDS, LeftLink, Neighbour, Related
from kbhub.reading.graph.naming import found_document
from kbhub.reading.graph.walking import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kbhub.hub import Hub
    from kbhub.reading.graph.building import Graph, Node
    from kbhub.reading.graph.models import EdgeKind
    from kbhub.reading.graph.walking import Step

MOST_HOPS = 3
"""Most hops: further away, everything is connected."""

LIMIT = 10
"""Neighbours of each kind."""

NEAR_CHOSEN = 100
"""Most near documents that are counted."""

_STATUSES = ("broken", "outside", "file")


def related(
    hub: Hub, ref: str, *, hops: int = 1, kinds: Collection[EdgeKind] = EDGE_KINDS, limit: int = LIMIT
) -> Related:
    """Return the documents related to one, over all active bases.

    Links, backlinks and `related` are followed for the given hops; shared tags and nearness are those of the document
    itself. With 0 hops, the answer only counts the neighbours of each kind but `near` one hop away, and lists the
    document's links that lead to no document.

    Args:
        hub: the hub; its indexes are not synced.
        ref: the document, in any form that `read` accepts for one; lines and heading are ignored.
        hops: 0 to `MOST_HOPS`.
        kinds: kinds of neighbours to return.
        limit: neighbours of each kind.

    Raises:
        UsageError: `hops`, `kinds` or `limit` is invalid.
        DocumentNotFound: no index contains the document.
    """
    _check(hops, kinds, limit)
    graph = graph_of(hub)
    node = found_document(hub, graph, ref)
    requested = [kind for kind in EDGE_KINDS if kind in kinds]
    steps = walk(graph, [node], max(hops, 1), requested)
    neighbours_by_kind: dict[EdgeKind, list[Neighbour]] = {}
    totals: dict[str, int] = {}
    for kind in requested:
        if kind == "tag":
            totals[kind], neighbours_by_kind[kind] = _tagged(graph, node, limit if hops else 0)
        elif kind == "near":
            if hops:
                totals[kind], neighbours_by_kind[kind] = _near(hub, graph, node, limit)
        else:
            kind_steps = sorted((step for step in steps if step.kind == kind), key=_order)
            totals[kind] = len({step.node for step in kind_steps})
            neighbours_by_kind[kind] = [_joined(graph, step) for step in kind_steps[:limit]] if hops else []
    row = graph.document(node)
    return Related(
        **_named(graph, node),
        tags=row.tags,
        hops=hops,
        neighbours=tuple(neighbour for kind in neighbours_by_kind for neighbour in neighbours_by_kind[kind]),
        totals=totals,
        left=tuple(_left(graph, node)),
        skipped=graph.skipped,
    )


def _check(hops: int, kinds: Collection[str], limit: int) -> None:
    if not 0 <= hops <= MOST_HOPS:
        raise UsageError(f"hops is {hops}; it can be 0 to {MOST_HOPS}.")
    if unknown := sorted(set(kinds) - set(EDGE_KINDS)):
        raise UsageError(f"There is no kind {unknown[0]!r}; there are {', '.join(EDGE_KINDS)}.")
    if limit < 1:
        raise UsageError(f"limit is {limit}; it can be 1 or more.")


def _order(step: Step) -> tuple[int, bool, int, Node]:
    """Sort by hops; links as they occur in the document, backlinks by their number."""
    if step.direction == "out":
        return step.hop, False, 0, ("", "")  # in the order found
    return step.hop, True, -step.count, step.node


def _joined(graph: Graph, step: Step) -> Neighbour:
    link = step.edge.link
    return Neighbour(
        **_named(graph, step.node),
        kind=step.kind,
        direction=step.direction,
        hop=step.hop,
        via=graph.ref(step.via) if step.hop > 1 else None,
        line=link.line,
        context=link.text,
        heading=link.fragment,
        count=step.count,
        ambiguous=tuple(map(graph.ref, step.edge.others)),
    )


def _tagged(graph: Graph, node: Node, limit: int) -> tuple[int, list[Neighbour]]:
    """Return the number of documents that share a tag with one, and those that share the rarest."""
    alike = graph.tags.alike(graph.document(node).tags)
    alike.pop(node, None)
    best = heapq.nsmallest(limit, alike.items(), key=lambda item: (-item[1][0], item[0]))
    return len(alike), [
        Neighbour(
            **_named(graph, other),
            kind="tag",
            direction="both",
            hop=1,
            context=" ".join(f"#{graph.tags.form(key)}" for key in _innermost(shared)),
            score=round(score, 4),
        )
        for other, (score, shared) in best
    ]


def _innermost(keys: Collection[str]) -> Iterator[str]:
    """Leave out tags that are ancestors of another."""
    return (key for key in keys if not any(other.startswith(f"{key}/") for other in keys))


def _near(hub: Hub, graph: Graph, node: Node, limit: int) -> tuple[int, list[Neighbour]]:
    """Return the number of documents near in meaning, and the nearest, from bases with the same embedder."""
    # numpy takes 0.1 s to import, which links and tags do not need.
    from kbhub.reading.graph.nearness import means_of, nearest_documents, vector_of  # noqa: PLC0415

    def ready(base: str) -> bool:
        links = graph.bases[base]
        if links.means is None:
            index = hub.index(links.base)
            try:
                with index.snapshot():
                    links.means = means_of(index)
            except IndexUnavailable:
                return False
        return True

    own = graph.bases[node[0]]
    vector = vector_of(own.means, node[1]) if ready(node[0]) and own.means else None
    if vector is None or own.means is None:
        return 0, []
    scored: list[tuple[float, Node]] = []
    for name, links in graph.bases.items():
        if ready(name) and links.means and links.means.fingerprint == own.means.fingerprint:
            near = nearest_documents(links.means, vector, NEAR_CHOSEN + 1)
            # The index may have changed since its links were read.
            scored += [
                (-score, (name, path)) for path, score in near if path in links.documents and (name, path) != node
            ]
    scored = sorted(scored)[: max(NEAR_CHOSEN, limit)]
    return len(scored), [
        Neighbour(**_named(graph, other), kind="near", direction="both", hop=1, score=round(-score, 4))
        for score, other in scored[:limit]
    ]


def _left(graph: Graph, node: Node) -> list[LeftLink]:
    """Return the links of a document that lead to no document, broken ones first."""
    faults = Faults(graph)
    left = []
    for edge in graph.leaving.get(node, ()):
        link, (status, why) = edge.link, faults.verdict(edge)
        if status != "document":
            target = f"{link.target}#{link.fragment}" if link.fragment else link.target
            left.append(LeftLink(line=link.line, kind=link.kind, target=target, text=link.text, status=status, why=why))
    return sorted(left, key=lambda link: (_STATUSES.index(link.status), link.line or 0))


def _named(graph: Graph, node: Node) -> dict[str, str]:
    return {
        "ref": graph.ref(node),
        "docid": graph.docid(node),
        "base": node[0],
        "title": graph.document(node).title,
    }
