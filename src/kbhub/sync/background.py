"""Sync bases and embed ahead on a background thread while the server answers."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import filelock

from kbhub.errors import BaseNotFound, EmbedderError, IndexUnavailable, KbhubError
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.index.references import embedded_text
from kbhub.index.side_files import TransformerVectors
from kbhub.models.embedding import MINILM_INSTALL, Embedder, transformer
from kbhub.sync.comparison import Progress
from kbhub.sync.freshness import Freshness, StaleBase, freshen, sync
from kbhub.types import Base

BATCH = 16
"""Texts between two writes, half a second to two: what a killed process loses."""

POWER = Path("/sys/class/power_supply")


def machine_is_free(power: Path = POWER) -> bool:
    """Return whether the machine is not on battery, as far as the system says, and has a processor to spare."""
    with suppress(OSError):
        if "Discharging" in [(supply / "status").read_text("utf-8").strip() for supply in power.glob("BAT*")]:
            return False
    return not hasattr(os, "getloadavg") or os.getloadavg()[0] < (os.cpu_count() or 1) + 1


def embed_ahead(
    hub: Hub,
    bases: Sequence[Base],
    go_on: Callable[[], bool],
    progress: Progress | None = None,
    embedder: Embedder | None = None,
) -> bool:
    """Compute the vectors that chunks lack and drop those of vanished texts; return whether nothing is left to do.

    One process at a time works on a base. `go_on` is asked before each batch. The default model is all-MiniLM-L6-v2.
    """
    if (embedder := embedder or transformer()) is None:
        raise EmbedderError(MINILM_INSTALL)
    for base in bases:
        index = hub.index(base)
        vectors = TransformerVectors(index.path, embedder.fingerprint)
        lock = filelock.FileLock(f"{vectors.path}.lock", timeout=0, mode=0o600)
        # Another process does it; there is no index yet; the folder cannot be written.
        with suppress(filelock.Timeout, IndexUnavailable, OSError), lock:
            with index.snapshot():
                texts = index.text_keys()
            known = vectors.keys()
            vectors.drop(known.difference(texts.values()))
            chunks = list({key: chunk for chunk, key in texts.items() if key not in known}.items())
            total = len(set(texts.values()))
            for start in range(0, len(chunks), BATCH):
                if not go_on():
                    return False
                batch = dict(chunks[start : start + BATCH])
                if not vectors.put(_vectors(index, batch, embedder)):
                    break  # the folder is full or read-only: no use trying on
                if progress:
                    progress(base.id, total - len(chunks) + start + len(batch), total)
    return True


def _vectors(index: Index, batch: Mapping[int, int], embedder: Embedder) -> dict[int, bytes]:
    """Return the vectors of texts, by key; without those that vanished meanwhile."""
    # Imports numpy, which a server loads with its first search.
    from kbhub.models.static_model import quantise  # noqa: PLC0415

    with index.snapshot():
        rows = {row.id: row for row in index.chunks(list(batch.values()))}
        documents = {row.id: row for row in index.documents([row.document_id for row in rows.values()])}
    found = {}
    for key, chunk in batch.items():
        if (row := rows.get(chunk)) and (document := documents.get(row.document_id)):
            text = embedded_text(document.title, document.kind, row)
            found[key] = quantise(embedder.embed([text])[0]).tobytes()
    return found


def embedded(hub: Hub, base: Base) -> int:
    """Return how many of a base's texts have a transformer vector."""
    model = transformer()
    return TransformerVectors(hub.index(base).path, model.fingerprint).count() if model else 0


log = logging.getLogger(__name__)

TAKE_OVER_SECONDS = 0.5
"""Interval of checks on a base that another process is indexing, or died while indexing."""

TIDYING_SECONDS = 5.0
"""Limit of one pass over the query log; the next one continues."""

REST_SECONDS = 2.0
"""Idle time after the last call before such a pass begins."""

BUSY_MACHINE_SECONDS = 60.0
"""Interval of checks whether the machine is free for background work; its load is a mean over a minute."""

TIDY_EVERY_SECONDS = 3600.0
"""Interval of passes over the query log, shared by all processes of a project. A pass takes 35 MB, so processes without
searches skip it."""

Tidy = Callable[[float, float], bool]
"""Processes the query log, at most every so many seconds, for at most so many; returns whether it ran."""

EmbedAhead = Callable[[Callable[[], bool]], bool]
"""Computes transformer vectors as long as a function says so; returns whether nothing is left to do."""


class IndexingStopped(BaseException):
    """Raised to stop indexing between two batches; a BaseException, so that no `except Exception` catches it."""


