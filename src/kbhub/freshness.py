"""When a base is compared with its files again, and with how many of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, overload

from kbhub.later import syncing
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from kbhub.comparing import Difference, InStep
    from kbhub.index import Index
    from kbhub.limits import Limits
    from kbhub.types import Base

QUICK_SECONDS, COMPARING_SHARE = 0.02, 0.05
"""A base that is compared with its files in so much CPU time is compared before every search, so that who writes a
document finds it at once; a larger one as often as takes at most this share of the time."""

MOST_PATHS = 64
"""Changed paths that are looked at one by one: as many as a search waits for; beyond it the whole base is looked at."""


@struct
class Look:
    """A comparison of a base with all of its files."""

    began: float
    """By `time.perf_counter`, which counts finely everywhere."""
    moment: float
    """When it was done (monotonic)."""
    cost: float
    """CPU seconds that it took."""
    frame: object
    """See `Scan.frame`."""
    in_step: InStep | None
    """What was compared, if nothing differed."""


class Looks:
    """The last comparison of each base, and what it spares the next one. Safe to use from several threads."""

    def __init__(self) -> None:
        self._last: dict[Path, Look] = {}
        self._turns: dict[Path, threading.Lock] = {}
        """Index file → the lock under which its base is compared."""
        self._comparing: dict[Path, float] = {}
        """Index files of bases that are being compared → since when, as `Look.began`."""
        self._elsewhere: set[Path] = set()
        """Index files that another process was writing when that was last asked."""

    def comparing_for(self, index: Path) -> float:
        """Say for how many seconds a base has been being compared; 0 if it is not.

        Args:
            index: its index file.
        """
        began = self._comparing.get(index)
        return 0.0 if began is None else time.perf_counter() - began

    def due(self, index: Path, max_age: float | None, asked: float) -> bool:
        """Say whether it is time to compare a base with all of its files again.

        Args:
            index: its index file.
            max_age: seconds for which the last comparison is good enough; if none, as long as is fair to its cost.
            asked: when this was asked for, as `Look.began`: a comparison that began later is good enough in any case.
        """
        last = self._last.get(index)
        if last is None:
            return True
        if last.began > asked:
            return False
        fair = 0.0 if last.cost <= QUICK_SECONDS else last.cost / COMPARING_SHARE
        return time.monotonic() - last.moment >= (fair if max_age is None else max_age)

    def is_elsewhere(self, index: Path) -> bool:
        """Say whether another process is writing an index; once that is over, its base is compared anew.

        Args:
            index: the index file.
        """
        if syncing.is_being_indexed(index):
            self._elsewhere.add(index)
            self.forget(index)
            return True
        self._elsewhere.discard(index)
        return False

    def still_elsewhere(self, index: Path) -> bool:
        """Say the same of an index of which that was so when it was last asked, and no of others.

        So that who waits for another process does not compare files meanwhile, and who need not wait does not load what
        asks, which takes 10 ms.
        """
        return index in self._elsewhere and self.is_elsewhere(index)

    def forget(self, index: Path) -> None:
        """Let the next comparison of a base be due, whatever its cost, and start from nothing."""
        self._last.pop(index, None)

    @overload
    def compare(self, base: Base, index: Index, limits: Limits, paths: Collection[str] | None = None) -> Difference: ...

    @overload
    def compare(
        self, base: Base, index: Index, limits: Limits, paths: Collection[str] | None, due: Callable[[], bool]
    ) -> Difference | None: ...

    def compare(
        self,
        base: Base,
        index: Index,
        limits: Limits,
        paths: Collection[str] | None = None,
        due: Callable[[], bool] | None = None,
    ) -> Difference | None:
        """Compare a base with its files, with some of them alone where that is enough; one thread at a time.

        Args:
            base: the base.
            index: its index.
            limits: how much is taken on.
            paths: the paths that may have changed since the last comparison; none if any may.
            due: says, where any path may have changed, whether it still has to be done: who waited for another thread
                to do it may find that this was enough.

        Returns:
            The difference; none if it was not due any more.

        Raises:
            BaseUnavailable: its folder is not there.
        """
        with self._turns.setdefault(index.path, threading.Lock()):
            if paths is None and due and not due():
                return None
            last = self._last.get(index.path)
            if last and paths is not None and len(paths) <= MOST_PATHS:
                some = syncing.compare_some(base, index, paths, last.frame, **limits)
                if some is not None:
                    return some
            began, started = time.perf_counter(), time.thread_time()
            in_step = last.in_step if last else None
            self._comparing[index.path] = began
            try:
                found = syncing.compare(base, index.path, **limits, in_step=(in_step, index) if in_step else None)
            finally:
                self._comparing.pop(index.path, None)
            if last and (in_step is None or in_step.generation != found.generation):
                in_step = syncing.in_step_of(found)  # not of the first one: many a process makes no other
            cost = time.thread_time() - started
            self._last[index.path] = Look(began, time.monotonic(), cost, found.scan.frame, in_step)
            return found
