"""Memories listed or found, strongest first, and the forgotten ones that can be restored."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub
from kbhub.memory import catalog
from kbhub.memory.changes import as_it_is
from kbhub.memory.files import checked_namespace, files_of, label_of, locked, read, with_id
from kbhub.memory.results import Memory, MemoryList, Trashed
from kbhub.search.document_signals import timestamp, uses_of
from kbhub.search.search import every_hit
from kbhub.sync.freshness import freshen, sync_written
from kbhub.types import Base, Hit, Query
from kbhub.workspace.discovery import USER_ID, MemoryFolder, Scope, project_folders
from kbhub.workspace.discovery import described as described_folder
from kbhub.workspace.files import numbered
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.git import Identity, identify
from kbhub.workspace.trash import Trash, former_stem

LISTED = 20

MOST_FOUND = 200
"""Limit of hits that are considered: each is read, and later ones barely match the query."""


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
    page: list[Memory] = []
    if query is not None and query.strip():
        hits, notes = _matching_hits(hub, query, scope, tuple(tags), inside)
        uses = {shelf.place: uses_of(hub).all(shelf.place) for shelf, _ in hits[offset : offset + limit]}
        for shelf, hit in hits[offset : offset + limit]:
            if stored := read(shelf, hit.path, uses[shelf.place]):
                text = stored.body if whole else catalog.shortened(stored.body)
                page.append(catalog.described(hub, stored, text=text, hit=hit))
        return MemoryList(memories=tuple(page), total=len(hits), notes=(*notes, *former(hub)))
    now = hub.options.clock()
    every = catalog.matching(catalog.all_known(hub, scope), tags=tags, namespace=inside)
    every.sort(
        key=lambda memory: (bool(memory.facts.superseded_by), -memory.strength(now), -memory.last_use(), memory.path)
    )
    for memory in every[offset : offset + limit]:
        stored = read(memory.shelf, memory.path)
        text = stored.body if stored else ""
        page.append(catalog.described(hub, memory, text=text if whole else catalog.shortened(text)))
    return MemoryList(memories=tuple(page), total=len(every), notes=former(hub))


def former(hub: Hub) -> tuple[str, ...]:
    """Return a note if this project has memories under its path, from before its first commit or its origin."""
    workspace = hub.discovery().workspace
    identity = identify(workspace)
    if identity is None or identity.kind == "path" or workspace.directory is None:
        return ()
    before = Identity("path", str(workspace.root))
    return tuple(
        f"This project has memories from before, stored as {before.text}. Move them to {identity.text} with `kbhub "
        f"memories move {before.digest}`."
        for folder in project_folders(hub.data)
        if described_folder(folder) == before and next(folder.glob("*.md"), None)
    )


def _matching_hits(
    hub: Hub, query: str, scope: Scope | None, tags: tuple[str, ...], namespace: str | None
) -> tuple[list[tuple[MemoryFolder, Hit]], tuple[str, ...]]:
    """Return the hits in memory folders, and notes on the search; filters apply before the page is cut."""
    shelves = catalog.active_shelves(hub, scope)
    bases = {shelf.base.id: shelf.base for shelf in shelves}
    for stale in freshen(hub, bases) if bases else ():
        if not stale.busy:
            sync_written(hub, bases[stale.base])
    if not bases:
        return [], ()
    result = every_hit(hub, Query(text=query, bases=tuple(bases)), MOST_FOUND)
    found = [
        (shelf, hit)
        for hit in result.hits
        for shelf in shelves
        if hit.base == shelf.base.id and hit.path.startswith(shelf.prefix)
        if not (tags or namespace is not None)
        or ((stored := read(shelf, hit.path)) and catalog.matching([stored], tags=tags, namespace=namespace))
    ]
    return found, result.notes


def trashed(hub: Hub) -> tuple[Trashed, ...]:
    """Return the forgotten memories of this project and its user, the latest first."""
    found = []
    for name, (scope, file) in _files(hub).items():
        if forgotten := read(MemoryFolder(scope, Base(id="trash", path=file.parent, origin="memory")), file.name):
            found.append(
                Trashed(
                    name=name,
                    id=forgotten.facts.id,
                    scope=scope,
                    title=forgotten.title,
                    text=catalog.shortened(forgotten.body),
                    forgotten=timestamp(forgotten.written),
                )
            )
    return tuple(sorted(found, key=lambda one: (one.forgotten, one.name), reverse=True))


def restore(hub: Hub, name: str) -> Memory:
    """Restore a forgotten memory, without its uses, by its path in the trash or its id (the last of several)."""
    catalog.check_writable(hub)
    chosen = next((one for one in trashed(hub) if name in (one.name, one.id)), None)
    if chosen is None:
        raise KbhubError(f"No forgotten memory {name!r}. `kbhub memories restore` lists those that can be restored.")
    file = _files(hub)[chosen.name][1]
    shelf = catalog.shelf_to_write(hub, chosen.scope)
    with locked(hub.data, shelf.place):
        if with_id(shelf, chosen.id):
            raise UsageError(f"The memory {chosen.id} exists again. Forget it first to restore the older one.")
        for path in numbered(f"{shelf.prefix}{former_stem(file)}{MARKDOWN_SUFFIX}"):
            with suppress(FileExistsError):
                files_of(shelf).create(path, file.read_bytes())
                break
        file.unlink()
    catalog.sync_shelves(hub, (shelf,))
    return as_it_is(hub, shelf, path)


def _files(hub: Hub) -> dict[str, tuple[Scope, Path]]:
    """Return the files of the trash that belong to this project or its user, by their path there."""
    trash, labels = Trash(hub.data), dict[str, Scope]({USER_ID: "user"})
    identity = identify(hub.discovery().workspace)
    for folder in project_folders(hub.data, identity) if identity else ():
        labels[folder.name] = "project"
    labels |= {label_of(shelf): shelf.scope for shelf in catalog.active_shelves(hub)}
    return {f"{label}/{file.name}": (scope, file) for label, scope in labels.items() for file in trash.memories(label)}