class Background:
    """A thread, alive only while there is work, that indexes one base after the other, and calls `done` after each.

    When idle, it calls `tidy` to process the query log, and `embed_ahead` to compute transformer vectors.
    """

    def __init__(
        self,
        hub: Hub,
        done: Callable[[], None] | None = None,
        tidy: Tidy | None = None,
        embed_ahead: EmbedAhead | None = None,
    ) -> None:
        self._hub, self._done, self._tidy_log, self._embed_ahead = hub, done, tidy, embed_ahead
        self._unembedded = False
        """Whether chunks may lack a transformer vector; not before the first search, which loads what that needs."""
        self._has_searched = False
        self._called = time.monotonic()
        self._untidy = False
        self._tidied = -math.inf
        """When that last ran here (monotonic seconds)."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._looking: dict[str, frozenset[str] | None] | None = None
        """Bases to compare with their files, with the changed paths if known; empty means all bases."""
        self._comparing = False
        self._waiting: dict[str, float] = {}
        """Base that another process is indexing → when to check again (monotonic seconds)."""
        self._queue: dict[str, StaleBase] = {}
        self._running: StaleBase | None = None
        self._stopping = False
        self._asked_for: frozenset[str] = frozenset()
        self._freshness = hub.state(Freshness)
        self._freshness.is_pending = self.is_pending

    def called(self) -> None:
        """Record a call; idle work waits for a while."""
        self._called = time.monotonic()

    def searched(self) -> None:
        """Record a search: the query log is processed, if due, once the server is idle. Returns at once."""
        self.called()
        with self._changed:
            self._untidy |= time.monotonic() - self._tidied >= TIDY_EVERY_SECONDS
            self._unembedded |= not self._has_searched and self._embed_ahead is not None
            self._has_searched = True
            self._work()

    def look(self, changes: Mapping[str, frozenset[str] | None] = MappingProxyType({})) -> None:
        """Compare and sync base → changed paths (None: any may have changed), or all bases. Returns at once."""
        with self._changed:
            both = dict(changes) if self._looking is None else self._looking if changes else {}
            for base, paths in changes.items() if both else ():
                before = both.get(base, frozenset())
                both[base] = None if before is None or paths is None else before | paths
            self._looking = both
            self._work()

    def enqueue(self, behind: Iterable[StaleBase]) -> None:
        """Queue bases that are known to be behind, and watch those that others index. Returns at once."""
        with self._changed:
            for base in behind:
                if base.busy:
                    self._waiting[base.base] = time.monotonic() + TAKE_OVER_SECONDS
                # A base being indexed is compared again later; this comparison is older.
                elif self._running is None or self._running.base != base.base:
                    self._queue.setdefault(base.base, base)
            self._work()

    def busy(self) -> tuple[str, ...]:
        """Return the ids of the bases being indexed or queued."""
        with self._changed:
            return tuple(entry.base for entry in self._pending())

    def is_pending(self, base: str) -> bool:
        """Return whether a base is being compared, queued or indexed, here or by another process."""
        with self._changed:
            looking = self._comparing or self._looking is not None
            running = self._running is not None and self._running.base == base
            return not self._stopping and (looking or running or base in self._waiting or base in self._queue)

    def prefer(self, bases: Iterable[str]) -> None:
        """Index these bases before others, replacing the previous preference. Returns at once."""
        with self._changed:
            self._asked_for = frozenset(bases)

    def wait(self, bases: Collection[str], seconds: float) -> bool:
        """Wait until none of some bases is pending, or for some seconds; return whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(map(self.is_pending, bases)), seconds)

    def progress(self) -> tuple[int, int]:
        """Return (files done, files to do) of all bases being indexed or queued."""
        with self._changed:
            counts = [self._freshness.progress.get(entry.base, (0, entry.files)) for entry in self._pending()]
        return sum(done for done, _ in counts), sum(todo for _, todo in counts)

    def stop(self, seconds: float) -> None:
        """Stop after the current batch, waiting for that at most some seconds."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            thread = self._thread
        if thread:
            thread.join(seconds)

    def _pending(self) -> list[StaleBase]:
        return [*([self._running] if self._running else []), *self._queue.values()]

    def _work(self) -> None:
        self._changed.notify_all()
        if self._thread is None and not self._stopping and (self._has_work() or self._untidy or self._unembedded):
            # A daemon thread: the process may exit at any moment, the index is crash-safe.
            self._thread = threading.Thread(target=self._run, name="kbhub-indexing", daemon=True)
            self._thread.start()

    def _has_work(self) -> bool:
        return self._looking is not None or bool(self._queue)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except IndexingStopped:
            log.debug("Indexing was stopped. The next start continues where it left off.")
        finally:
            with self._changed:
                # Leave the state of a successor alone, which may have started since `_step` returned.
                if self._thread is threading.current_thread():
                    self._thread, self._running, self._comparing = None, None, False
                self._changed.notify_all()

    def _step(self) -> bool:
        """Do the next piece of work; return whether there may be more."""
        with self._changed:
            self._rest()
            # Requests from now on trigger another look, even at the same base.
            looking, self._looking = self._looking, None
            self._comparing, self._running = looking is not None, None
            if looking is None and self._queue:
                # Preferred bases first, then the smallest, so that a few memories do not wait for a large base.
                self._running = self._queue.pop(
                    min(self._queue, key=lambda base: (base not in self._asked_for, self._queue[base].files))
                )
            running = self._running
            if self._stopping or (looking is None and running is None and not (self._untidy or self._unembedded)):
                self._thread = None  # under the lock, so that new work starts a new thread
                return False
        if looking is not None:
            self._look(looking)
        elif running:
            self._sync(running)
        else:
            self._idle_work()
            return True
        if self._done:
            self._done()
        with self._changed:
            self._running, self._comparing = None, False
            self._unembedded |= self._has_searched and self._embed_ahead is not None
            self._changed.notify_all()
        return True

    def _idle_work(self) -> None:
        """Process the query log or compute vectors ahead once the server is idle, unless other work comes first."""
        with self._changed:
            while (left := self._called + REST_SECONDS - time.monotonic()) > 0:
                if self._changed.wait_for(self._is_busy, left):
                    return
        if self._untidy:
            self._untidy = False
            with _survived("Maintaining the query log"):
                if self._tidy_log and self._tidy_log(TIDY_EVERY_SECONDS, TIDYING_SECONDS):
                    self._tidied = time.monotonic()
        elif self._embed_ahead and not machine_is_free():
            with self._changed:
                self._changed.wait_for(self._is_wanted, BUSY_MACHINE_SECONDS)
        elif self._embed_ahead:
            called, done = self._called, True
            with _survived("Computing transformer vectors"):
                done = self._embed_ahead(lambda: self._called == called and not self._is_wanted() and machine_is_free())
            with self._changed:
                self._unembedded = not done

    def _is_busy(self) -> bool:
        """Whether there is other work than what waits for an idle server."""
        return self._stopping or self._has_work() or bool(self._waiting)

    def _is_wanted(self) -> bool:
        """Whether there is other work than computing vectors."""
        return self._is_busy() or self._untidy

    def _rest(self) -> None:
        """Wait while the only work is to check on another process."""
        while self._waiting and not self._has_work() and not self._stopping:
            due = min(self._waiting.values()) - time.monotonic()
            if due > 0:
                self._changed.wait(due)
                continue
            ready = {base for base, moment in self._waiting.items() if moment <= time.monotonic()}
            self._waiting = {base: moment for base, moment in self._waiting.items() if base not in ready}
            self._looking = dict.fromkeys(ready)

    def _look(self, changes: Mapping[str, frozenset[str] | None]) -> None:
        with _survived("Looking for changed files"):
            active = {base.id for base in self._hub.discovery().bases}
            names = active.intersection(changes)
            if changes and not names:
                return
            behind = freshen(self._hub, names, progress=self._note, max_age=0, changed=changes)
            if named := [base for base in names if changes[base] is not None]:
                # Full comparisons, as often as is fair, find what no event reported.
                if self._done:
                    self._done()
                behind += freshen(self._hub, named, progress=self._note)
            self.enqueue(behind)

    def _sync(self, behind: StaleBase) -> None:
        try:
            for report in sync(self._hub, [behind.base], progress=self._note):
                log.info("%s", report.model_dump_json(exclude={"failed"}))
                if report.busy:
                    with self._changed:
                        self._waiting[behind.base] = time.monotonic() + TAKE_OVER_SECONDS
        except BaseNotFound:
            log.info("Base %s is no longer active.", behind.base)
        except KbhubError as error:
            log.warning("%s", error)  # the hub reports it until it is resolved
        except Exception as error:  # BLE001: as above; `status` shows it too
            log.exception("Indexing of base %s failed.", behind.base)
            reason = f"Indexing failed ({type(error).__name__}: {error}). See the log for details."
            self._freshness.failed[behind.base] = reason

    def _note(self, *_: object) -> None:
        if self._stopping:
            raise IndexingStopped


@contextmanager
def _survived(work: str) -> Iterator[None]:
    """Log what fails: the next call reports errors, and a bug must not stop the server."""
    try:
        yield
    except KbhubError as error:
        log.info("%s", error)
    except Exception:  # BLE001: as said
        log.exception("%s failed.", work)
