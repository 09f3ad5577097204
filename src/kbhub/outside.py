"""Markdown of a project that no base has: what a search there does not see, and what would include it."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.document_names import IGNORE_NAMES, MARKDOWN_SUFFIXES
from kbhub.filters import Filters, belongs
from kbhub.project import PROJECT_ID
from kbhub.types import Base
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.hub import Hub
    from kbhub.ignore import Layer
    from kbhub.types import Discovery

MOST_ENTRIES = 5_000
"""Files and folders that are looked at, nearest first: some 10 ms, and all of most repositories."""

PLACES = 3
"""Places that are named."""

NAME_CHARACTERS = 40
"""Of the name of a place at most; it comes with a clone."""


@struct
class Found:
    """Markdown files of a folder that are in no base."""

    places: Mapping[str, int]
    """Folder or file in the folder → Markdown files there."""
    complete: bool
    """Whether all was looked at."""


def outside(hub: Hub) -> tuple[str, ...]:
    """Say in one sentence what Markdown a project has that no base has, and what would include it, if there is any.

    Args:
        hub: of the workspace.
    """
    discovery, home = hub.discovery(), hub.options.home
    workspace = discovery.workspace
    root = workspace.git_root or workspace.directory
    if root is None or discovery.off or Path(os.path.realpath(home)).is_relative_to(root):
        return ()
    if any(one.subject == PROJECT_ID for one in discovery.problems):
        return ()  # which has a remedy of its own
    found = look(root, discovery.bases)
    count = sum(found.places.values())
    if not count:
        return ()
    least = "" if found.complete else "at least "
    files, verb = ("file", "is") if count == 1 and found.complete else ("files", "are")
    told = f"{least}{count} Markdown {files} in this project ({_named(found.places)}) {verb} not part of a base"
    return (f"{told[0].upper()}{told[1:]}; {_remedy(discovery, root)} includes {'it' if verb == 'is' else 'them'}.",)


def look(root: Path, bases: Sequence[Base]) -> Found:
    """Count the Markdown files of a folder that no base has, as the walk of a base there would take them.

    Args:
        root: the folder, links resolved.
        bases: those that are active.
    """
    taken = [part for base in bases for part in _parts(base, root)]
    if "" in taken:
        return Found({}, complete=True)
    filters = Filters(Base(id="outside", path=root, origin="docs"))
    places: Counter[str] = Counter()
    pending: list[tuple[str, tuple[Layer, ...]]] = [("", filters.outer)]
    left = MOST_ENTRIES
    for folder, outer in pending:
        entries, layers = _entries(root / folder, left), outer
        left -= len(entries)
        if folder and (names := [one.name for one in entries if one.name in IGNORE_NAMES]):
            layers = filters.layers_in(folder, folder, outer, sorted(names))
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if belongs(path, taken) and taken:
                continue
            if entry.is_dir(follow_symlinks=False):
                if filters.folder_reason(path, entry.name, layers) is None:
                    pending.append((path, layers))
            elif entry.name.lower().endswith(MARKDOWN_SUFFIXES) and entry.is_file(follow_symlinks=False):
                places[_place(path)] += filters.file_reason(path, entry.name, layers) is None
        if left <= 0:
            break
    return Found(+places, complete=left > 0)


def _parts(base: Base, root: Path) -> list[str]:
    """Give the paths below a folder that a base has; an empty one for the whole folder."""
    if root.is_relative_to(base.path):
        inside = root.relative_to(base.path).as_posix()
        if inside == "." and base.only:
            return list(base.only)
        return [""] if inside == "." or belongs(inside, base.only) else []
    if not base.path.is_relative_to(root):
        return []
    prefix = base.path.relative_to(root).as_posix()
    return [f"{prefix}/{part}" for part in base.only] or [prefix]


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except OSError:
        return []


def _place(path: str) -> str:
    """Give what lies in the folder itself: a file, or a folder with a slash behind it."""
    name, slash, _ = path.partition("/")
    return name + slash


def _named(places: Mapping[str, int]) -> str:
    """Name the places that have most, folders first."""
    ordered = sorted(places, key=lambda name: (not name.endswith("/"), -places[name], name))
    names = [name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in ordered[:PLACES]]
    if more := len(ordered) - PLACES:
        names += ["…"] if more > 0 else []
    return ", ".join(names)


def _remedy(discovery: Discovery, root: Path) -> str:
    """Give what makes the whole of a project a base; the knowledge that it has elsewhere stays what it is."""
    here = root == discovery.workspace.directory
    folder = "." if here else str(root)
    project = next((base for base in discovery.bases if base.id == PROJECT_ID), None)
    if project and not project.path.is_relative_to(root):
        return f"`{shlex.join(['kbhub', 'bases', 'add', folder, '--for', folder])}`"
    if project and project.origin == "pointer":
        return '`"knowledge": "."` in its .kbhub.json'
    return f"`{shlex.join(['kbhub', 'init', *([] if here else ['--root', folder]), '--knowledge', folder])}`"
