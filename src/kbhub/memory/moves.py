"""Take over the memories of a moved folder or another identity, with new ids where an id is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import MemoryNotFound, UsageError, WriteRefused
from kbhub.memory.catalog import all_known, known_as_stored, located, ref, shelf_to_write
from kbhub.memory.changes import as_it_is, bring_in_step
from kbhub.memory.documents import changed_file, slug
from kbhub.memory.results import Moved
from kbhub.memory.similarity import ids_of, wording
from kbhub.memory.store import create, discard, locked, read, remove, replace, with_id
from kbhub.search.memory_boost import uses_of
from kbhub.workspace.files import expand
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.git import git_root
from kbhub.workspace.memory_folders import (
    ABOUT_NAME,
    MemoryFolder,
    described,
    identify_directory,
    path_identity,
    project_folder,
    project_folders,
    shelf_for_writing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbhub.hub import Hub
    from kbhub.memory.results import Memory
    from kbhub.workspace.memory_folders import Scope


def follow(hub: Hub, files: Iterable[tuple[MemoryFolder, str]], names: Mapping[str, str]) -> None:
    """Update `supersedes` and `superseded_by` of memories, as (folder, path), by a mapping of old to new ids."""
    if not names:
        return
    for shelf, path in files:
        with locked(hub.data, shelf.place):
            stored = read(shelf, path)
            if stored is None or stored.content.problem:
                continue
            facts = stored.content.facts
            changes = {
                field: tuple(names.get(name, name) for name in old)
                for field, old in (("supersedes", facts.supersedes), ("superseded_by", facts.superseded_by))
                if names.keys() & set(old)
            }
            if not changes:
                continue
            try:
                replace(stored, changed_file(ref(hub, known_as_stored(hub, stored)), stored.content, changes))
            except WriteRefused:  # its front matter cannot be edited safely; the memory works without
                continue


def refile(hub: Hub, name: str, scope: Scope) -> Memory:
    """Move a memory to another scope, with its id and its uses.

    Raises `UsageError` if it is there already, a memory there has its id, or the scope is not available.
    """
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    data, old = hub.data, located(hub, name)
    if old.shelf.scope == scope:
        raise UsageError(f"The memory {old.facts.id} is already in the scope {scope!r}.")
    with locked(data, "folders"):
        shelf = shelf_to_write(hub, scope)
    with locked(data, old.shelf.place):
        stored = read(old.shelf, old.path)
    if stored is None:
        raise MemoryNotFound(name, [])
    with locked(data, shelf.place):
        if with_id(shelf, old.facts.id):
            raise UsageError(f"The scope {scope!r} already has a memory {old.facts.id}.")
        file = old.path.rpartition("/")[2]
        path = create(shelf, file, stored.content.data.decode("utf-8", "surrogateescape"))
    uses_of(hub).put(shelf.place, {old.facts.id: old.use} if old.use else {})
    with locked(data, old.shelf.place):
        remove(stored)
    uses_of(hub).forget(old.shelf.place, [old.facts.id])
    for changed in (old.shelf, shelf):
        hub.rediscover()
        bring_in_step(hub, changed)
    return as_it_is(hub, shelf, path)


def move(hub: Hub, old: str) -> Moved:
    """Move the memories of another folder or project to this project.

    `old` is the path of the old folder, which may be gone, or the name under which its memories are filed: their
    folder's name, the digest at its end, or the project's identity. Raises `UsageError` if it has no memories or is
    this project.
    """
    settings = hub.config().settings
    if settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    data = hub.data
    source = _folder_of(hub, old)
    with locked(data, "folders"):
        target = shelf_for_writing(hub.discovery(), data, settings, "project")
    if source == target.folder:
        raise UsageError(f"{old} is this project. Name the place the memories come from.")
    base = target.base.model_copy(update={"path": source})
    report = _moved(hub, MemoryFolder("project", base), target)
    hub.rediscover()
    return report


def _moved(hub: Hub, source: MemoryFolder, target: MemoryFolder) -> Moved:
    """Move each memory, dropping those with the same wording and renumbering those with a taken id."""
    data, uses, now = hub.data, uses_of(hub), hub.options.clock()
    counted = uses.all(source.place)
    paths = sorted(entry.name for entry in target.folder.glob(f"*{MARKDOWN_SUFFIX}"))
    wordings = {
        memory.content.facts.id: wording(memory.content.body) for path in paths if (memory := read(target, path))
    }
    ids = {words: name for name, words in wordings.items()}
    others = {memory.facts.id for memory in all_known(hub) if memory.shelf.place != target.place}
    duplicates = renamed = 0
    names: dict[str, str] = {}
    files: list[tuple[MemoryFolder, str]] = []
    for file in sorted(entry.name for entry in source.folder.glob(f"*{MARKDOWN_SUFFIX}")):
        with locked(data, source.place):
            stored = read(source, file)
        if stored is None:
            continue
        old, words = stored.content.facts.id, wording(stored.content.body)
        name, duplicate = old, ids.get(words)
        if duplicate is not None:
            name = duplicate
        elif old in wordings or old in others:
            name = next((name for name in ids_of(stored.content.body) if name not in wordings.keys() | others), old)
        names |= {old: name} if name != old else {}
        use = counted.get(old)
        uses.put(target.place, {name: use} if use else {})
        with locked(data, target.place):
            if duplicate is not None:
                discard(stored, data, now)
                duplicates += 1
                continue
            if name != old and not stored.content.problem:
                replace(stored, changed_file(file, stored.content, {"id": name}))
                renamed += 1
                free = _free_name(target, f"{slug(stored.content.body)}-{name}.md")
            else:
                free = _free_name(target, file)
            (source.folder / file).rename(target.folder / free)
        wordings[name] = words
        ids[words] = name
        files.append((target, f"{target.prefix}{free}"))
    uses.forget(source.place, counted)
    follow(hub, files, names)
    if {entry.name for entry in source.folder.iterdir()} <= {ABOUT_NAME}:
        (source.folder / ABOUT_NAME).unlink(missing_ok=True)
        source.folder.rmdir()
    return Moved(moved=len(files), known=duplicates, renamed=renamed, source=source.folder, target=target.folder)


def _folder_of(hub: Hub, old: str) -> Path:
    """Find the memory folder for a path, a name or an identity."""
    data = hub.data
    for folder in project_folders(data):
        identity = described(folder)
        names = (folder.name, identity.digest, identity.text) if identity else (folder.name,)
        if old in names:
            return folder
    if "\0" not in old:
        home = Path(os.path.realpath(hub.options.home))
        directory = Path(os.path.realpath(expand(old, home, hub.options.cwd)))
        identities = [path_identity(directory)]
        if directory.is_dir():
            identities.append(identify_directory(directory, git_root(directory, home)))
        for identity in identities:
            if current := project_folder(data, identity):
                return current
    known = ", ".join(identity.text for folder in project_folders(data) if (identity := described(folder)))
    raise UsageError(f"No memories found for {old!r}. Memories exist for: {known or 'no project yet'}.")


def _free_name(target: MemoryFolder, name: str) -> str:
    stem, number = name.removesuffix(MARKDOWN_SUFFIX), 1
    while (target.folder / name).exists():
        number += 1
        name = f"{stem}-{number}.md"
    return name
