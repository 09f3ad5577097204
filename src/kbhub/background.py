"""Brings bases in step with their files on a thread of its own, while the server answers."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kbhub.errors import BaseNotFound, KbhubError
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Behind, Hub

log = logging.getLogger(__name__)


class Stopped(BaseException):
    """Ends an indexing run between two batches; no `except Exception` is meant to hold it up."""


class Background:
    """One thread, alive only while there is something to do, that indexes one base after the other.

    Args:
        hub: what owns the bases.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._looking = False
        self._queue: dict[str, Behind] = {}
        self._running: Behind | None = None
        self._stopping = False
        self._progress: dict[str, tuple[int, int]] = {}
        self._problems: dict[str, Problem] = {}

    def look(self) -> None:
        """Compare all bases with their files and bring in step what is behind. Returns at once."""
        with self._changed:
            self._looking = True
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

    def wait_for_first_index(self, bases: Iterable[str], seconds: float) -> bool:
        """Wait until none of some bases still lacks its first index.

        Args:
            bases: their ids.
            seconds: how long at most.

        Returns:
            Whether that is so now.
        """
        wanted = set(bases)

        def ready() -> bool:
            lacking = {one.base for one in self._pending() if one.new_index}
            return self._stopping or not (self._looking or lacking & wanted)

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
        if self._thread is None and not self._stopping and (self._looking or self._queue):
            # A daemon: the process may end at any moment, the index is crash-safe.
            self._thread = threading.Thread(target=self._run, name="kbhub-indexing", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except Stopped:
            log.debug("Indexing was stopped; the next start goes on where it was.")
        finally:
            with self._changed:
                self._thread, self._running, self._looking = None, None, False
                self._changed.notify_all()
                self._work()  # what came in since the last step

    def _step(self) -> bool:
        """Do the next piece of work; says whether there was any."""
        with self._changed:
            if self._stopping:
                return False
            looking = self._looking
            if not looking:
                self._running = self._queue.pop(next(iter(self._queue)), None) if self._queue else None
            running = self._running
        if looking:
            self._look()
        elif running:
            self._sync(running)
        with self._changed:
            self._looking, self._running = self._looking and not looking, None
            self._changed.notify_all()
        return looking or running is not None

    def _look(self) -> None:
        try:
            behind = self._hub.freshen(progress=self._note)
        except KbhubError as error:
            log.info("%s", error)  # the next call answers with it
        except Exception:  # BLE001: a bug here must not end what the server can still do; the log has it
            log.exception("Looking for changed files failed.")
        else:
            self.hand(behind)

    def _sync(self, one: Behind) -> None:
        problem = None
        try:
            for report in self._hub.sync([one.base], progress=self._note):
                log.info("%s", report.model_dump_json(exclude={"failed"}))
        except BaseNotFound:
            log.info("Base %s is no longer active.", one.base)
        except KbhubError as error:
            log.warning("%s", error)
            problem = str(error)
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
