"""Memories and documents about a file, or about a symbol in it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable
from kbhub.hooks.consent import project_root
from kbhub.index.catalogue import front_matter_of, paths_beginning
from kbhub.index.references import ref_of
from kbhub.memory.catalog import all_known, ref
from kbhub.values import struct
from kbhub.workspace.memory_folders import identify
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kbhub.hooks.events import Event
    from kbhub.hub import Hub
    from kbhub.memory.catalog import StoredMemory
    from kbhub.types import Base

MOST_DOCUMENTS = 5
"""Documents per base that are filed under a file's path."""


@struct
class Concerned:
    """A memory or document that concerns a file."""

    ref: str
    title: str
    about: str
    """The file or symbol that it names, as it names it."""
    symbol: bool
    """Whether it names a symbol that the tool works on."""
    weight: float
    """Strength of a memory; 0 for a document."""
    memory: StoredMemory | None = None


def may_be_delivered(hub: Hub, memory: StoredMemory, *, own_only: bool) -> bool:
    """Return whether a memory may reach an agent unasked.

    An agent's memory may come from what it read in a clone, so it counts only in the project that it was written in,
    and only if that project may speak. With `own_only`, only what the user wrote into the data directory counts.
    """
    if memory.facts.superseded_by:
        return False
    if own_only:
        return memory.facts.source == "user" and memory.shelf.base.origin == "memory"
    if memory.facts.source == "user" or memory.shelf.scope == "team":
        return True
    return memory.facts.project in ("", _project(hub))


def concerned(hub: Hub, event: Event, *, own_only: bool) -> list[Concerned]:
    """Return what concerns the files of an event, named symbols first, then memories by strength, then documents."""
    root = project_root(hub.discovery().workspace)
    names = set(_names(hub, event, root))
    if not names:
        return []
    now, project = hub.options.clock(), _project(hub)
    found: dict[str, Concerned] = {}
    for memory in all_known(hub):
        if not may_be_delivered(hub, memory, own_only=own_only) or (
            memory.shelf.scope == "user" and memory.facts.project != project
        ):
            continue
        for subject in memory.facts.about:
            path, symbol = _parts(subject)
            if path in names and (not symbol or _is_named(symbol, event.text)):
                one = Concerned(
                    ref(hub, memory), memory.title, subject, bool(symbol), memory.strength(now), memory=memory
                )
                found[one.ref] = max(one, found.get(one.ref, one), key=lambda one: one.symbol)
    for base in () if own_only else hub.discovery().bases:
        if root is not None and (base.id == PROJECT_ID or base.path.is_relative_to(root)):
            for one in _documents(hub, base, names, event.text):
                found.setdefault(one.ref, one)
    own = {_own_ref(hub, name) for name in names}
    return sorted(
        (one for one in found.values() if one.ref not in own),
        key=lambda one: (not (one.symbol and event.text), -one.weight, one.ref),
    )


def _project(hub: Hub) -> str:
    found = identify(hub.discovery().workspace)
    return found.text if found else ""


def _names(hub: Hub, event: Event, root: Path | None) -> Iterator[str]:
    """Yield how memories may name the files: by path in the project, and by ref of a document."""
    here = Path(event.cwd) if event.cwd else root
    if here is None:
        return
    for written in event.paths:
        named = os.path.join(here, os.path.expanduser(written))  # noqa: PTH111, PTH118 - takes any name
        if not os.path.isfile(named):  # noqa: PTH113
            continue
        path = Path(os.path.realpath(named))
        if root is not None and path.is_relative_to(real := Path(os.path.realpath(root))):
            yield path.relative_to(real).as_posix()
        for base in hub.discovery().bases:
            if not base.engine and path.is_relative_to(base.path):
                yield ref_of(base, path.relative_to(base.path).as_posix(), hub.discovery().bases)


def _own_ref(hub: Hub, name: str) -> str:
    """Return the ref under which a file itself would be listed."""
    base = next((base for base in hub.discovery().bases if base.id == PROJECT_ID), None)
    root = project_root(hub.discovery().workspace)
    if base and root and (file := root / name).is_relative_to(base.path):
        return ref_of(base, file.relative_to(base.path).as_posix(), hub.discovery().bases)
    return name


def _documents(hub: Hub, base: Base, names: Iterable[str], text: str) -> list[Concerned]:
    """Return the documents of a base whose `refs` name one of the files, or that are filed under its path."""
    found = []
    index = hub.index(base)
    bases = hub.discovery().bases
    try:
        with index.snapshot():
            for path, front, _ in front_matter_of(index, "refs"):
                entries = front.get("refs")
                for entry in entries if isinstance(entries, list) else [entries]:
                    file, symbol = _parts(str(entry))
                    if file in names and (not symbol or _is_named(symbol, text)):
                        title = str(front.get("title") or path)
                        found.append(Concerned(ref_of(base, path, bases), title, str(entry), bool(symbol), 0.0))
            for name in names:
                filed = f"/{name}.md"
                for path in paths_beginning(index, filed[1:], MOST_DOCUMENTS):
                    if not f"/{path}".endswith(filed):
                        continue
                    found.append(Concerned(ref_of(base, path, bases), path, name, symbol=False, weight=0.0))
    except IndexUnavailable:
        return []
    return found


def _parts(subject: str) -> tuple[str, str]:
    """Return the file and the symbol that a subject names."""
    path, _, symbol = subject.partition("::")
    return path.partition("#")[0].strip().removeprefix("./"), symbol.strip()


def _is_named(symbol: str, text: str) -> bool:
    """Return whether a text names the last part of a symbol; a tool that is given no text works on the whole file."""
    last = symbol.replace("::", ".").rpartition(".")[2].strip("() ")
    return not text or bool(re.search(rf"(?<!\w){re.escape(last)}(?!\w)", text))
