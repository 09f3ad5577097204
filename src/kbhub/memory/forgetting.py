"""Forgetting memories: gone from search at once, kept in the trash for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import UsageError, WriteRefused
from kbhub.memory.changing import bring_in_step
from kbhub.memory.documents import changed_file, checked_namespace
from kbhub.memory.known import all_known, described, known_as_stored, located, matching, ref, shortened
from kbhub.memory.models import Forgotten
from kbhub.memory.store import discard, empty_trash, locked, read, replace
from kbhub.search.memory_boost import data_of, uses_of
from kbhub.search.strength import DAY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.memory.known import Known
    from kbhub.memory.models import Memory
    from kbhub.workspace.memory_folders import Scope


_ALL = "`everything`, or `--all` on the command line"
"""How to ask for all memories of a scope."""


def forget(
    hub: Hub,
    ids: Iterable[str] = (),
    *,
    tags: Iterable[str] = (),
    namespace: str | None = None,
    scope: Scope | None = None,
    older_than: float | None = None,
    everything: bool = False,
) -> Forgotten:
    """Forget memories that are named, or those that a filter chooses.

    Args:
        hub: what owns the bases.
        ids: ids, refs or file names; all of them exist, or nothing is forgotten.
        tags: those that have all of these.
        namespace: those in this one, and in those below it; never a pattern.
        scope: only of `project`, `user` or `shared`. A filter without it is about the project's.
        older_than: those not used, changed or written for so many days.
        everything: allows a filter that chooses all there are.

    Raises:
        UsageError: nothing is chosen, names and filters are mixed, or all would be forgotten without `everything`.
        MemoryNotFound: there is no memory of one of the ids.
        WriteRefused: the settings allow no writing.
        MemoriesUnavailable: they cannot be moved.
    """
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    names, tags = list(dict.fromkeys(ids)), list(tags)
    filtered = bool(tags or namespace or older_than is not None)
    if names and (filtered or everything):
        raise UsageError("Name memories, or choose them by a filter, not both; nothing was forgotten.")
    if names:
        every = all_known(hub, scope)
        named = [located(hub, name, scope, every) for name in names]
        chosen = list({(memory.shelf.place, memory.path): memory for memory in named}.values())
    else:
        chosen = _filtered(hub, tags, namespace, scope, older_than, filtered=filtered, everything=everything)
    return _discarded(hub, chosen)


def _filtered(
    hub: Hub,
    tags: Sequence[str],
    namespace: str | None,
    scope: Scope | None,
    older_than: float | None,
    *,
    filtered: bool,
    everything: bool,
) -> list[Known]:
    if older_than is not None and older_than < 0:
        raise UsageError(f"{older_than} days is no age; nothing was forgotten.")
    every = all_known(hub, scope or "project")
    before = None if older_than is None else hub.options.clock() - older_than * DAY_SECONDS
    inside = checked_namespace(namespace) if namespace else None
    chosen = matching(every, tags=tags, namespace=inside, before=before)
    if not everything and not filtered:
        raise UsageError(f"Name the memories to forget, or a filter; {_ALL} forgets everything of a scope.")
    if not everything and chosen and len(chosen) == len(every) > 1:
        raise UsageError(
            f"That would forget all {len(every)} memories of the scope; nothing was forgotten. "
            f"Narrow it, or say that all are meant ({_ALL})."
        )
    return chosen


def _discarded(hub: Hub, chosen: Sequence[Known]) -> Forgotten:
    data, now = data_of(hub), hub.options.clock()
    days = hub.config().settings.memory.trash_days
    forgotten: list[Memory] = []
    trash: Path | None = None
    for memory in chosen:
        with locked(data, memory.shelf.place):
            stored = read(memory.shelf, memory.path)
            if stored is None:
                continue  # another process was faster
            forgotten.append(described(hub, known_as_stored(hub, stored), text=shortened(stored.content.body)))
            trash = discard(stored, data, now)
    unreleased = _release(hub, chosen)
    for place in {memory.shelf.place for memory in chosen}:
        uses_of(hub).forget(place, [memory.facts.id for memory in chosen if memory.shelf.place == place])
    empty_trash(data, days, now)
    for shelf in {memory.shelf.place: memory.shelf for memory in chosen}.values():
        hub.rediscover()
        bring_in_step(hub, shelf)
    retention = (f"Kept for {days} days; moving a file back brings its memory back.",) if forgotten and days else ()
    return Forgotten(memories=tuple(forgotten), trash=trash if days else None, notes=(*retention, *unreleased))


def _release(hub: Hub, forgotten: Iterable[Known]) -> list[str]:
    """Unmark memories whose successor is gone; return why others could not be."""
    notes: list[str] = []
    lost = {memory.facts.id for memory in forgotten}
    older = {name for memory in forgotten for name in memory.facts.supersedes}
    if not older:
        return notes
    for memory in all_known(hub):
        if memory.facts.id in older and lost & set(memory.facts.superseded_by):
            with locked(data_of(hub), memory.shelf.place):
                stored = read(memory.shelf, memory.path)
                if stored and not stored.content.problem:
                    left = tuple(name for name in stored.content.facts.superseded_by if name not in lost)
                    try:
                        replace(stored, changed_file(ref(hub, memory), stored.content, {"superseded_by": left}))
                    except WriteRefused as error:
                        notes.append(str(error))
    return notes
