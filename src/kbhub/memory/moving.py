"""Taking over the memories of a folder that was moved, or of a project that is known by something else now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import UsageError, WriteRefused
from kbhub.gitroot import git_root
from kbhub.memory.documents import changed_file, slug
from kbhub.memory.folders import ABOUT_NAME, Shelf, described, project_folder, project_folders, shelf_for_writing
from kbhub.memory.identity import identify_directory, path_identity
from kbhub.memory.known import all_known
from kbhub.memory.likeness import wording
from kbhub.memory.models import Moved
from kbhub.memory.renumbering import follow, free_id
from kbhub.memory.standing import data_of, uses_of
from kbhub.memory.store import discard, locked, read, replace
from kbhub.places import expand

if TYPE_CHECKING:
    from kbhub.hub import Hub


def move(hub: Hub, old: str) -> Moved:
    """Make the memories of another folder or project this project's.

    Args:
        hub: what owns the bases; its workspace is the project that gets them.
        old: the path of a folder, which need not exist any more, or what a project's memories are filed under: the
            name of that folder or the end of it, or the project's identity.

    Raises:
        UsageError: nothing was remembered for it, or it is this project.
        WriteRefused: the settings allow no writing.
        MemoriesUnavailable: they cannot be moved.
    """
    settings = hub.config().settings
    if settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    data = data_of(hub)
    source = _folder_of(hub, old)
    with locked(data, "folders"):
        target = shelf_for_writing(hub.discovery(), data, settings, "project")
    if source == target.folder:
        raise UsageError(f"{old} is this project already; name where its memories were.")
    base = target.base.model_copy(update={"path": source})
    done = _moved(hub, Shelf("project", base), target)
    hub.rediscover()
    return done


def _moved(hub: Hub, source: Shelf, target: Shelf) -> Moved:
    """Move each memory; what is there in the same words is there once, and an id stays one memory's."""
    data, uses, now = data_of(hub), uses_of(hub), hub.options.clock()
    counted = uses.all(source.place)
    paths = sorted(entry.name for entry in target.folder.glob("*.md"))
    there = {one.content.facts.id: wording(one.content.body) for path in paths if (one := read(target, path))}
    here = {words: name for name, words in there.items()}
    others = {one.facts.id for one in all_known(hub) if one.shelf.place != target.place}
    known_already = renamed = 0
    names: dict[str, str] = {}
    files: list[tuple[Shelf, str]] = []
    for file in sorted(entry.name for entry in source.folder.glob("*.md")):
        with locked(data, source.place):
            stored = read(source, file)
        if stored is None:
            continue
        old, words = stored.content.facts.id, wording(stored.content.body)
        name, known = old, here.get(words)
        if known is not None:
            name = known
        elif old in there or old in others:
            name = free_id(stored.content.body, there.keys() | others) or old
        names |= {old: name} if name != old else {}
        use = counted.get(old)
        uses.put(target.place, {name: use} if use else {})
        with locked(data, target.place):
            if known is not None:
                discard(stored, data, now)
                known_already += 1
                continue
            if name != old and not stored.content.problem:
                replace(stored, changed_file(file, stored.content, {"id": name}))
                renamed += 1
                free = _free_name(target, f"{slug(stored.content.body)}-{name}.md")
            else:
                free = _free_name(target, file)
            (source.folder / file).rename(target.folder / free)
        there[name] = words
        here[words] = name
        files.append((target, f"{target.prefix}{free}"))
    uses.forget(source.place, counted)
    follow(hub, files, names)
    _remove_if_empty(source.folder)
    return Moved(moved=len(files), known=known_already, renamed=renamed, source=source.folder, target=target.folder)


def _folder_of(hub: Hub, old: str) -> Path:
    """Find the folder of memories that a path, a name or an identity stands for."""
    data = data_of(hub)
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
            if folder_there := project_folder(data, identity):
                return folder_there
    known = ", ".join(identity.text for folder in project_folders(data) if (identity := described(folder)))
    raise UsageError(f"Nothing was remembered for {old!r}. Memories are filed for: {known or 'no project yet'}.")


def _free_name(target: Shelf, name: str) -> str:
    stem, number = name.removesuffix(".md"), 1
    while (target.folder / name).exists():
        number += 1
        name = f"{stem}-{number}.md"
    return name


def _remove_if_empty(folder: Path) -> None:
    """Remove a project's folder if only what it says about itself is left in it."""
    if {entry.name for entry in folder.iterdir()} <= {ABOUT_NAME}:
        (folder / ABOUT_NAME).unlink(missing_ok=True)
        folder.rmdir()
