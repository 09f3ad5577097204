"""List tags, and documents by tag with those linked to them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.reading.graph import Graph, Node, TagTable, graph_of, key_of, unread
from kbhub.reading.neighbours import MOST_HOPS, Hop, walk
from kbhub.reading.reports import EdgeKind, TagCount, TaggedDocument, Tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.hub import Hub

LIMIT = 100
"""Tags or documents per answer."""

MOST_NAMES = 50
"""Most tags per request: each is compared with all tags."""

LONGEST_NAME = 500
"""Longest tag that is looked up; a memory's has at most 100 characters."""

SUGGESTED = 3
"""Suggestions for an unknown tag."""

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
    """List all tags, or the documents with any of some tags and those linked to them.

    As in a filter, several names are alternatives, `a` includes the tags below it (`a/b`), case does not matter, and
    `*` matches anything. A document counts once per tag, even with several tags below it. Names may begin with `#`.

    Only the tags of the given bases count, but links, backlinks and `related` are followed into every base, for 0 to
    `MOST_HOPS` hops. `everything` ignores the limit. The indexes are not synced.

    Raises:
        UsageError: `hops` or `limit` is invalid, or a name is empty or too long, or there are too many.
        BaseNotFound: a base is not active.
    """
    if not 0 <= hops <= MOST_HOPS:
        raise UsageError(f"hops is {hops}; it must be between 0 and {MOST_HOPS}.")
    if limit < 1:
        raise UsageError(f"limit is {limit}; it must be 1 or more.")
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


def _all_tags(table: TagTable[Node], most: int | None) -> Tags:
    keys = table.tree()
    if most is not None and len(keys) > most:
        # The most frequent at any level; a tag is at least as frequent as those below it, so parents are included.
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
    tagged = _in_order(graph, {node for tag_keys in keys.values() for key in tag_keys for node in table.having[key]})
    steps: dict[Node, Hop] = {}
    for step in walk(graph, tagged, hops, _FOLLOWED):
        steps.setdefault(step.node, step)
    joined = sorted((steps[node] for node in _in_order(graph, steps)), key=lambda step: step.hop)
    documents: list[tuple[Node, Hop | None]] = [(node, None) for node in tagged]
    documents += [(step.node, step) for step in joined]
    return Tags(
        names=tuple(names),
        documents=tuple(_document(graph, node, step) for node, step in documents[:most]),
        tagged=len(tagged),
        total=len(documents),
        unknown={name: _like(table, name) for name, tag_keys in keys.items() if not tag_keys},
    )


def _in_order(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Sort documents by base, the project base first, then by path."""
    order = {name: number for number, name in enumerate(graph.bases)}
    return sorted(nodes, key=lambda node: (order[node[0]], node[1]))


def _document(graph: Graph, node: Node, step: Hop | None) -> TaggedDocument:
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
    """Return tags similar to an unknown one."""
    key = key_of(name)
    inner = [tag for tag in table.tree() if tag.endswith(f"/{key}")]
    near = difflib.get_close_matches(key, list(table.having), n=SUGGESTED)
    return tuple(map(table.form, dict.fromkeys([*inner, *near])))[:SUGGESTED]
