"""Changes to existing memories: text, tags, usage counts, supersession, and forgetting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.errors import KbhubError, MemoriesUnavailable, UsageError, WriteRefused
from kbhub.memory.catalog import (
    all_known,
    check_writable,
    count_uses,
    described,
    hashes_of,
    located,
    matching,
    ref,
    shortened,
)
from kbhub.memory.files import (
    MemoryFile,
    changed_file,
    checked_namespace,
    discard,
    files_of,
    locked,
    read,
    title_of,
)
from kbhub.memory.results import Did, Forgotten, Memory, Remembered
from kbhub.search.memory_boost import Facts, timestamp, uses_of
from kbhub.sync.freshness import sync_written
from kbhub.values import DAY_SECONDS
from kbhub.workspace.memory_folders import MemoryFolder, Scope
from kbhub.workspace.trash import Trash

if TYPE_CHECKING:
    from kbhub.hub import Hub


PROVENANCE = ("by", "source", "session", "project")
"""Fields that say on whose word the text of a memory rests."""

UNCOUNTED = "Its use was not counted: the file of use counts cannot be written."


_ALL = "`everything`, or `--all` on the command line"
"""How to ask for all memories of a scope."""


def change(hub: Hub, old: MemoryFile, text: str, wanted: Mapping[str, Any], older: Sequence[MemoryFile]) -> Remembered:
    """Update the memory that was named, or confirm it if nothing changes."""
    if any(memory.key == old.key for memory in older):
        raise UsageError(f"The memory {old.facts.id!r} cannot supersede itself.")
    # It rests on the word of who wrote it last; maintenance tells promoted ones by their source.
    provenance = PROVENANCE if text and old.facts.source != "promoted" else ()
    named = ("tags", *PROVENANCE, "namespace", "about", "about_hash")
    changes = {key: wanted[key] for key in named if (key in provenance if key in PROVENANCE else wanted[key])}

    def fields(facts: Facts) -> dict[str, Any]:
        return {**changes, **_superseding(facts, older)}

    changed = bool(fields(old.facts) or text)
    if changed:
        rewrite(hub, old, fields, text)
    return _counted(hub, old, older, "updated" if changed else "confirmed", changed=changed)


def strengthen(hub: Hub, memory: MemoryFile, wanted: Mapping[str, Any], older: Sequence[MemoryFile]) -> Remembered:
    """Count a use of a memory with the same wording, and merge in new tags, subjects and supersessions."""
    others = [other for other in older if other.key != memory.key]

    def fields(facts: Facts) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if (tags := _joined(facts.tags, wanted["tags"])) != facts.tags:
            changes["tags"] = tags
        if fresh := {subject: hash_ for subject, hash_ in wanted["about_hash"].items() if subject not in facts.about}:
            changes["about"] = (*facts.about, *fresh)
            changes["about_hash"] = {**(facts.about_hash or {}), **fresh}
        return {**changes, **_superseding(facts, others)}

    changed, notes = bool(fields(memory.facts)), tuple[str, ...]()
    if changed:
        try:
            rewrite(hub, memory, fields)
        except WriteRefused as error:  # the text itself is already remembered
            changed, notes = False, (str(error),)
    return _counted(hub, memory, others, "strengthened", changed=changed, notes=notes)


def _superseding(facts: Facts, older: Sequence[MemoryFile]) -> dict[str, Any]:
    return {"supersedes": _joined(facts.supersedes, (other.facts.id for other in older))} if older else {}


def _counted(
    hub: Hub, memory: MemoryFile, older: Iterable[MemoryFile], did: Did, *, changed: bool, notes: tuple[str, ...] = ()
) -> Remembered:
    """Mark superseded memories, count a use and build the result."""
    superseded, unmarked = supersede(hub, older, memory.facts.id)
    counted = count_uses(hub, [memory])
    if changed:
        sync_written(hub, memory.shelf.base)
    return Remembered(
        memory=as_it_is(hub, memory.shelf, memory.path),
        did=did,
        superseded=superseded,
        notes=(*notes, *unmarked, *(() if counted else (UNCOUNTED,))),
    )


def edit(
    hub: Hub, shelf: MemoryFolder, path: str, fields: Callable[[MemoryFile], Mapping[str, Any]], text: str | None = None
) -> str:
    """Change front matter, and maybe the text, of a memory's file; return why it could not be read, or ""."""
    with locked(hub.data, shelf.place):
        stored = read(shelf, path)
        if stored is None:
            return "the file is gone"
        if not stored.problem and (changes := fields(stored)):
            files_of(shelf).replace(path, changed_file(ref(hub, stored), stored, changes, text))
        return (stored.problem or "").rstrip(".")


