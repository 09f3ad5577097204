"""The tags of all documents, and the documents of tags with what links join to them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.graph.building import graph_of
from kbhub.graph.models import TagCount, TaggedDocument, Tags
from kbhub.graph.neighbours import MOST_HOPS
from kbhub.graph.tagging import key_of
from kbhub.graph.walking import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.graph.building import Graph, Node
    from kbhub.graph.models import EdgeKind
    from kbhub.graph.tagging import TagTable
    from kbhub.graph.walking import Step
    from kbhub.hub import Hub

LIMIT = 100
"""Tags or documents of one answer."""

MOST_NAMES = 50
"""Tags that are asked for at a time: each is compared with all there are."""

LONGEST_NAME = 500
"""Characters of a tag that is looked for; a memory's has 100 at most."""

SUGGESTED = 3
"""Tags that are named for one that is not there."""

_FOLLOWED: tuple[EdgeKind, ...] = ("link", "backlink", "related")


def tags(
    hub: Hub,
    names: Sequence[str] = (),
    *,
    bases: Iterable[str] = (),
    hops: int = 1,
    limit: int = LIMIT,
    everything: bool = False,
) -> Tags:
    """List all tags, or the documents that have any of some tags and those that links join to them.

    As in a filter, several names mean any of them, `a` means the tags under it (`a/b`) too, case does not matter,
    and `*` stands for anything. A document counts once under a tag, however many it has under it.

    Args:
        hub: the hub; its indexes are taken as they are.
        names: tags, with or without `#`; none for a list of all.
        bases: ids of the bases whose documents' tags count, none for all. Links are followed into every base.
        hops: steps along links, backlinks and `related` from the documents that have a tag, 0 to `MOST_HOPS`.
        limit: tags or documents at most.
        everything: leave nothing out.

    Raises:
        UsageError: `hops` or `limit` is none, or a name is empty or too long, or there are too many.
        BaseNotFound: a base is not active.
    """
    if not 0 <= hops <= MOST_HOPS:
        raise UsageError(f"hops is {hops}; it can be 0 to {MOST_HOPS}.")
    if limit < 1:
        raise UsageError(f"limit is {limit}; it can be 1 or more.")
    if empty := [name for name in names if not key_of(name)]:
        raise UsageError(f"{empty[0]!r} is no tag.")
    if len(names) > MOST_NAMES:
        raise UsageError(f"tags takes at most {MOST_NAMES} tags at a time; ask for the others in further calls.")
    if (longest := max(map(len, names), default=0)) > LONGEST_NAME:
        raise UsageError(f"A tag has at most {LONGEST_NAME} characters; this one has {longest:,}.")
    wanted = [base.id for base in hub.select(bases)]
    graph = graph_of(hub)
    chosen = [name for name in graph.bases if name in wanted]
    skipped = tuple(one for one in graph.skipped if one.base in wanted)
    table = graph.tags if len(chosen) == len(graph.bases) else graph.tags_in(chosen)
    most = None if everything else limit
    found = _documents(graph, table, names, hops, most) if names else _all_tags(table, most)
    return found.model_copy(update={"skipped": skipped})


def _all_tags(table: TagTable[Node], most: int | None) -> Tags:
    keys = table.tree()
    if most is not None and len(keys) > most:
        # The most frequent, whatever they lie under; a tag is as frequent as those under it, so none is left alone.
        frequent = set(sorted(keys, key=lambda key: (-len(table.having[key]), key.count("/"), key))[:most])
        shown = [key for key in keys if key in frequent]
    else:
        shown = keys
    counted = (
        TagCount(tag=table.form(key), count=len(table.having[key]), own=table.own[key], depth=key.count("/"))
        for key in shown
    )
    return Tags(tags=tuple(counted), tagged=table.size, total=len(keys))


def _documents(graph: Graph, table: TagTable[Node], names: Sequence[str], hops: int, most: int | None) -> Tags:
    keys = {name: table.matching(name) for name in names}
    tagged = _in_order(graph, {node for found in keys.values() for key in found for node in table.having[key]})
    steps: dict[Node, Step] = {}
    for step in walk(graph, tagged, hops, _FOLLOWED):
        steps.setdefault(step.node, step)
    joined = sorted((steps[node] for node in _in_order(graph, steps)), key=lambda step: step.hop)
    documents: list[tuple[Node, Step | None]] = [(node, None) for node in tagged]
    documents += [(step.node, step) for step in joined]
    return Tags(
        names=tuple(names),
        documents=tuple(_document(graph, node, step) for node, step in documents[:most]),
        tagged=len(tagged),
        total=len(documents),
        unknown={name: _like(table, name) for name, found in keys.items() if not found},
    )


def _in_order(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Sort documents by base, the project base first, then by path."""
    order = {name: number for number, name in enumerate(graph.bases)}
    return sorted(nodes, key=lambda node: (order[node[0]], node[1]))


def _document(graph: Graph, node: Node, step: Step | None) -> TaggedDocument:
    row = graph.document(node)
    return TaggedDocument(
        ref=graph.ref(node),
        docid=graph.docid(node),
        base=node[0],
        title=row.title,
        kind=row.kind,
        tags=row.tags,
        hop=step.hop if step else 0,
        via=graph.ref(step.via) if step else None,
        edge=step.kind if step else None,
    )


def _like(table: TagTable[Node], name: str) -> tuple[str, ...]:
    """Give the tags that were probably meant by one that is not there."""
    key = key_of(name)
    inner = [one for one in table.tree() if one.endswith(f"/{key}")]
    near = difflib.get_close_matches(key, list(table.having), n=SUGGESTED)
    return tuple(map(table.form, dict.fromkeys([*inner, *near])))[:SUGGESTED]
