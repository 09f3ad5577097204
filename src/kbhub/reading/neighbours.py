"""Related documents: by links, backlinks, `related`, shared tags and meaning; and documents by tag."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from kbhub.errors import IndexUnavailable, UsageError
from kbhub.hub import Hub
from kbhub.index.references import page_of, without_version
from kbhub.reading.graph import Edge, Faults, Graph, Node, TagTable, found_document, graph_of, key_of, unread
from kbhub.reading.reports import EDGE_KINDS, EdgeKind, LeftLink, Neighbour, Related, TagCount, TaggedDocument, Tags
from kbhub.values import struct

MOST_HOPS = 3
"""Most hops: further away, everything is connected."""

RELATED_LIMIT = 10
"""Neighbours of each kind."""

NEAR_CHOSEN = 100
"""Most near documents that are counted."""

_STATUSES = ("broken", "outside", "file")


@struct(frozen=False)
class Hop:
    """A reached document, and how it was reached."""

    node: Node
    kind: EdgeKind
    direction: Literal["out", "in"]
    hop: int
    via: Node
    edge: Edge
    """The first such link."""
    count: int = 1


def walk(graph: Graph, starts: Iterable[Node], hops: int, kinds: Collection[EdgeKind]) -> list[Hop]:
    """Follow links of some kinds in both directions; return the documents reached, nearest first, without the starts.

    A document is returned at the fewest hops that reach it: at the first hop once per kind and direction, at later hops
    just once. Kinds other than `link`, `backlink` and `related` are ignored.
    """
    level = list(dict.fromkeys(starts))
    seen = set(level)
    reached: list[Hop] = []
    for hop in range(1, hops + 1):
        steps: dict[tuple[Node, EdgeKind | None, str | None], Hop] = {}
        for node in level:
            for step in _from(graph, node, hop, kinds):
                if step.node in seen:
                    continue
                # Kind and direction only matter at the first hop.
                key = (step.node, step.kind, step.direction) if hop == 1 else (step.node, None, None)
                first = steps.setdefault(key, step)
                same = (first.via, first.kind, first.direction) == (step.via, step.kind, step.direction)
                first.count += same and first is not step
        reached += steps.values()
        level = list(dict.fromkeys(step.node for step in steps.values()))
        seen.update(level)
    return reached


def _from(graph: Graph, node: Node, hop: int, kinds: Collection[EdgeKind]) -> Iterator[Hop]:
    for edge in graph.leaving.get(node, ()):
        kind: EdgeKind = "related" if edge.link.kind == "related" else "link"
        if kind in kinds and edge.goal is not None and edge.goal != node:
            yield Hop(edge.goal, kind, "out", hop, node, edge)
    for edge in graph.coming.get(node, ()):
        kind = "related" if edge.link.kind == "related" else "backlink"
        if kind in kinds:
            yield Hop(edge.source, kind, "in", hop, node, edge)


def related(
    hub: Hub, ref: str, *, hops: int = 1, kinds: Collection[EdgeKind] = EDGE_KINDS, limit: int = RELATED_LIMIT
) -> Related:
    """Return the documents related to one, over all active bases.

    Links, backlinks and `related` are followed for the given hops; shared tags and nearness are those of the document
    itself. With 0 hops, the answer only counts the neighbours of each kind but `near` one hop away, and lists the
    document's links that lead to no document.

    The ref has any form that `read` accepts for one document; lines and heading are ignored. `limit` applies to each
    kind. The indexes are not synced.

    Raises `UsageError` if `hops` (0 to `MOST_HOPS`), `kinds` or `limit` is invalid; `DocumentNotFound` if no index
    contains the document.
    """
    _check(hops, kinds, limit)
    graph = graph_of(hub)
    node, notes = found_document(hub, graph, ref)
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
        notes=notes,
        skipped=unread(hub, graph),
    )


def _check(hops: int, kinds: Collection[str], limit: int) -> None:
    if not 0 <= hops <= MOST_HOPS:
        raise UsageError(f"hops is {hops}; it must be between 0 and {MOST_HOPS}.")
    if unknown := sorted(set(kinds) - set(EDGE_KINDS)):
        raise UsageError(f"Unknown kind {unknown[0]!r}. Kinds: {', '.join(EDGE_KINDS)}.")
    if limit < 1:
        raise UsageError(f"limit is {limit}; it must be 1 or more.")


def _order(step: Hop) -> tuple[int, bool, int, Node]:
    """Sort by hops; links as they occur in the document, backlinks by their number."""
    if step.direction == "out":
        return step.hop, False, 0, ("", "")  # in the order found
    return step.hop, True, -step.count, step.node


def _joined(graph: Graph, step: Hop) -> Neighbour:
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
    neighbours = []
    for other, (share, shared) in best:
        # A tag stands for those above it.
        lowest = [key for key in shared if not any(below.startswith(f"{key}/") for below in shared)]
        tags, score = " ".join(f"#{graph.tags.form(key)}" for key in lowest), round(share, 4)
        named = _named(graph, other)
        neighbours.append(Neighbour(**named, kind="tag", direction="both", hop=1, context=tags, score=score))
    return len(alike), neighbours


def _near(hub: Hub, graph: Graph, node: Node, limit: int) -> tuple[int, list[Neighbour]]:
    """Return the number of documents near in meaning, and the nearest, from bases with the same embedder."""
    # numpy takes 0.1 s to import, which links and tags do not need.
    from kbhub.reading.nearness import means_in, nearest_documents, vector_of  # noqa: PLC0415

    first = graph.bases[node[0]]
    own = first.means = first.means or means_in(hub, first.base)
    if own is None or (vector := vector_of(own, node[1])) is None:
        return 0, []
    scored: list[tuple[float, Node]] = []
    pages = dict[Node, object]()
    for name, links in graph.bases.items():
        links.means = links.means or means_in(hub, links.base)
        if links.means and links.means.fingerprint == own.fingerprint:
            near = nearest_documents(links.means, vector, NEAR_CHOSEN + 1)
            near = [one for one in near if one[0] in links.documents]  # the index may have changed since
            scored += [(-score, (name, path)) for path, score in near if (name, path) != node]
            with suppress(IndexUnavailable), hub.index(links.base).snapshot() as index:
                for path, _ in near:
                    page = page_of(index, path)[0]
                    pages[name, path] = name, without_version(page, links.documents[path].title)[0]
    # Another version or translation says nothing else: of each page, the nearest.
    first_of = {pages.get(other, other): (score, other) for score, other in sorted(scored, reverse=True)}
    first_of.pop(pages.get(node, node), None)
    chosen = sorted(first_of.values())[: max(NEAR_CHOSEN, limit)]
    return len(chosen), [
        Neighbour(**_named(graph, other), kind="near", direction="both", hop=1, score=round(-score, 4))
        for score, other in chosen[:limit]
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
    title = graph.document(node).title
    return {"ref": graph.ref(node), "docid": graph.docid(node), "base": node[0], "title": title}


TAGS_LIMIT = 100
"""Tags or documents per answer."""

MOST_NAMES = 50
"""Most tags per request: each is compared with all tags."""

LONGEST_NAME = 500
"""Longest tag that is looked up; a memory's has at most 100 characters."""