def rewrite(hub: Hub, one: MemoryFile, fields: Callable[[Facts], Mapping[str, Any]], text: str = "") -> None:
    """Change front matter, and maybe the text, of a memory, with what follows from that."""

    def changed(stored: MemoryFile) -> dict[str, Any]:
        changes = dict(fields(stored.facts))
        if text and text != stored.body:
            # Keep a title that somebody chose; one derived from the text follows it.
            if stored.title == title_of(stored.body):
                changes["title"] = title_of(text)
            if stored.facts.about and "about" not in changes:
                hashes = changes["about_hash"] = {}
                for subject in stored.facts.about:
                    with suppress(KbhubError):  # the subject is gone
                        hashes |= hashes_of(hub, [subject])
        return {**changes, "updated": timestamp(hub.options.clock())}

    if problem := edit(hub, one.shelf, one.path, changed, text or None):
        raise MemoriesUnavailable(one.shelf.base.path / one.path, problem)


def supersede(hub: Hub, older: Iterable[MemoryFile], successor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Mark older memories as superseded, each in its own file; return the marked ids, and messages about the others."""
    marked, notes = list[str](), list[str]()

    def fields(stored: MemoryFile) -> dict[str, Any]:
        return {"superseded_by": _joined(stored.facts.superseded_by, (successor,))}

    for memory in older:
        try:
            if not edit(hub, memory.shelf, memory.path, fields):
                marked.append(memory.facts.id)
        except WriteRefused as error:
            notes.append(str(error))
    return tuple(marked), tuple(notes)


def as_it_is(hub: Hub, shelf: MemoryFolder, path: str) -> Memory:
    """Return a memory with its full text, as its file is now."""
    stored = read(shelf, path, uses_of(hub).all(shelf.place))
    if stored is None:
        raise MemoriesUnavailable(shelf.base.path / path, "it was deleted just now")
    return described(hub, stored, text=stored.body)


def _joined(old: Sequence[str], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


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
    chosen = to_forget(
        hub, ids, tags=tags, namespace=namespace, scope=scope, older_than=older_than, everything=everything
    )
    return _discarded(hub, chosen)


def to_forget(
    hub: Hub,
    ids: Iterable[str] = (),
    *,
    tags: Iterable[str] = (),
    namespace: str | None = None,
    scope: Scope | None = None,
    older_than: float | None = None,
    everything: bool = False,
) -> list[MemoryFile]:
    """Return the memories that `forget` would forget; arguments and errors are the same."""
    check_writable(hub)
    names, tags = list(dict.fromkeys(ids)), list(tags)
    filtered = bool(tags or namespace or older_than is not None)
    if names:
        if filtered or everything:
            raise UsageError("Give memory ids or filters, not both. Nothing was forgotten.")
        every = all_known(hub, scope)
        named = [located(hub, name, scope, every) for name in names]
        return list({memory.key: memory for memory in named}.values())
    if older_than is not None and older_than < 0:
        raise UsageError(f"{older_than} is not a valid number of days. Nothing was forgotten.")
    every = all_known(hub, scope or "project")
    before = None if older_than is None else hub.options.clock() - older_than * DAY_SECONDS
    inside = checked_namespace(namespace) if namespace else None
    chosen = matching(every, tags=tags, namespace=inside, before=before)
    if not everything and not filtered:
        raise UsageError(f"Name the memories to forget, or give a filter. To forget a whole scope, use {_ALL}.")
    if not everything and chosen and len(chosen) == len(every) > 1:
        raise UsageError(
            f"That would forget all {len(every)} memories of the scope. Nothing was forgotten. Narrow the filter, "
            f"or confirm that you mean all of them ({_ALL})."
        )
    return chosen


def _discarded(hub: Hub, chosen: Sequence[MemoryFile]) -> Forgotten:
    data, now = hub.data, hub.options.clock()
    days = hub.config().settings.memory.trash_days
    forgotten: list[Memory] = []
    trash: Path | None = None
    for memory in chosen:
        with locked(data, memory.shelf.place):
            stored = read(memory.shelf, memory.path, uses_of(hub).all(memory.shelf.place))
            if stored is None:
                continue  # another process was faster
            forgotten.append(described(hub, stored, text=shortened(stored.body)))
            trash = discard(stored, data, now)
    unreleased = _release(hub, chosen)
    for place in {memory.shelf.place for memory in chosen}:
        uses_of(hub).forget(place, [memory.facts.id for memory in chosen if memory.shelf.place == place])
    Trash(data).expire_memories(days, now)
    for shelf in {memory.shelf.place: memory.shelf for memory in chosen}.values():
        hub.rediscover()
        sync_written(hub, shelf.base)
    retention = (f"Kept for {days} days; to restore a memory, move its file back.",) if forgotten and days else ()
    return Forgotten(memories=tuple(forgotten), trash=trash if days else None, notes=(*retention, *unreleased))


def _release(hub: Hub, forgotten: Iterable[MemoryFile]) -> list[str]:
    """Unmark memories whose successor is gone; return why others could not be."""
    notes: list[str] = []
    lost = {memory.facts.id for memory in forgotten}
    older = {name for memory in forgotten for name in memory.facts.supersedes}

    def fields(stored: MemoryFile) -> dict[str, Any]:
        return {"superseded_by": tuple(name for name in stored.facts.superseded_by if name not in lost)}

    for memory in all_known(hub) if older else ():
        if memory.facts.id in older and lost & set(memory.facts.superseded_by):
            try:
                edit(hub, memory.shelf, memory.path, fields)
            except WriteRefused as error:
                notes.append(str(error))
    return notes
