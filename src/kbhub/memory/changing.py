"""Changing memories that are there: their text and tags, their uses, and what takes their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kbhub.errors import KbhubError, MemoriesUnavailable, UsageError, WriteRefused
from kbhub.memory.documents import changed_file, title_of
from kbhub.memory.facts import timestamp
from kbhub.memory.known import Known, count_uses, described, known_as_stored, ref
from kbhub.memory.models import Memory, Remembered
from kbhub.memory.standing import data_of
from kbhub.memory.store import Stored, locked, read, replace
from kbhub.memory.subjects import hashes_of
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.memory.facts import Facts
    from kbhub.memory.folders import Shelf

INDEXED_AT_ONCE = 2000
"""Files up to which a base that is new is indexed by who remembers; some seconds."""

UNCOUNTED = "Its use could not be counted: the file of the counts cannot be written."


Did = Literal["stored", "strengthened", "updated", "confirmed"]


@struct
class Wanted:
    """What is to be remembered, checked."""

    text: str
    tags: tuple[str, ...]
    about: Mapping[str, str]
    """Subject → its hash."""
    namespace: str
    supersedes: tuple[Known, ...]
    fields: Mapping[str, Any]
    """Further front matter: who, from what, and so on."""


def change(hub: Hub, old: Known, wanted: Wanted) -> Remembered:
    """Change a memory that was named, or confirm it."""
    if any(_same_file(one, old) for one in wanted.supersedes):
        raise UsageError(f"The memory {old.facts.id!r} cannot supersede itself.")

    def fields(facts: Facts) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if wanted.tags:
            found["tags"] = wanted.tags
        if wanted.namespace:
            found["namespace"] = wanted.namespace
        if wanted.about:
            found |= {"about": tuple(wanted.about), "about_hash": dict(wanted.about)}
        if wanted.supersedes:
            found["supersedes"] = _joined(facts.supersedes, (one.facts.id for one in wanted.supersedes))
        return found

    changed = bool(fields(old.facts) or wanted.text)
    if changed:
        rewrite(hub, old, fields, wanted.text)
    return _counted(hub, old, wanted.supersedes, "updated" if changed else "confirmed", changed=changed)


def strengthen(hub: Hub, same: Stored, wanted: Wanted) -> Remembered:
    """Count a use of a memory that says what is to be remembered, and add what is new about it."""
    one = known_as_stored(hub, same)
    others = [older for older in wanted.supersedes if not _same_file(older, one)]

    def fields(facts: Facts) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if (tags := _joined(facts.tags, wanted.tags)) != facts.tags:
            found["tags"] = tags
        if fresh := {subject: digest for subject, digest in wanted.about.items() if subject not in facts.about}:
            found["about"] = (*facts.about, *fresh)
            found["about_hash"] = {**(facts.about_hash or {}), **fresh}
        if others:
            found["supersedes"] = _joined(facts.supersedes, (older.facts.id for older in others))
        return found

    changed, notes = bool(fields(one.facts)), tuple[str, ...]()
    if changed:
        try:
            rewrite(hub, one, fields)
        except WriteRefused as error:  # what was to be remembered is known all the same
            changed, notes = False, (str(error),)
    return _counted(hub, one, others, "strengthened", changed=changed, notes=notes)


def _counted(
    hub: Hub, one: Known, older: Iterable[Known], did: Did, *, changed: bool, notes: tuple[str, ...] = ()
) -> Remembered:
    """Mark what it supersedes, count a use, and say what became of it."""
    superseded, unmarked = supersede(hub, older, one.facts.id)
    counted = count_uses(hub, [one])
    if changed:
        bring_in_step(hub, one.shelf)
    return Remembered(
        memory=as_it_is(hub, one.shelf, one.path),
        did=did,
        superseded=superseded,
        notes=(*notes, *unmarked, *(() if counted else (UNCOUNTED,))),
    )


def rewrite(hub: Hub, one: Known, fields: Callable[[Facts], Mapping[str, Any]], text: str = "") -> None:
    """Change the file of a memory, as it is when no other process writes there; nothing else in it.

    Args:
        hub: what owns the bases.
        one: the memory.
        fields: what its front matter says → fields to change.
        text: the text to put in place of the old one; empty keeps that.

    Raises:
        MemoriesUnavailable: its file is gone, or its front matter cannot be read.
        WriteRefused: its file cannot be changed without losing something of it.
    """
    with locked(data_of(hub), one.shelf.place):
        stored = read(one.shelf, one.path)
        if stored is None:
            raise MemoriesUnavailable(one.shelf.base.path / one.path, "the file is gone")
        if stored.content.problem:
            raise MemoriesUnavailable(one.shelf.base.path / one.path, stored.content.problem.rstrip("."))
        changes = dict(fields(stored.content.facts))
        if text and text != stored.content.body:
            # A title that somebody chose stays; one that was made of the text follows it.
            if stored.content.title in ("", title_of(stored.content.body)):
                changes["title"] = title_of(text)
            if stored.content.facts.about and "about" not in changes:
                changes["about_hash"] = _hashes_now(hub, stored.content.facts.about)
        changes["updated"] = timestamp(hub.options.clock())
        replace(stored, changed_file(ref(hub, one), stored.content, changes, text or None))


def _hashes_now(hub: Hub, subjects: Sequence[str]) -> dict[str, str]:
    """Hash the subjects of a memory that is written anew; one that is gone has none."""
    found: dict[str, str] = {}
    for subject in subjects:
        try:
            found |= hashes_of(hub, [subject])
        except KbhubError:
            continue
    return found


def supersede(hub: Hub, older: Iterable[Known], successor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Mark older memories as superseded, each in its own file.

    Returns:
        The ids of those that are marked, and why others cannot be, in sentences.
    """
    done, notes = list[str](), list[str]()
    for one in older:
        with locked(data_of(hub), one.shelf.place):
            stored = read(one.shelf, one.path)
            if stored is None or stored.content.problem:
                continue
            marks = _joined(stored.content.facts.superseded_by, (successor,))
            try:
                replace(stored, changed_file(ref(hub, one), stored.content, {"superseded_by": marks}))
            except WriteRefused as error:
                notes.append(str(error))
                continue
        done.append(one.facts.id)
    return tuple(done), tuple(notes)


def bring_in_step(hub: Hub, shelf: Shelf, *, max_age: float | None = 0) -> None:
    """Let searches find what was written; a base that is far behind, or busy, is left to those who index it."""
    try:
        if shelf.base.id not in {base.id for base in hub.discovery().bases}:
            hub.rediscover()
        for behind in hub.freshen((shelf.base.id,), max_age=max_age):
            if not behind.busy and behind.files <= INDEXED_AT_ONCE:
                hub.sync((shelf.base.id,))
    except KbhubError:  # the memory is written; `status` says what is wrong with the index
        return


def as_it_is(hub: Hub, shelf: Shelf, path: str) -> Memory:
    """Describe a memory with all of its text, as its file is now."""
    stored = read(shelf, path)
    if stored is None:
        raise MemoriesUnavailable(shelf.base.path / path, "somebody deleted it just now")
    return described(hub, known_as_stored(hub, stored), text=stored.content.body)


def _joined(old: Sequence[str], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _same_file(one: Known, other: Known) -> bool:
    return (one.shelf.place, one.path) == (other.shelf.place, other.path)
