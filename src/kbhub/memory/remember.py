"""Remembering: store a new memory, strengthen an equal one, or change the one that is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from kbhub.documents.secrets import refuse_secrets
from kbhub.errors import MemoriesUnavailable, UsageError, WriteRefused
from kbhub.memory.catalog import (
    active_shelves,
    hashes_of,
    known_as_stored,
    located,
    ref,
    shelf_to_write,
    shortened,
    unindexed,
)
from kbhub.memory.changes import MemoryInput, as_it_is, bring_in_step, change, strengthen, supersede
from kbhub.memory.files import (
    MemoryFile,
    checked_namespace,
    checked_tags,
    checked_text,
    create,
    locked,
    new_file,
    parse_memory,
    slug,
    sweep,
    taken_ids,
    title_of,
)
from kbhub.memory.results import Near, Remembered
from kbhub.memory.similarity import NEAR_SHOWN, filed, ids_of, nearest, wording
from kbhub.search.memory_boost import Source, timestamp
from kbhub.workspace.git import head_commit
from kbhub.workspace.memory_folders import MemoryFolder, Scope, identify

if TYPE_CHECKING:
    from kbhub.hub import Hub


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
    refers: str | None = None,
    session: str | None = None,
    allow_secret: bool = False,
) -> Remembered:
    """Remember something, or change or confirm what is remembered.

    A text that an active memory says already, in the same words, strengthens that one. Memories that are near and say
    something else are named in the answer; what is new is stored in any case.

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
        refers: ref of a document that it follows.
        session: id of the session in which it was learned.
        allow_secret: store a text even if it seems to hold a credential; for a person to say.

    Raises:
        UsageError: the text, a tag, the namespace, a subject or the scope cannot be used; nothing was changed.
        SecretFound: the text seems to hold a credential.
        MemoryNotFound: `id` or `supersedes` names none.
        WriteRefused: the settings allow no writing, or a file cannot be changed without losing something of it.
        MemoriesUnavailable: it cannot be written.
    """
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    if id is None and text is None:
        raise UsageError("Nothing to remember. Give a text, or the id of a memory to confirm.")
    if text is not None and not allow_secret:
        refuse_secrets("The memory", text)
    wanted = MemoryInput(
        text=checked_text(text) if text is not None else "",
        tags=checked_tags(tags),
        about=hashes_of(hub, about),
        namespace=checked_namespace(namespace) if namespace else "",
        supersedes=tuple(located(hub, name) for name in dict.fromkeys(supersedes)),
        fields={
            "by": client or "user",
            "source": source or ("agent" if client else "user"),
            "from": " ".join((origin or "").split()),
            "refers": " ".join((refers or "").split()),
            "session": " ".join((session or "").split()),
            "project": _project(hub),
        },
    )
    if id is not None:
        return change(hub, located(hub, id, scope), wanted)
    return _new(hub, wanted, scope or "project")


def _new(hub: Hub, wanted: MemoryInput, scope: Scope) -> Remembered:
    shelf = _writable_shelf(hub, scope)
    # User and shared memories count in every project, but not the other way round.
    others = active_shelves(hub) if scope == "project" else []
    shelves = [shelf, *(other for other in others if other.place != shelf.place)]
    if same := filed(shelf, wanted.text):
        return strengthen(hub, same, wanted)
    fields = _fields(hub, wanted)
    if shelf.files:
        fields["author"] = shelf.files.author()
        if PurePath(fields["project"]).is_absolute():  # a folder of this machine says nothing to others
            fields["project"] = ""
    near = nearest(hub, shelves, _name(wanted.text, "new"), new_file(fields, wanted.text))
    words = wording(wanted.text)
    for other in shelves:
        if same := filed(other, wanted.text):
            return strengthen(hub, same, wanted)
        indexed = (memory for memory, _ in near if memory.shelf.place == other.place)
        for memory in chain(indexed, unindexed(hub, other)):
            if wording(memory.content.body) == words:
                return strengthen(hub, memory, wanted)
    stored, is_new = _store(hub, shelves, wanted.text, fields)
    # If it is not new, another process has just stored the same.
    return _stored(hub, stored, wanted, near[:NEAR_SHOWN]) if is_new else strengthen(hub, stored, wanted)


def _stored(hub: Hub, stored: MemoryFile, wanted: MemoryInput, near: Sequence[tuple[MemoryFile, float]]) -> Remembered:
    """Build the result for a new memory, with the near memories that it may replace."""
    name = stored.content.facts.id
    superseded, unmarked = supersede(hub, wanted.supersedes, name)
    bring_in_step(hub, stored.shelf)
    replaced = {(memory.shelf.place, memory.path) for memory in wanted.supersedes}
    offered = [
        _near(hub, memory, similarity)
        for memory, similarity in near
        if (memory.shelf.place, memory.path) not in replaced
    ]
    advice: tuple[str, ...] = ()
    if offered:
        others = ", ".join(other.id for other in offered)
        advice = (
            f'Similar but different: {others}. If it replaces one of them: remember(id="{name}", '
            f'options={{"supersedes": ["{offered[0].id}"]}}); if it only repeats it: forget(ids=["{name}"]).',
        )
    return Remembered(
        memory=as_it_is(hub, stored.shelf, stored.path),
        did="stored",
        near=tuple(offered),
        superseded=superseded,
        notes=(*advice, *unmarked),
    )


def _writable_shelf(hub: Hub, scope: Scope) -> MemoryFolder:
    if not hub.config().settings.memory.enabled:
        raise WriteRefused("memories", "`memory.enabled` is false in ~/.kbhub.json")
    with locked(hub.data, "folders"):
        return shelf_to_write(hub, scope)


def _store(hub: Hub, shelves: Sequence[MemoryFolder], text: str, fields: Mapping[str, Any]) -> tuple[MemoryFile, bool]:
    """Write a new file to the first folder, unless a process has just written the same; return whether it is new."""
    shelf = shelves[0]
    # The lock of all folders, since no two may give the same id.
    with locked(hub.data, "folders"), locked(hub.data, shelf.place):
        sweep(shelf)
        if same := next(filter(None, (filed(other, text) for other in shelves)), None):
            return same, False
        taken = taken_ids(hub.data, active_shelves(hub))
        for name in ids_of(text):
            if name in taken:
                continue
            whole = new_file({**fields, "id": name}, text)
            try:
                path = create(shelf, _name(text, name), whole)
            except FileExistsError:
                continue
            return MemoryFile(shelf, path, parse_memory(path, whole.encode()), hub.options.clock()), True
    raise MemoriesUnavailable(shelf.folder, "no file name is free for it")


def _fields(hub: Hub, wanted: MemoryInput) -> dict[str, Any]:
    """Return the front matter of a new memory, except its id."""
    now = timestamp(hub.options.clock())
    workspace = hub.discovery().workspace
    return {
        "title": title_of(wanted.text),
        "created": now,
        "updated": now,
        "commit": head_commit(workspace.git_root) if workspace.git_root else "",
        "tags": wanted.tags,
        "namespace": wanted.namespace,
        "about": tuple(wanted.about),
        "about_hash": dict(wanted.about),
        "supersedes": tuple(older.facts.id for older in wanted.supersedes),
        **wanted.fields,
    }


def _project(hub: Hub) -> str:
    identity = identify(hub.discovery().workspace)
    return identity.text if identity else ""


def _near(hub: Hub, stored: MemoryFile, similarity: float) -> Near:
    memory = known_as_stored(hub, stored)
    return Near(
        id=memory.facts.id, ref=ref(hub, memory), text=shortened(stored.content.body), similarity=round(similarity, 3)
    )


def _name(text: str, name: str) -> str:
    return f"{slug(text)}-{name}.md"
