"""Brings bases in step with their files on a thread of its own, while the server answers."""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING

from kbhub.errors import BaseNotFound, KbhubError
from kbhub.later import maintenance
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kbhub.hub import Hub
    from kbhub.options import Behind

log = logging.getLogger(__name__)


TAKE_OVER_SECONDS = 0.5
"""Time between two looks at whether a process that was indexing a base has done so, or has died over it."""


TIDYING_SECONDS = 5.0
"""How long the query log is looked through at most, while nobody waits; the next time goes on."""


REST_SECONDS = 2.0
"""Time after the last call before which that does not begin."""


TIDY_EVERY_SECONDS = 3600.0
"""Time between two looks through it, of all processes of a project. It takes 35 MB, so nobody looks who was not asked:
what the log says now, it says when somebody is."""


class Stopped(BaseException):
    """Ends an indexing run between two batches; no `except Exception` is meant to hold it up."""


class Background:
    """One thread, alive only while there is something to do, that indexes one base after the other.

    Args:
        hub: what owns the bases.
        done: called on the thread after each piece of work.
    """

    def __init__(self, hub: Hub, done: Callable[[], None] | None = None) -> None:
        self._hub, self._done = hub, done
        self._called = time.monotonic()
        self._untidy = False
        """Whether the query log is to be looked through."""
        self._tidied = -math.inf
        """When that was last done here (monotonic seconds)."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._looking: dict[str, frozenset[str] | None] | None = None
        """Bases to be compared with their files, with the paths that changed where that is known; empty stands for all
        bases."""
        self._comparing = False
        self._waiting: dict[str, float] = {}
        """Base that another process is indexing → when to look again (monotonic seconds)."""
        self._queue: dict[str, Behind] = {}
        self._running: Behind | None = None
        self._stopping = False
        self._preparation: Callable[[], object] | None = None
        self._progress: dict[str, tuple[int, int]] = {}
        self._problems: dict[str, Problem] = {}
        self._asked_for: frozenset[str] = frozenset()
        """Bases that were named when some were last named."""
        hub.in_hand = self.in_hand

    def called(self) -> None:
        """Take note of a call: what can wait rests for a while."""
        self._called = time.monotonic()

    def searched(self) -> None:
        """Take note that a search was answered: the query log is looked through, if that is due, once nobody has called
        for a while. Returns at once.
        """
        self.called()
        with self._changed:
            self._untidy |= time.monotonic() - self._tidied >= TIDY_EVERY_SECONDS
            self._work()

    def prepare(self, work: Callable[[], object]) -> None:
        """Do something before all else, on the thread. Returns at once."""
        with self._changed:
            self._preparation = work
            self._work()

    def look(self, bases: Iterable[str] = ()) -> None:
        """Compare bases, all of them for none, with their files and bring in step what is behind. Returns at once."""
        self.look_at(dict.fromkeys(bases))

    def look_at(self, changes: Mapping[str, frozenset[str] | None]) -> None:
        """Do the same where it may be known what has changed. Returns at once.

        Args:
            changes: base → the paths in it that changed; none if any may have. Empty stands for all of the bases.
        """
        with self._changed:
            self._looking = _both(self._looking, changes)
            self._work()

    def hand(self, behind: Iterable[Behind]) -> None:
        """Take bases over that are known to be behind. Returns at once."""
        with self._changed:
            for one in behind:
                # What is being indexed is compared again by a later call; the comparison given here is older.
                if self._running is None or self._running.base != one.base:
                    self._queue.setdefault(one.base, one)
            self._work()

    def busy(self) -> tuple[str, ...]:
        """Give the ids of the bases that are being indexed or wait for it."""
        with self._changed:
            return tuple(one.base for one in self._pending())

    def in_hand(self, base: str) -> bool:
        """Say whether a base is being looked at or indexed, waits for it, or is seen to by another process."""
        with self._changed:
            looking = self._comparing or self._looking is not None
            pending = base in self._waiting or any(one.base == base for one in self._pending())
            return not self._stopping and (looking or pending)

    def prefer(self, bases: Iterable[str]) -> None:
        """Let some bases come before the others, in place of those that did so far. Returns at once."""
        with self._changed:
            self._asked_for = frozenset(bases)

    def wait_for_first_index(self, bases: Mapping[str, bool], seconds: float) -> bool:
        """Wait until none of some bases still lacks its first index.

        Args:
            bases: id → whether it has an index file; what is compared now may turn out to need a new one all the same.
            seconds: how long at most.

        Returns:
            Whether that is so now.
        """
        without = {base for base, there in bases.items() if not there}

        def ready() -> bool:
            lacking = {one.base for one in self._pending() if one.new_index}
            comparing = self._comparing or self._looking is not None
            return self._stopping or not ((comparing and without) or lacking & bases.keys())

        with self._changed:
            return self._changed.wait_for(ready, seconds)

    def progress(self) -> tuple[int, int]:
        """Give files done and files to do, of all bases at work or waiting."""
        with self._changed:
            counts = [self._progress.get(one.base, (0, one.files)) for one in self._pending()]
        return sum(done for done, _ in counts), sum(todo for _, todo in counts)

    def problems(self) -> tuple[Problem, ...]:
        """Give what went wrong when a base was last indexed here."""
        with self._changed:
            return tuple(self._problems.values())

    def stop(self, seconds: float) -> None:
        """End the work after the batch at hand; waits for that at most some seconds."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            thread = self._thread
        if thread:
            thread.join(seconds)

    def _pending(self) -> list[Behind]:
        return [*([self._running] if self._running else []), *self._queue.values()]

    def _work(self) -> None:
        self._changed.notify_all()
        if self._thread is None and not self._stopping and (self._has_work() or self._untidy):
            # A daemon: the process may end at any moment, the index is crash-safe.
            self._thread = threading.Thread(target=self._run, name="kbhub-indexing", daemon=True)
            self._thread.start()

    def _has_work(self) -> bool:
        return self._preparation is not None or self._looking is not None or bool(self._queue)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except Stopped:
            log.debug("Indexing was stopped; the next start goes on where it was.")
        finally:
            with self._changed:
                # Not what a successor does, which may have been started since `_step` said that nothing is left.
                if self._thread is threading.current_thread():
                    self._thread, self._running, self._comparing = None, None, False
                self._changed.notify_all()

    def _prepare(self) -> None:
        with self._changed:
            work, self._preparation = self._preparation, None
        try:
            if work and not self._stopping:
                work()
        except Exception:  # BLE001: as below; a call meets it again and tells it
            log.exception("Preparing for calls failed.")

    def _step(self) -> bool:
        """Do the next piece of work; says whether there can be more."""
        self._prepare()
        with self._changed:
            self._rest()
            if self._preparation is not None and not self._stopping:
                return True
            # What is asked for from now on is looked at again, even if it is the same base.
            looking, self._looking = self._looking, None
            self._comparing, self._running = looking is not None, None
            if looking is None and self._queue:
                # What is asked for, then the smallest: a handful of memories is not to wait for a large base.
                self._running = self._queue.pop(
                    min(self._queue, key=lambda base: (base not in self._asked_for, self._queue[base].files))
                )
            running = self._running
            if self._stopping or (looking is None and running is None and not self._untidy):
                self._thread = None  # said under the lock: work that comes in now starts a thread of its own
                return False
        if looking is not None:
            self._look(looking)
        elif running:
            self._sync(running)
        else:
            self._tidy()
            return True
        if self._done:
            self._done()
        with self._changed:
            self._running, self._comparing = None, False
            self._changed.notify_all()
        return True

    def _stays_quiet(self) -> bool:
        """Wait until nobody has called for a while; says whether nothing is to be done then."""

        def busy() -> bool:
            return self._stopping or self._has_work() or bool(self._waiting)

        with self._changed:
            while (left := self._called + REST_SECONDS - time.monotonic()) > 0:
                if self._changed.wait_for(busy, left):
                    return False
            return True

    def _tidy(self) -> None:
        """See what the queries of the last while say, unless something else is to be done first."""
        if not self._stays_quiet():
            return
        self._untidy = False
        try:
            if maintenance.maintain(self._hub, at_most_every=TIDY_EVERY_SECONDS, seconds=TIDYING_SECONDS).ran:
                self._tidied = time.monotonic()
        except KbhubError as error:
            log.info("%s", error)
        except Exception:  # BLE001: as below
            log.exception("Looking through the query log failed.")

    def _rest(self) -> None:
        """Wait while there is nothing to do but to see what another process has done with a base."""
        while self._waiting and not self._has_work() and not self._stopping:
            due = min(self._waiting.values()) - time.monotonic()
            if due > 0:
                self._changed.wait(due)
                continue
            ready = {base for base, moment in self._waiting.items() if moment <= time.monotonic()}
            self._waiting = {base: moment for base, moment in self._waiting.items() if base not in ready}
            self._looking = dict.fromkeys(ready)

    def _look(self, changes: Mapping[str, frozenset[str] | None]) -> None:
        try:
            active = {base.id for base in self._hub.discovery().bases}
            names = active.intersection(changes)
            if changes and not names:
                return
            behind = self._hub.freshen(names, progress=self._note, max_age=0, changed=changes)
            if named := [base for base in names if changes[base] is not None]:
                # What no event told is found as ever: by looking at all files, as often as is fair.
                if self._done:
                    self._done()
                behind += self._hub.freshen(named, progress=self._note)
        except KbhubError as error:
            log.info("%s", error)  # the next call answers with it
        except Exception:  # BLE001: a bug here must not end what the server can still do; the log has it
            log.exception("Looking for changed files failed.")
        else:
            self.hand(one for one in behind if not one.busy)
            self._wait_for(one.base for one in behind if one.busy)

    def _wait_for(self, bases: Iterable[str]) -> None:
        with self._changed:
            self._waiting |= dict.fromkeys(bases, time.monotonic() + TAKE_OVER_SECONDS)

    def _sync(self, one: Behind) -> None:
        problem = None
        try:
            for report in self._hub.sync([one.base], progress=self._note):
                log.info("%s", report.model_dump_json(exclude={"failed"}))
                if report.busy:
                    self._wait_for([one.base])
        except BaseNotFound:
            log.info("Base %s is no longer active.", one.base)
        except KbhubError as error:
            log.warning("%s", error)  # the hub tells it until it is over
        except Exception as error:  # BLE001: as above; `status` shows it too
            log.exception("Indexing of base %s failed.", one.base)
            problem = f"Indexing failed ({type(error).__name__}: {error}); the log has the details."
        with self._changed:
            self._progress.pop(one.base, None)
            self._problems.pop(one.base, None)
            if problem:
                self._problems[one.base] = Problem(subject=one.base, message=problem)

    def _note(self, base: str, done: int, todo: int) -> None:
        with self._changed:
            if self._stopping:
                raise Stopped
            self._progress[base] = (done, todo)


def _both(
    one: dict[str, frozenset[str] | None] | None, other: Mapping[str, frozenset[str] | None]
) -> dict[str, frozenset[str] | None]:
    """Join what is to be looked at, where an empty one stands for all."""
    if one is None or not (one and other):
        return dict(other) if one is None else {}
    both = dict(one)
    for base, paths in other.items():
        known = both.get(base, frozenset())
        both[base] = None if known is None or paths is None else known | paths
    return both
