"""When to compare a base with its files again, and which of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, overload

from kbhub.sync.comparing import compare, compare_some, in_step_of
from kbhub.sync.lock import is_being_indexed
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from kbhub.documents.limits import Limits
    from kbhub.index import Index
    from kbhub.sync.comparing import Difference, InStep
    from kbhub.types import Base

QUICK_SECONDS, COMPARING_SHARE = 0.02, 0.05
"""A base compared within this CPU time is compared before every search, so new documents are found at once; a slower
one as often as takes at most this share of the time."""

MOST_PATHS = 64
"""Changed paths that are compared one by one, as many as a search waits for; with more, the whole base is compared."""


@struct
class Comparison:
    """A full comparison of a base with its files."""

    began: float
    """By `time.perf_counter`, which has a high resolution everywhere."""
    moment: float
    """When it finished (monotonic)."""
    cost: float
    """CPU seconds it took."""
    frame: object
    """See `Scan.frame`."""
    in_step: InStep | None
    """The state that was compared, if nothing differed."""


class Comparisons:
    """The last comparison of each base, reused by the next one. Thread-safe."""

    def __init__(self) -> None:
        self._last: dict[Path, Comparison] = {}
        self._turns: dict[Path, threading.Lock] = {}
        """Index file → lock held while its base is compared."""
        self._comparing: dict[Path, float] = {}
        """Index files of bases being compared → start time, as in `Comparison.began`."""
        self._elsewhere: set[Path] = set()
        """Index files last seen locked by another process."""

    def comparing_for(self, index: Path) -> float:
        """Return for how many seconds a base has been compared by now; 0 if no comparison is running.

        Args:
            index: its index file.
        """
        began = self._comparing.get(index)
        return 0.0 if began is None else time.perf_counter() - began

    def due(self, index: Path, max_age: float | None, asked: float) -> bool:
        """Return whether a full comparison of a base is due.

        Args:
            index: its index file.
            max_age: seconds for which the last comparison is good enough; None for a time in proportion to its cost.
            asked: when the caller asked, as in `Comparison.began`: a comparison that began later is always good enough.
        """
        last = self._last.get(index)
        if last is None:
            return True
        if last.began > asked:
            return False
        fair = 0.0 if last.cost <= QUICK_SECONDS else last.cost / COMPARING_SHARE
        return time.monotonic() - last.moment >= (fair if max_age is None else max_age)

    def is_elsewhere(self, index: Path) -> bool:
        """Return whether another process is writing an index; if so, the next comparison starts from scratch.

        Args:
            index: the index file.
        """
        if is_being_indexed(index):
            self._elsewhere.add(index)
            self.forget(index)
            return True
        self._elsewhere.discard(index)
        return False

    def still_elsewhere(self, index: Path) -> bool:
        """Like `is_elsewhere`, but only re-checks indexes last seen locked.

        Avoids comparing files while another process indexes, and otherwise the 10 ms to import the lock library.
        """
        return index in self._elsewhere and self.is_elsewhere(index)

    def forget(self, index: Path) -> None:
        """Make the next comparison of a base due and complete."""
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
        """Compare a base with its files, or with some of them if that is enough; one thread at a time.

        Args:
            base: the base.
            index: its index.
            limits: size limits on its files.
            paths: paths that may have changed since the last comparison; None if any may.
            due: for a full comparison, checked again under the lock: after waiting for another thread, it may no longer
                be necessary.

        Returns:
            The difference, or None if it was no longer due.

        Raises:
            BaseUnavailable: its folder is gone.
        """
        with self._turns.setdefault(index.path, threading.Lock()):
            if paths is None and due and not due():
                return None
            last = self._last.get(index.path)
            if last and paths is not None and len(paths) <= MOST_PATHS:
                partial = compare_some(base, index, paths, last.frame, limits)
                if partial is not None:
                    return partial
            began, started = time.perf_counter(), time.thread_time()
            in_step = last.in_step if last else None
            self._comparing[index.path] = began
            try:
                difference = compare(base, index.path, limits, (in_step, index) if in_step else None)
            finally:
                self._comparing.pop(index.path, None)
            if last and (in_step is None or in_step.generation != difference.generation):
                in_step = in_step_of(difference)  # skipped the first time, since many processes compare only once
            cost = time.thread_time() - started
            self._last[index.path] = Comparison(began, time.monotonic(), cost, difference.scan.frame, in_step)
            return difference