SUGGESTED = 3

_FOLLOWED: tuple[EdgeKind, ...] = ("link", "backlink", "related")


def tags(
    hub: Hub,
    names: Sequence[str] = (),
    *,
    bases: Iterable[str] = (),
    hops: int = 1,
    limit: int = TAGS_LIMIT,
    everything: bool = False,
) -> Tags:
    """List all tags, or the documents with any of some tags and those linked to them.

    As in a filter, several names are alternatives, `a` includes the tags below it (`a/b`), case does not matter, and
    `*` matches anything. A document counts once per tag, even with several tags below it. Names may begin with `#`.

    Only the tags of the given bases count, but links, backlinks and `related` are followed into every base, for 0 to
    `MOST_HOPS` hops. `everything` ignores the limit. The indexes are not synced.

    Raises `UsageError` if `hops` or `limit` is invalid, or a name is empty or too long, or there are too many;
    `BaseNotFound` if a base is not active.
    """
    _check(hops, (), limit)
    if empty := [name for name in names if not key_of(name)]:
        raise UsageError(f"{empty[0]!r} is not a tag.")
    if len(names) > MOST_NAMES:
        raise UsageError(f"tags takes at most {MOST_NAMES} tags per call. Split them into several calls.")
    if (longest := max(map(len, names), default=0)) > LONGEST_NAME:
        raise UsageError(f"A tag can have at most {LONGEST_NAME} characters; this one has {longest:,}.")
    base_ids = [base.id for base in hub.select(bases)]
    graph = graph_of(hub)
    graph_bases = [name for name in graph.bases if name in base_ids]
    skipped = tuple(base for base in unread(hub, graph) if base.base in base_ids)
    table = graph.tags if len(graph_bases) == len(graph.bases) else graph.tags_in(graph_bases)
    most = None if everything else limit
    result = _documents(graph, table, names, hops, most) if names else _all_tags(table, most)
    return result.model_copy(update={"skipped": skipped})


