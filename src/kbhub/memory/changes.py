"""Changes to existing memories: text, tags, usage counts, supersession, and forgetting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbhub.errors import KbhubError, MemoriesUnavailable, UsageError, WriteRefused
from kbhub.memory.catalog import (
    all_known,
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
    empty_trash,
    files_of,
    locked,
    read,
    title_of,
)
from kbhub.memory.results import Forgotten, Memory, Remembered
from kbhub.search.memory_boost import Facts, timestamp, uses_of
from kbhub.sync.freshness import sync_written
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.memory_folders import MemoryFolder, Scope

if TYPE_CHECKING:
    from kbhub.hub import Hub


PROVENANCE = ("by", "source", "session", "project")
"""Fields that say on whose word the text of a memory rests."""

UNCOUNTED = "Its use was not counted: the file of use counts cannot be written."


Did = Literal["stored", "strengthened", "updated", "confirmed"]


_ALL = "`everything`, or `--all` on the command line"
"""How to ask for all memories of a scope."""


@struct
class MemoryInput:
    """Validated input of `remember`."""

    text: str
    tags: tuple[str, ...]
    about: Mapping[str, str]
    """Subject → hash."""
    namespace: str
    supersedes: tuple[MemoryFile, ...]
    fields: Mapping[str, Any]
    """Additional front matter, such as author and origin."""


def change(hub: Hub, old: MemoryFile, wanted: MemoryInput) -> Remembered:
    """Update the memory that was named, or confirm it if nothing changes."""
    if any(older.key == old.key for older in wanted.supersedes):
        raise UsageError(f"The memory {old.facts.id!r} cannot supersede itself.")

    def fields(facts: Facts) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if wanted.tags:
            changes["tags"] = wanted.tags
        # It rests on the word of who wrote it last; maintenance tells promoted ones by their source.
        if wanted.text and old.facts.source != "promoted":
            changes |= {key: wanted.fields[key] for key in PROVENANCE}
        if wanted.namespace:
            changes["namespace"] = wanted.namespace
        if wanted.about:
            changes |= {"about": tuple(wanted.about), "about_hash": dict(wanted.about)}
        if wanted.supersedes:
            changes["supersedes"] = _joined(facts.supersedes, (older.facts.id for older in wanted.supersedes))
        return changes

    changed = bool(fields(old.facts) or wanted.text)
    if changed:
        rewrite(hub, old, fields, wanted.text)
    return _counted(hub, old, wanted.supersedes, "updated" if changed else "confirmed", changed=changed)


def strengthen(hub: Hub, memory: MemoryFile, wanted: MemoryInput) -> Remembered:
    """Count a use of a memory with the same wording, and merge in new tags, subjects and supersessions."""
    others = [older for older in wanted.supersedes if older.key != memory.key]

    def fields(facts: Facts) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if (tags := _joined(facts.tags, wanted.tags)) != facts.tags:
            changes["tags"] = tags
        if fresh := {subject: digest for subject, digest in wanted.about.items() if subject not in facts.about}:
            changes["about"] = (*facts.about, *fresh)
            changes["about_hash"] = {**(facts.about_hash or {}), **fresh}
        if others:
            changes["supersedes"] = _joined(facts.supersedes, (older.facts.id for older in others))
        return changes

    changed, notes = bool(fields(memory.facts)), tuple[str, ...]()
    if changed:
        try:
            rewrite(hub, memory, fields)
        except WriteRefused as error:  # the text itself is already remembered
            changed, notes = False, (str(error),)
    return _counted(hub, memory, others, "strengthened", changed=changed, notes=notes)


def _counted(
    hub: Hub,
    memory: MemoryFile,
    older: Iterable[MemoryFile],
    did: Did,
    *,
    changed: bool,
    notes: tuple[str, ...] = (),
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


def rewrite(hub: Hub, one: MemoryFile, fields: Callable[[Facts], Mapping[str, Any]], text: str = "") -> None:
    """Edit a memory's file under its lock, leaving the rest of the file as it is.

    `fields` maps the current facts to the front matter fields to change. An empty `text` keeps the current one. Raises
    `WriteRefused` if the file cannot be changed without losing content.
    """
    with locked(hub.data, one.shelf.place):
        stored = read(one.shelf, one.path)
        if stored is None:
            raise MemoriesUnavailable(one.shelf.base.path / one.path, "the file is gone")
        if stored.problem:
            raise MemoriesUnavailable(one.shelf.base.path / one.path, stored.problem.rstrip("."))
        changes = dict(fields(stored.facts))
        if text and text != stored.body:
            # Keep a title that somebody chose; one derived from the text follows it.
            if stored.title == title_of(stored.body):
                changes["title"] = title_of(text)
            if stored.facts.about and "about" not in changes:
                changes["about_hash"] = _hashes_of_existing(hub, stored.facts.about)
        changes["updated"] = timestamp(hub.options.clock())
        files_of(stored.shelf).replace(stored.path, changed_file(ref(hub, one), stored, changes, text or None))


def _hashes_of_existing(hub: Hub, subjects: Sequence[str]) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for subject in subjects:
        try:
            hashes |= hashes_of(hub, [subject])
        except KbhubError:  # the subject is gone
            continue
    return hashes


def supersede(hub: Hub, older: Iterable[MemoryFile], successor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Mark older memories as superseded, each in its own file; return the marked ids, and messages about the others."""
    marked, notes = list[str](), list[str]()
    for memory in older:
        with locked(hub.data, memory.shelf.place):
            stored = read(memory.shelf, memory.path)
            if stored is None or stored.problem:
                continue
            marks = _joined(stored.facts.superseded_by, (successor,))
            try:
                files_of(stored.shelf).replace(
                    stored.path, changed_file(ref(hub, memory), stored, {"superseded_by": marks})
                )
            except WriteRefused as error:
                notes.append(str(error))
                continue
        marked.append(memory.facts.id)
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
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    names, tags = list(dict.fromkeys(ids)), list(tags)
    filtered = bool(tags or namespace or older_than is not None)
    if names and (filtered or everything):
        raise UsageError("Give memory ids or filters, not both. Nothing was forgotten.")
    if names:
        every = all_known(hub, scope)
        named = [located(hub, name, scope, every) for name in names]
        return list({memory.key: memory for memory in named}.values())
    return _filtered(hub, tags, namespace, scope, older_than, filtered=filtered, everything=everything)


def _filtered(
    hub: Hub,
    tags: Sequence[str],
    namespace: str | None,
    scope: Scope | None,
    older_than: float | None,
    *,
    filtered: bool,
    everything: bool,
) -> list[MemoryFile]:
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
    empty_trash(data, days, now)
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
    if not older:
        return notes
    for memory in all_known(hub):
        if memory.facts.id in older and lost & set(memory.facts.superseded_by):
            with locked(hub.data, memory.shelf.place):
                stored = read(memory.shelf, memory.path)
                if stored and not stored.problem:
                    left = tuple(name for name in stored.facts.superseded_by if name not in lost)
                    try:
                        files_of(stored.shelf).replace(
                            stored.path, changed_file(ref(hub, memory), stored, {"superseded_by": left})
                        )
                    except WriteRefused as error:
                        notes.append(str(error))
    return notes
