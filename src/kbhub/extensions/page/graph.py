"""The link graph of a base, or around a document: drawn by the browser from the data of one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kbhub.extensions.page.site import Site, site_of
from kbhub.hub import Hub
from kbhub.reading.graph import Graph, Node, found_document, graph_of
from kbhub.reading.nearness import NEAR_FLOOR, means_in, vectors_of
from kbhub.reading.neighbours import walk

NEAR_EACH = 3
"""Documents nearest in meaning to which each is joined."""

AT_ONCE = 1_000
"""Documents compared at once with all others: 20 MB for 5,000."""


def near_pairs(hub: Hub, graph: Graph, nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Return pairs of documents near in meaning: each with its nearest, from `NEAR_FLOOR` on."""
    for name in {base for base, _ in nodes}:
        links = graph.bases[name]
        links.means = links.means or means_in(hub, links.base)
    vectors = vectors_of({name: links.means for name, links in graph.bases.items()}, nodes)
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


MOST_NODES = 5_000
"""Documents drawn at once: as many as a browser moves fluently."""

HOPS = 2

CHOICES = {"base": "", "around": "", "near": "", "orphans": ""}
"""What a request may want to see, and the default: the documents `around` one, those of a `base`, or all."""


def graph_page(request: Request) -> Response:
    """Show the frame of the picture, and its content as lists."""
    site, chosen = site_of(request), {**CHOICES, **request.query_params}
    site.look()
    graph = graph_of(site.hub)
    nodes = _nodes(site, graph, chosen)
    linked = Counter({node: len(graph.coming.get(node, ())) for node in nodes})

    def named(node: Node) -> tuple[str, str]:
        return graph.ref(node), graph.document(node).title

    return site.page(
        request,
        "graph.html",
        title="Graph",
        chosen=chosen,
        bases=site.bases(),
        nodes=len(nodes),
        drawn=min(len(nodes), MOST_NODES),
        links=sum(edge.goal is not None for node in nodes for edge in graph.leaving.get(node, ())),
        orphans=[named(node) for node in nodes if not (graph.leaving.get(node) or graph.coming.get(node))],
        most=[(*named(node), count) for node, count in linked.most_common(10) if count],
    )


def graph_data(request: Request) -> Response:
    """Return the nodes and the edges, for the browser to place and draw."""
    site, chosen = site_of(request), {**CHOICES, **request.query_params}
    graph = graph_of(site.hub)
    nodes = _nodes(site, graph, chosen)
    if len(nodes) > MOST_NODES:
        counts = {node: len(graph.leaving.get(node, ())) + len(graph.coming.get(node, ())) for node in nodes}
        nodes = sorted(sorted(nodes, key=lambda node: -counts[node])[:MOST_NODES])
    known = {*nodes}
    ends = ((edge.source, edge.goal) for node in nodes for edge in graph.leaving.get(node, ()))
    links = {(source, goal) for source, goal in ends if goal in known and goal != source}
    near = [(nodes[one], nodes[other]) for one, other in near_pairs(site.hub, graph, nodes)] if chosen["near"] else []
    if not (chosen["orphans"] or chosen["around"]):
        joined = {node for pair in (*links, *near) for node in pair}
        nodes = [node for node in nodes if node in joined]
    number = {node: at for at, node in enumerate(nodes)}
    degrees = Counter(node for link in links for node in link)
    data = {
        "nodes": [
            {"label": graph.document(node).title, "ref": graph.ref(node), "links": degrees[node]} for node in nodes
        ],
        "links": sorted((number[source], number[goal]) for source, goal in links),
        "near": [(number[one], number[other]) for one, other in near],
    }
    return JSONResponse(data)


def _nodes(site: Site, graph: Graph, chosen: Mapping[str, str]) -> list[Node]:
    if chosen["around"]:
        start, _ = found_document(site.hub, graph, chosen["around"])
        return [start, *dict.fromkeys(hop.node for hop in walk(graph, [start], HOPS, ("link", "backlink", "related")))]
    names = [base.id for base in site.hub.select([chosen["base"]] if chosen["base"] else [])]
    return [(name, path) for name in names if name in graph.bases for path in graph.bases[name].documents]
