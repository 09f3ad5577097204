"""The first index of a base: how far it is, whoever makes it, and how long a search waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable
from kbhub.sync.bases import SyncState
from kbhub.sync.comparison import PROGRESS, SYNCED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.types import Base

FIRST_INDEX_SECONDS = 20.0
"""How long a search waits for a first index that gets nearer: enough for some thousand files beside other work, and a
third of the minute after which clients give up."""

STALLED_SECONDS = 5.0
"""How long it waits for the next files; beside other work, a batch takes up to three seconds."""


class Patience:
    """How long a search goes on waiting for first indexes: in all `seconds`, or `FIRST_INDEX_SECONDS` if None."""

    def __init__(self, seconds: float | None = None) -> None:
        self._moved = time.monotonic()
        self._end = self._moved + (FIRST_INDEX_SECONDS if seconds is None else seconds)
        self._done = 0

    def left(self, done: int) -> float:
        """Return for how many seconds to wait for the next files, with `done` files indexed so far."""
        now = time.monotonic()
        if done != self._done:
            self._moved, self._done = now, done
        return min(self._end, self._moved + STALLED_SECONDS) - now


def first_indexes(hub: Hub, names: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
    """Return base → (files done, files to do) of bases whose first index is being made, here or by another process.

    Without names, all bases count.
    """
    found = {}
    for base in hub.select(names):
        if base.engine:
            continue
        index = hub.index(base)
        try:
            with index.snapshot():
                files = _progress(index)
        except IndexUnavailable:
            files = (0, 0)
        if files and is_in_progress(hub, base):
            found[base.id] = files[0], files[1] or hub.state(SyncState).behind.get(base.id, 0)
    return found


def _progress(index: Index) -> tuple[int, int] | None:
    """Return (files done, files to do) as noted in a first index, or zeros; None if it is complete."""
    if index.meta(SYNCED) is not None:
        return None
    done, _, todo = str(index.meta(PROGRESS) or "").partition(" ")
    return (int(done), int(todo)) if done.isdecimal() and todo.isdecimal() else (0, 0)


def is_in_progress(hub: Hub, base: Base) -> bool:
    """Return whether a base is being indexed, or soon will be, here or by another process."""
    state = hub.state(SyncState)
    if state.in_hand(base.id) or base.id in state.progress:
        return True
    return state.comparisons.is_elsewhere(hub.index(base).path)
