"""New ids for memories whose id is taken, and updates of the references to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import WriteRefused
from kbhub.memory.documents import changed_file
from kbhub.memory.known import known_as_stored, ref
from kbhub.memory.likeness import id_of
from kbhub.memory.store import locked, read, replace
from kbhub.search.memory_boost import data_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kbhub.hub import Hub
    from kbhub.workspace.memory_folders import Shelf

ATTEMPTS = 100
"""Limit of ids tried; the second is needed if another project has the same text, the third hardly ever."""


def free_id(text: str, taken: Collection[str]) -> str | None:
    """Return an unused id for a text, or None if all candidates are taken."""
    return next((name for attempt in range(ATTEMPTS) if (name := id_of(text, attempt)) not in taken), None)


def follow(hub: Hub, files: Iterable[tuple[Shelf, str]], names: Mapping[str, str]) -> None:
    """Update `supersedes` and `superseded_by` of memories to new ids.

    Args:
        hub: owner of the bases.
        files: the memories, as folder and path in its base.
        names: old id → new id.

    Raises:
        MemoriesUnavailable: the files cannot be written.
    """
    if not names:
        return
    for shelf, path in files:
        with locked(data_of(hub), shelf.place):
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
