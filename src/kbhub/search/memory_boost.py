"""Score factors of memories; imports little, because the first search of a process waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.index.memories import memory_rows
from kbhub.index.uses import UseCounts
from kbhub.search.memory_facts import facts_of
from kbhub.search.strength import strength, strength_factor
from kbhub.values import struct
from kbhub.workspace.memory_folders import memories_folder, place_of
from kbhub.workspace.places import data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.index.uses import Use
    from kbhub.types import Base

USES_NAME = "uses.db"


@struct
class Standing:
    """The rank of a memory."""

    strength: float
    factor: float
    """Factor on the score of its hits, see `strength_factor`."""
    superseded: bool
    id: str


def data_of(hub: Hub) -> Path:
    """Return kbhub's data directory."""
    return data_dir(hub.options.env)


def uses_of(hub: Hub) -> UseCounts:
    """Return the counts of uses."""
    return UseCounts(memories_folder(data_of(hub)) / USES_NAME)


def standings(index: Index, base: Base, uses: UseCounts, paths: Sequence[str], now: float) -> dict[str, Standing]:
    """Return the standing of memories with one read of the index and one of the use counts.

    Args:
        index: of the base, in a snapshot.
        base: a base that holds memories.
        uses: the counts.
        paths: of the memories, relative to the base.
        now: seconds since the epoch.

    Returns:
        Path → standing; other documents are left out.
    """
    counted: Mapping[str, Use] = uses.all(place_of(base))
    result = {}
    for row in memory_rows(index, paths=paths):
        facts = facts_of(row.path, row.front_matter, row.tags)
        use = counted.get(facts.id)
        moments = (use.last if use else None, facts.updated, facts.created)
        last = max((moment for moment in moments if moment is not None), default=row.mtime_ns / 1e9)
        value = strength(facts.source, use.uses if use else 0, last, now)
        superseded = bool(facts.superseded_by)
        result[row.path] = Standing(value, strength_factor(value, superseded=superseded), superseded, facts.id)
    return result
