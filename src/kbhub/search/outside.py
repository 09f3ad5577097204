"""Find Markdown of a project that is in no base, and how to include it."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.documents.filters import Filters, belongs
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.formats import IGNORE_NAMES, is_markdown
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.documents.filters import Layer
    from kbhub.hub import Hub
    from kbhub.types import Discovery

MOST_ENTRIES = 5_000
"""Files and folders examined, nearest first: some 10 ms, and all of most repositories."""

PLACES = 3
"""Number of places named."""

NAME_CHARACTERS = 40
"""Length limit of a place's name, which is untrusted: it comes with a clone."""


@struct
class Found:
    """Markdown files of a folder that are in no base."""

    places: Mapping[str, int]
    """Folder or file in the folder → Markdown files there."""
    complete: bool
    """Whether everything was examined."""


def outside(hub: Hub) -> tuple[str, ...]:
    """Return a sentence on the project's Markdown outside all bases and how to include it, or nothing.

    Args:
        hub: of the workspace.
    """
    discovery, home = hub.discovery(), hub.options.home
    workspace = discovery.workspace
    root = workspace.git_root or workspace.directory
    if root is None or discovery.off or Path(os.path.realpath(home)).is_relative_to(root):
        return ()
    if any(problem.subject == PROJECT_ID for problem in discovery.problems):
        return ()  # this problem has its own remedy
    markdown = look(root, discovery.bases)
    count = sum(markdown.places.values())
    if not count:
        return ()
    least = "" if markdown.complete else "at least "
    files, verb = ("file", "is") if count == 1 and markdown.complete else ("files", "are")
    sentence = f"{least}{count} Markdown {files} in this project ({_named(markdown.places)}) {verb} not part of a base"
    return (
        f"{sentence[0].upper()}{sentence[1:]}; {_remedy(discovery, root)} includes {'it' if verb == 'is' else 'them'}.",
    )


def look(root: Path, bases: Sequence[Base]) -> Found:
    """Count the Markdown files of a folder outside all bases, filtered as in a base.

    Args:
        root: the folder, symlinks resolved.
        bases: the active bases.
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
        if folder and (names := [entry.name for entry in entries if entry.name in IGNORE_NAMES]):
            layers = filters.layers_in(folder, folder, outer, sorted(names))
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if belongs(path, taken) and taken:
                continue
            if entry.is_dir(follow_symlinks=False):
                if filters.folder_reason(path, entry.name, layers) is None:
                    pending.append((path, layers))
            elif is_markdown(entry.name) and entry.is_file(follow_symlinks=False):
                places[_place(path)] += filters.file_reason(path, entry.name, layers) is None
        if left <= 0:
            break
    return Found(+places, complete=left > 0)


def _parts(base: Base, root: Path) -> list[str]:
    """Return the paths below a folder that a base covers; `""` for the whole folder."""
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
        with os.scandir(folder) as entries:
            return list(islice(entries, most))
    except OSError:
        return []


def _place(path: str) -> str:
    """Return the first component of a path, with a slash if it is a folder."""
    name, slash, _ = path.partition("/")
    return name + slash


def _named(places: Mapping[str, int]) -> str:
    """Name the places with the most files, folders first."""
    ordered = sorted(places, key=lambda name: (not name.endswith("/"), -places[name], name))
    names = [name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…" for name in ordered[:PLACES]]
    if more := len(ordered) - PLACES:
        names += ["…"] if more > 0 else []
    return ", ".join(names)


def _remedy(discovery: Discovery, root: Path) -> str:
    """Return the command or setting that makes the whole project a base, keeping its other knowledge."""
    here = root == discovery.workspace.directory
    folder = "." if here else str(root)
    project = next((base for base in discovery.bases if base.id == PROJECT_ID), None)
    if project and not project.path.is_relative_to(root):
        return f"`{shlex.join(['kbhub', 'bases', 'add', folder, '--for', folder])}`"
    if project and project.origin == "pointer":
        return '`"knowledge": "."` in its .kbhub.json'
    return f"`{shlex.join(['kbhub', 'init', *([] if here else ['--root', folder]), '--knowledge', folder])}`"
