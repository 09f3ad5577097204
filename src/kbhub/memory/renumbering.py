"""Memories whose id another one has: they get a new one, and those that name them follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import WriteRefused
from kbhub.memory.documents import changed_file
from kbhub.memory.known import known_as_stored, ref
from kbhub.memory.likeness import id_of
from kbhub.memory.standing import data_of
from kbhub.memory.store import locked, read, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kbhub.hub import Hub
    from kbhub.memory.folders import Shelf

ATTEMPTS = 100
"""Ids that are tried for a memory; the second is needed where other projects know the same, the third hardly ever."""


def free_id(text: str, taken: Collection[str]) -> str | None:
    """Give an id for a text that no other memory has; none if all that are tried are taken."""
    return next((name for attempt in range(ATTEMPTS) if (name := id_of(text, attempt)) not in taken), None)


def follow(hub: Hub, files: Iterable[tuple[Shelf, str]], names: Mapping[str, str]) -> None:
    """Let memories name those by their new ids that they supersede, or that supersede them.

    Args:
        hub: what owns the bases.
        files: the memories, each a folder and a path in its base.
        names: old id → new id.

    Raises:
        MemoriesUnavailable: nothing can be written.
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
                field: tuple(names.get(one, one) for one in old)
                for field, old in (("supersedes", facts.supersedes), ("superseded_by", facts.superseded_by))
                if names.keys() & set(old)
            }
            if not changes:
                continue
            try:
                replace(stored, changed_file(ref(hub, known_as_stored(hub, stored)), stored.content, changes))
            except WriteRefused:  # its front matter is somebody's own; the memory is there all the same
                continue
