"""What is remembered: all of it, the strongest first, or the answers to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.memory.changing import bring_in_step
from kbhub.memory.documents import checked_namespace
from kbhub.memory.folders import described as described_folder
from kbhub.memory.folders import project_folders
from kbhub.memory.identity import identify, path_identity
from kbhub.memory.known import Known, active_shelves, all_known, described, known_as_stored, matching, shortened
from kbhub.memory.models import Memory, MemoryList
from kbhub.memory.standing import data_of, uses_of
from kbhub.memory.store import read
from kbhub.types import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.hub import Hub
    from kbhub.index.uses import Use
    from kbhub.memory.folders import Scope, Shelf
    from kbhub.types import Hit

LISTED = 20
"""Memories of one list, unless it is asked for more."""

PAGE = 100
"""Hits of one search, as many as `Query` allows."""

MOST_FOUND = 200
"""Hits of a query that are looked at: each is read, and what comes later has one of its words and little else."""


def memories(
    hub: Hub,
    query: str | None = None,
    *,
    scope: Scope | None = None,
    tags: Iterable[str] = (),
    namespace: str | None = None,
    limit: int = LISTED,
    offset: int = 0,
    whole: bool = False,
) -> MemoryList:
    """List memories, the strongest first, or search among them. To be listed is no use.

    Args:
        hub: what owns the bases.
        query: what to look for; none lists them.
        scope: only `project`, `user` or `shared`.
        tags: only those that have all of these.
        namespace: only those in this one, and in those below it.
        limit: memories to give.
        offset: memories to leave out first.
        whole: give all of their text.

    Raises:
        UsageError: the namespace cannot be one.
    """
    inside = checked_namespace(namespace) if namespace else None
    if query is not None and query.strip():
        hits = _found(hub, query, scope, tuple(tags), inside)
        page = _described_hits(hub, hits[offset : offset + limit], whole=whole)
        return MemoryList(memories=tuple(page), total=len(hits), notes=former(hub))
    now = hub.options.clock()
    every = matching(all_known(hub, scope), tags=tags, namespace=inside)
    every.sort(key=lambda one: (bool(one.facts.superseded_by), -one.strength(now), -one.last_use(), one.path))
    page = [described(hub, one, text=_text(one, whole=whole)) for one in every[offset : offset + limit]]
    return MemoryList(memories=tuple(page), total=len(every), notes=former(hub))


def former(hub: Hub) -> tuple[str, ...]:
    """Say if this project had memories under another identity: before its first commit, or before it had an origin."""
    workspace = hub.discovery().workspace
    identity = identify(workspace)
    if identity is None or identity.kind == "path" or workspace.directory is None:
        return ()
    before = path_identity(workspace.git_root or workspace.directory)
    return tuple(
        f"Before it was known as {identity.text}, this project had memories as {before.text}: "
        f"`kbhub memories move {before.digest}` brings them along."
        for folder in project_folders(data_of(hub))
        if described_folder(folder) == before and next(folder.glob("*.md"), None)
    )


def _found(
    hub: Hub, query: str, scope: Scope | None, tags: tuple[str, ...], namespace: str | None
) -> list[tuple[Shelf, Hit]]:
    """Give the hits of a query in folders of memories; filters apply before anything is cut."""
    shelves = active_shelves(hub, scope)
    for shelf in shelves:
        bring_in_step(hub, shelf, max_age=None)
    found = []
    for hit in _hits(hub, query, tuple(dict.fromkeys(shelf.base.id for shelf in shelves))):
        for shelf in shelves:
            if hit.base == shelf.base.id and hit.path.startswith(shelf.prefix):
                if (tags or namespace is not None) and not _fits(shelf, hit.path, tags, namespace):
                    continue
                found.append((shelf, hit))
    return found


def _hits(hub: Hub, query: str, bases: tuple[str, ...]) -> list[Hit]:
    hits: list[Hit] = []
    while bases:
        result = hub.search(Query(text=query, bases=bases, limit=PAGE, offset=len(hits)))
        hits += result.hits
        if not result.hits or len(hits) >= min(result.total, MOST_FOUND):
            break
    return hits


def _fits(shelf: Shelf, path: str, tags: tuple[str, ...], namespace: str | None) -> bool:
    stored = read(shelf, path)
    if stored is None:
        return False
    one = Known(shelf, path, "", stored.content.facts, 0, None)
    return bool(matching([one], tags=tags, namespace=namespace))


def _described_hits(hub: Hub, hits: Iterable[tuple[Shelf, Hit]], *, whole: bool) -> list[Memory]:
    uses: dict[str, Mapping[str, Use]] = {}
    described_hits = []
    for shelf, hit in hits:
        if stored := read(shelf, hit.path):
            if shelf.place not in uses:
                uses[shelf.place] = uses_of(hub).all(shelf.place)
            one = known_as_stored(hub, stored, uses[shelf.place])
            text = stored.content.body if whole else shortened(stored.content.body)
            described_hits.append(described(hub, one, text=text, score=hit.score))
    return described_hits


def _text(one: Known, *, whole: bool) -> str:
    stored = read(one.shelf, one.path)
    text = stored.content.body if stored else ""
    return text if whole else shortened(text)