def _all_tags(table: TagTable, most: int | None) -> Tags:
    keys = table.tree()
    # The most frequent at any level; a tag is at least as frequent as those below it, so parents are included.
    frequent = set(sorted(keys, key=lambda key: (-len(table.having[key]), key.count("/"), key))[:most])
    counted = (
        TagCount(tag=table.form(key), count=len(table.having[key]), own=table.own[key], depth=key.count("/"))
        for key in keys
        if key in frequent
    )
    return Tags(tags=tuple(counted), tagged=table.size, total=len(keys))


def _documents(graph: Graph, table: TagTable, names: Sequence[str], hops: int, most: int | None) -> Tags:
    keys = {name: table.matching(name) for name in names}
    tagged = _in_order(graph, {node for tag_keys in keys.values() for key in tag_keys for node in table.having[key]})
    steps: dict[Node, Hop] = {}
    for step in walk(graph, tagged, hops, _FOLLOWED):
        steps.setdefault(step.node, step)
    joined = sorted((steps[node] for node in _in_order(graph, steps)), key=lambda step: step.hop)
    documents: list[tuple[Node, Hop | None]] = [(node, None) for node in tagged]
    documents += [(step.node, step) for step in joined]
    listed = [
        TaggedDocument(
            **_named(graph, node),
            kind=graph.document(node).kind,
            tags=graph.document(node).tags,
            hop=step.hop if step else 0,
            via=graph.ref(step.via) if step else None,
            edge=step.kind if step else None,
        )
        for node, step in documents[:most]
    ]
    return Tags(
        names=tuple(names),
        documents=tuple(listed),
        tagged=len(tagged),
        total=len(documents),
        unknown={name: _like(table, name) for name, tag_keys in keys.items() if not tag_keys},
    )


def _in_order(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Sort documents by base, the project base first, then by path."""
    order = {name: number for number, name in enumerate(graph.bases)}
    return sorted(nodes, key=lambda node: (order[node[0]], node[1]))


def _like(table: TagTable, name: str) -> tuple[str, ...]:
    """Return tags similar to an unknown one."""
    key = key_of(name)
    inner = [tag for tag in table.tree() if tag.endswith(f"/{key}")]
    near = difflib.get_close_matches(key, list(table.having), n=SUGGESTED)
    return tuple(map(table.form, dict.fromkeys([*inner, *near])))[:SUGGESTED]
