"""Remember, change and forget: a new memory is stored, an equal one strengthened, and similar ones are named."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from kbhub.documents.secrets import refuse_secrets
from kbhub.documents.shown_text import TITLE_BYTES, quoted
from kbhub.errors import IndexUnavailable, KbhubError, MemoriesUnavailable, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.catalogue import successors
from kbhub.memory import catalog
from kbhub.memory.files import (
    MemoryFile,
    changed_file,
    checked_namespace,
    checked_tags,
    checked_text,
    discard,
    files_of,
    locked,
    new_file,
    parse_memory,
    read,
    repeats,
    slug,
    taken_ids,
    title_of,
    with_ids,
    wording,
)
from kbhub.memory.results import Did, Forgotten, Memory, Near, Remembered
from kbhub.search.document_signals import MOST_MISLED, Facts, Source, timestamp, uses_of
from kbhub.sync.freshness import sync_written
from kbhub.values import DAY_SECONDS
from kbhub.workspace.discovery import MemoryFolder, Scope
from kbhub.workspace.git import head_commit, project_text
from kbhub.workspace.trash import Trash

PROVENANCE = ("by", "source", "session", "project")
"""Fields that say on whose word the text of a memory rests."""

UNCOUNTED = "Its use was not counted: the file of use counts cannot be written."
REPEATED = "Taken for the same in another order: {}. If yours makes another point, say it in other words."
DOUBTED = "It ranks lower, and hooks leave it out, until it is confirmed or changed."
_ALL = "`everything`, or `--all` on the command line"
NEAR_SHOWN = 3

ID_CHARACTERS = 8
"""Length of an id: 40 bits, so with 10,000 memories one user in 20,000 has a collision."""

ATTEMPTS = 100
"""Limit of ids tried; the second is needed if another project has the same text, the third hardly ever."""


def ids_of(words: str) -> Iterator[str]:
    """Derive the ids that a text may have, likeliest first, from its wording: the same is written to one file."""
    for attempt in range(ATTEMPTS):
        digest = hashlib.sha256(f"{words}\0{attempt or ''}".encode("utf-8", "replace")).digest()
        yield base64.b32encode(digest)[:ID_CHARACTERS].decode("ascii").lower()


def filed(shelves: Iterable[MemoryFolder], words: str) -> MemoryFile | None:
    """Return the memory of some folders with a wording under one of its ids, or None; needs no index."""
    ids = set(ids_of(words))
    return next((one for shelf in shelves for one in with_ids(shelf, ids) if one.wording == words), None)


def remember(
    hub: Hub,
    text: str | None = None,
    *,
    tags: Iterable[str] = (),
    scope: Scope | None = None,
    about: Iterable[str] = (),
    id: str | None = None,  # noqa: A002 - the name that agents and people use
    supersedes: Iterable[str] = (),
    namespace: str | None = None,
    client: str | None = None,
    source: Source | None = None,
    origin: str | None = None,
    session: str | None = None,
    rejected: bool | None = None,
    misleading: bool = False,
    allow_secret: bool = False,
) -> Remembered:
    """Remember something, or change or confirm what is remembered.

    A text that an active memory says already, in the same words or in another order, confirms that one. Memories that
    are near and say something else are named in the answer; what is new is stored in any case.

    Args:
        hub: what owns the bases.
        text: what to remember, Markdown. With `id`, the text that takes the place of the old one; none confirms it.
        tags: with `id`, those that take the place of the old ones; none keeps them.
        scope: `project` (the default), `user`, `shared` or `team`; with `id`, where to look for it.
        about: documents (`path.md`, `id@path.md`, with `#Heading`) or code (`file`, `file::symbol`) it is about.
        id: of a memory to change or confirm; its ref or file name serves, too.
        supersedes: ids of older memories that this one takes the place of.
        namespace: where to file it, `a/b`.
        client: name of the MCP client; none stands for the user.
        source: on whose word it rests, if that does not follow from `client`.
        origin: what it was learned from, in words.
        session: id of the session in which it was learned.
        rejected: whether it is a way that was tried, and not taken; with `id`, none leaves it as it is.
        misleading: with `id` alone: it misled. It is weaker, and no hook brings it, until it is confirmed or changed.
        allow_secret: store a text even if it seems to hold a credential; for a person to say.

    Raises:
        UsageError: the text, a tag, the namespace, a subject or the scope cannot be used; nothing was changed.
        SecretFound: the text seems to hold a credential.
        MemoryNotFound: `id` or `supersedes` names none.
        WriteRefused: the settings allow no writing, or a file cannot be changed without losing something of it.
        MemoriesUnavailable: it cannot be written.
    """
    catalog.check_writable(hub, new=id is None)
    if id is None and text is None:
        raise UsageError("Nothing to remember. Give a text, or the id of a memory to confirm.")
    if text is not None and not allow_secret:
        refuse_secrets("The memory", text)
    kept, hashes = checked_text(text) if text is not None else "", catalog.hashes_of(hub, about)
    wanted = {
        "tags": checked_tags(tags),
        "namespace": checked_namespace(namespace) if namespace else "",
        "about": tuple(hashes),
        "about_hash": hashes,
        "by": client or "user",
        "source": source or ("agent" if client else "user"),
        "from": " ".join((origin or "").split()),
        "session": " ".join((session or "").split()),
        "project": project_text(hub.discovery().workspace),
        "status": None if rejected is None else "rejected" if rejected else "",
    }
    older = [catalog.located(hub, name) for name in dict.fromkeys(supersedes)]
    if misleading:
        if id is None or text is not None or tags or about or older or namespace or rejected is not None:
            raise UsageError("Give the id of the memory that misled, and nothing else; or change it with a text.")
        return doubt(hub, catalog.located(hub, id, scope))
    if id is not None:
        return change(hub, catalog.located(hub, id, scope), kept, wanted, older)
    return _new(hub, kept, wanted, older, scope or "project")


def _new(hub: Hub, text: str, wanted: Mapping[str, Any], older: Sequence[MemoryFile], scope: Scope) -> Remembered:
    shelf = catalog.shelf_to_write(hub, scope)
    # User and shared memories count in every project, but not the other way round.
    others = catalog.active_shelves(hub) if scope == "project" else []
    shelves = [shelf, *[other for other in others if other.place != shelf.place]]
    rejected = bool(wanted["status"])
    words = wording(text, rejected=rejected)
    if same := filed(shelves, words):
        return strengthen(hub, same, wanted, older)
    now, git = timestamp(hub.options.clock()), hub.discovery().workspace.git_root
    fields = {
        **wanted,
        "title": title_of(text),
        "created": now,
        "updated": now,
        "commit": head_commit(git) if git else "",
        "supersedes": tuple([memory.facts.id for memory in older]),
    }
    if shelf.files:
        fields["author"] = shelf.files.author()
        if PurePath(wanted["project"]).is_absolute():  # a folder of this machine says nothing to others
            fields["project"] = ""
    near = catalog.nearest(hub, shelves, fields["title"], text)
    if not older and not rejected:  # to reject a way is to say nothing newer about it, and the other way round
        fields["may_supersede"] = tuple([one.facts.id for one, *_ in near[:NEAR_SHOWN] if not one.facts.rejected])
    replaced = {memory.key for memory in older}
    for memory in chain([one for one, _, _ in near], *[catalog.unindexed(hub, other) for other in shelves]):
        if memory.wording == words:
            return strengthen(hub, memory, wanted, older)
        is_current = not memory.facts.superseded_by and memory.key not in replaced
        if is_current and memory.facts.rejected == rejected and repeats(memory.body, text):
            return strengthen(hub, memory, wanted, older, (REPEATED.format(quoted(memory.body, TITLE_BYTES)),))
    # The lock of all folders, since no two may give the same id.
    with locked(hub.data, "folders"), locked(hub.data, shelf.place):
        same = filed(shelves, words)  # another process may have stored it meanwhile
        stored = same or _store(hub, shelf, text, words, fields)
    if same:
        return strengthen(hub, same, wanted, older)
    name = stored.facts.id
    superseded, unmarked = supersede(hub, older, [name])
    sync_written(hub, shelf.base)
    offered = []
    for one, similarity, _ in near[:NEAR_SHOWN]:
        if one.key not in replaced:
            about = {"similarity": round(similarity, 3), "rejected": one.facts.rejected}
            offered.append(Near(id=one.facts.id, ref=catalog.ref(hub, one), text=catalog.shortened(one.body), **about))
    advice: tuple[str, ...] = ()
    if offered:
        names = ", ".join(other.id for other in offered)
        advice = (
            f'Similar but different: {names}. If it replaces one of them: remember(id="{name}", '
            f'options={{"supersedes": ["{offered[0].id}"]}}); if both hold: remember(id="{offered[0].id}"); if it only '
            f'repeats it: forget(ids=["{name}"]).',
        )
    return Remembered(
        memory=catalog.described(hub, stored, text=stored.body),
        did="stored",
        near=tuple(offered),
        superseded=superseded,
        notes=(*advice, *unmarked),
    )


def _store(hub: Hub, shelf: MemoryFolder, text: str, words: str, fields: Mapping[str, Any]) -> MemoryFile:
    """Write a new file under the first free id of its wording."""
    taken = taken_ids(hub.data, catalog.active_shelves(hub))
    for name in ids_of(words):
        path, whole = f"{shelf.prefix}{slug(text)}-{name}.md", new_file({**fields, "id": name}, text).encode()
        with suppress(FileExistsError):
            if name not in taken:
                files_of(shelf).create(path, whole)
                return parse_memory(shelf, path, whole, hub.options.clock())
    raise MemoriesUnavailable(shelf.folder, "no file name is free for it")


def change(hub: Hub, old: MemoryFile, text: str, wanted: Mapping[str, Any], older: Sequence[MemoryFile]) -> Remembered:
    """Update the memory that was named, or confirm it if nothing changes."""
    if any(memory.key == old.key for memory in older):
        raise UsageError(f"The memory {old.facts.id!r} cannot supersede itself.")
    # It rests on the word of who wrote it last.
    named = ("tags", *PROVENANCE, "namespace", "about", "about_hash")
    changes = {key: wanted[key] for key in named if (text if key in PROVENANCE else wanted[key])}

    def fields(facts: Facts) -> dict[str, Any]:
        turned = wanted["status"] is not None and facts.rejected != bool(wanted["status"])
        status = {"status": wanted["status"], "may_supersede": ()} if turned else {}
        return {**changes, **_superseding(facts, older), **status}

    if fields(old.facts) or text:
        rewrite(hub, old, fields, text)
        return _counted(hub, old, older, "updated", changed=True)
    return _confirmed(hub, old, fields, older, "confirmed")


def doubt(hub: Hub, memory: MemoryFile) -> Remembered:
    """Note that a memory misled."""

    def fields(stored: MemoryFile) -> dict[str, Any]:
        return {"misleading": min(stored.facts.misleading + 1, MOST_MISLED)}

    if problem := edit(hub, memory.shelf, memory.path, fields):
        raise MemoriesUnavailable(memory.shelf.base.path / memory.path, problem)
    sync_written(hub, memory.shelf.base)
    return Remembered(memory=as_it_is(hub, memory.shelf, memory.path), did="doubted", notes=(DOUBTED,))


def _confirmed(
    hub: Hub,
    memory: MemoryFile,
    fields: Callable[[Facts], Mapping[str, Any]],
    older: Sequence[MemoryFile],
    did: Did,
    notes: tuple[str, ...] = (),
) -> Remembered:
    """Count a use, and change front matter if there is something to change, or a newer memory may replace this one."""
    changed = bool(fields(memory.facts) or memory.facts.misleading)
    for shelf in () if changed else catalog.active_shelves(hub):
        with suppress(IndexUnavailable), hub.index(shelf.base).snapshot() as index:  # which may not exist yet
            changed |= memory.facts.id in successors(index)
    if changed:
        try:
            rewrite(hub, memory, fields)
        except WriteRefused as error:  # the text itself is already remembered
            changed, notes = False, (*notes, str(error))
    return _counted(hub, memory, older, did, changed=changed, notes=notes)


def strengthen(
    hub: Hub, memory: MemoryFile, wanted: Mapping[str, Any], older: Sequence[MemoryFile], notes: tuple[str, ...] = ()
) -> Remembered:
    """Confirm a memory that says the same, and merge in new tags, subjects and supersessions."""
    others = [other for other in older if other.key != memory.key]

    def fields(facts: Facts) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if (tags := _joined(facts.tags, wanted["tags"])) != facts.tags:
            changes["tags"] = tags
        if fresh := {subject: hash_ for subject, hash_ in wanted["about_hash"].items() if subject not in facts.about}:
            changes["about"] = (*facts.about, *fresh)
            changes["about_hash"] = {**(facts.about_hash or {}), **fresh}
        return {**changes, **_superseding(facts, others)}

    return _confirmed(hub, memory, fields, others, "strengthened", notes)


def _superseding(facts: Facts, older: Sequence[MemoryFile]) -> dict[str, Any]:
    if not older:
        return {}
    names = [other.facts.id for other in older]
    left = tuple(name for name in facts.may_supersede if name not in names)
    return {"supersedes": _joined(facts.supersedes, names), "may_supersede": left}


def _counted(
    hub: Hub, memory: MemoryFile, older: Iterable[MemoryFile], did: Did, *, changed: bool, notes: tuple[str, ...] = ()
) -> Remembered:
    """Mark superseded memories, count a use and build the result."""
    superseded, unmarked = supersede(hub, older, [memory.facts.id])
    counted = catalog.count_uses(hub, [memory])
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
            files_of(shelf).replace(path, changed_file(catalog.ref(hub, stored), stored, changes, text))
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
                        hashes |= catalog.hashes_of(hub, [subject])
        misled = {"misleading": None} if stored.facts.misleading else {}
        return {**changes, **misled, "updated": timestamp(hub.options.clock())}

    if problem := edit(hub, one.shelf, one.path, changed, text or None):
        raise MemoriesUnavailable(one.shelf.base.path / one.path, problem)


def supersede(
    hub: Hub, memories: Iterable[MemoryFile], added: Sequence[str] = (), lost: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Add and remove successors of memories, each in its own file; return changed ids, and messages of others."""
    marked, notes = list[str](), list[str]()

    def fields(stored: MemoryFile) -> dict[str, Any]:
        return {"superseded_by": _joined([name for name in stored.facts.superseded_by if name not in lost], added)}

    for memory in memories:
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
    return catalog.described(hub, stored, text=stored.body)


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
    data, now, days = hub.data, hub.options.clock(), hub.config().settings.memory.trash_days
    forgotten: list[Memory] = []
    trash: Path | None = None
    for memory in chosen:
        with locked(data, memory.shelf.place):
            stored = read(memory.shelf, memory.path, uses_of(hub).all(memory.shelf.place))
            if stored is None:
                continue  # another process was faster
            forgotten.append(catalog.described(hub, stored, text=catalog.shortened(stored.body)))
            trash = discard(stored, data, now)
    unreleased = _release(hub, chosen)
    shelves = {memory.shelf.place: memory.shelf for memory in chosen}
    for place in shelves:
        uses_of(hub).forget(place, [memory.facts.id for memory in chosen if memory.shelf.place == place])
    Trash(data).expire_memories(days, now)
    catalog.sync_shelves(hub, shelves.values())
    retention = (f"Kept for {days} days; `kbhub memories restore ID` restores one.",) if forgotten and days else ()
    return Forgotten(memories=tuple(forgotten), trash=trash if days else None, notes=(*retention, *unreleased))


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
    catalog.check_writable(hub)
    names, tags = list(dict.fromkeys(ids)), list(tags)
    filtered = bool(tags or namespace or older_than is not None)
    if names:
        if filtered or everything:
            raise UsageError("Give memory ids or filters, not both. Nothing was forgotten.")
        every = catalog.all_known(hub, scope)
        named = [catalog.located(hub, name, scope, every) for name in names]
        return list({memory.key: memory for memory in named}.values())
    if older_than is not None and older_than < 0:
        raise UsageError(f"{older_than} is not a valid number of days. Nothing was forgotten.")
    every = catalog.all_known(hub, scope or "project")
    before = None if older_than is None else hub.options.clock() - older_than * DAY_SECONDS
    inside = checked_namespace(namespace) if namespace else None
    chosen = catalog.matching(every, tags=tags, namespace=inside, before=before)
    if not everything and not filtered:
        raise UsageError(f"Name the memories to forget, or give a filter. To forget a whole scope, use {_ALL}.")
    if not everything and chosen and len(chosen) == len(every) > 1:
        raise UsageError(
            f"That would forget all {len(every)} memories of the scope. Nothing was forgotten. Narrow the filter, "
            f"or confirm that you mean all of them ({_ALL})."
        )
    return chosen


def _release(hub: Hub, forgotten: Iterable[MemoryFile]) -> tuple[str, ...]:
    """Unmark memories whose successor is gone; return why others could not be."""
    lost = {memory.facts.id for memory in forgotten}
    older = {name for memory in forgotten for name in memory.facts.supersedes}
    every = catalog.all_known(hub) if older else []
    freed = [one for one in every if one.facts.id in older and lost & set(one.facts.superseded_by)]
    return supersede(hub, freed, lost=lost)[1]
