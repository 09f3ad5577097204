"""The trash of forgotten memories, and their restoration."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import MemoryNotFound, UsageError, WriteRefused
from kbhub.memory.catalog import active_shelves, shelf_to_write, shortened
from kbhub.memory.changes import as_it_is, bring_in_step
from kbhub.memory.documents import MAX_FILE_BYTES, parse_memory, title_of
from kbhub.memory.results import Memory, Trashed
from kbhub.memory.store import TRASH, create, label_of, locked, with_id
from kbhub.search.memory_boost import timestamp
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.memory_folders import USER_ID, MemoryFolder, identify, memories_folder, project_folder

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.memory.documents import MemoryText
    from kbhub.workspace.memory_folders import Scope

_NAME = re.compile(r"(?P<stem>.+)\.\d+(?:-\d+)?\.md")
"""Name in the trash: that of the memory, and when it was forgotten."""


def trashed(hub: Hub) -> tuple[Trashed, ...]:
    """Return the forgotten memories of this project and its user, the latest first."""
    found = []
    for name, (scope, file) in _files(hub).items():
        content = _content(file)
        found.append(
            Trashed(
                name=name,
                id=content.facts.id,
                scope=scope,
                title=content.title or title_of(content.body),
                text=shortened(content.body),
                forgotten=timestamp(file.stat().st_mtime),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.forgotten, one.name), reverse=True))


def restore(hub: Hub, name: str) -> Memory:
    """Restore a forgotten memory by its path in the trash or its id (the last forgotten of several), without its uses.

    Raises `UsageError` if a memory with its id exists again.
    """
    if hub.config().settings.read_only:
        raise WriteRefused("memories", "`readOnly` is set; only searching and reading are allowed")
    chosen = next((one for one in trashed(hub) if name in (one.name, one.id)), None)
    if chosen is None:
        raise MemoryNotFound(name, [])
    file = _files(hub)[chosen.name][1]
    data = hub.data
    with locked(data, "folders"):
        shelf = shelf_to_write(hub, chosen.scope)
    with locked(data, shelf.place):
        if with_id(shelf, chosen.id):
            raise UsageError(f"The memory {chosen.id} exists again. Forget it first to restore the older one.")
        path = _created(shelf, file)
        file.unlink()
    hub.rediscover()
    bring_in_step(hub, shelf)
    return as_it_is(hub, shelf, path)


def _created(shelf: MemoryFolder, file: Path) -> str:
    match = _NAME.fullmatch(file.name)
    stem = match["stem"] if match else file.stem
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    for number in range(1, 100):
        try:
            return create(shelf, f"{stem}{f'-{number}' if number > 1 else ''}{MARKDOWN_SUFFIX}", text)
        except FileExistsError:
            continue
    raise FileExistsError(file.name)


def _files(hub: Hub) -> dict[str, tuple[Scope, Path]]:
    """Return the files of the trash that belong to this project or its user, by their path there."""
    trash = Path(os.path.realpath(hub.data)) / TRASH
    return {
        f"{label}/{file.name}": (scope, file)
        for label, scope in _labels(hub).items()
        if (folder := trash / label).is_dir() and not folder.is_symlink()
        for file in sorted(folder.glob(f"*{MARKDOWN_SUFFIX}"))
        if file.is_file()
    }


def _labels(hub: Hub) -> dict[str, Scope]:
    data = hub.data
    labels: dict[str, Scope] = {(memories_folder(data) / USER_ID).name: "user"}
    identity = identify(hub.discovery().workspace)
    if identity and (folder := project_folder(data, identity)):
        labels[folder.name] = "project"
    return labels | {label_of(shelf): shelf.scope for shelf in active_shelves(hub)}


def _content(file: Path) -> MemoryText:
    return parse_memory(file.name, file.read_bytes()[: MAX_FILE_BYTES + 1])
