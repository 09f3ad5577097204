"""Keep the active bases in sync: when to compare them with their files, and how far behind they are."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path

from kbhub.documents.walk import Limits
from kbhub.errors import BaseUnavailable, EmbedderError, IndexUnavailable, KbhubError
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.index.sqlite.index import noted_damage
from kbhub.models.embedding import Embedder
from kbhub.sync import comparison
from kbhub.sync.comparison import Progress
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.extensions import load
from kbhub.workspace.files import PACKAGES, SESSIONS

FRESHEN_CHANGES = 64
"""Changed files that a search syncs before it answers; more are left to `index` or the background."""

FRESHEN_YOUNG = 2000
"""Files indexed as soon as they were written whose content a search compares before it answers: some 50 ms, and more
than are indexed in the two seconds during which a file counts as that young."""

QUICK_SECONDS, COMPARING_SHARE = 0.02, 0.05
"""A base compared within this CPU time is compared before every search, so new documents are found at once; a slower
one as often as takes at most this share of the time."""

WATCHED_SECONDS, WATCHED_SHARE = 5.0, 0.005
"""A base whose file events are followed is compared before a search this often at most, and a slow one as often as
takes at most this share of the time. Eight clients that scanned 12,000 files every 5 s woke each other's watchers, and
used 10 % of two cores."""

MOST_PATHS = 64
"""Changed paths that are compared one by one, as many as a search waits for; with more, the whole base is compared."""

BUSY_TRIES = 50
"""Attempts to sync while another process indexes; each waits `INDEX_LOCK_SECONDS`."""


@struct
class StaleBase:
    """A base that is further behind its files than a search waits for."""

    base: str
    files: int
    new_index: bool
    busy: bool = False
    """Whether another process, or another thread, is indexing it."""


@struct
class FileComparison:
    """A full comparison of a base with its files, with fields of its `Scan` and its `Difference`."""

    began: float
    """By `time.perf_counter`, which has a high resolution everywhere."""
    moment: float
    """When it finished (monotonic)."""
    cost: float
    """CPU seconds it took."""
    frame: object
    in_step: str | None
    passed_over: Mapping[str, int]


@struct(frozen=False)
class Freshness:
    """How far a hub's bases are behind their files, and when to compare them again: `hub.state(Freshness)`.

    Thread-safe. A base is known here by its index file.
    """

    progress: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Base that is being indexed → (files done, files to do)."""
    failed: dict[str, str] = field(default_factory=dict)
    """Base → why its last sync failed."""
    behind: dict[str, int] = field(default_factory=dict)
    """Base → files that most likely differ from the index and were left for later."""
    is_pending: Callable[[str], bool] = field(default=lambda _: False)
    """Whether something indexes a base, or soon will; set by the background."""
    last: dict[Path, FileComparison] = field(default_factory=dict)
    """Index file → the last full comparison of its base."""
    _turns: dict[Path, threading.Lock] = field(default_factory=dict)
    comparing: dict[Path, float] = field(default_factory=dict)
    elsewhere: set[Path] = field(default_factory=set)

    def due(self, index: Path, max_age: float | None, asked: float, *, watched: bool = False) -> bool:
        """Return whether a full comparison of a base is due; one that began after the caller `asked` is good enough.

        An earlier one is for `max_age` seconds, or None for a time in proportion to its cost; `watched` says that
        events have reported what changed since, and all of that is indexed.
        """
        last = self.last.get(index)
        if last is None:
            return True
        if last.began > asked:
            return False
        fair = 0.0 if last.cost <= QUICK_SECONDS else last.cost / (WATCHED_SHARE if watched else COMPARING_SHARE)
        if watched:
            fair = max(fair, WATCHED_SECONDS)
        return time.monotonic() - last.moment >= (fair if max_age is None else max_age)

    def is_elsewhere(self, index: Path) -> bool:
        """Return whether another process is writing an index; if so, the next comparison starts from scratch."""
        if comparison.is_being_indexed(index):
            self.elsewhere.add(index)
            self.forget(index)
            return True
        self.elsewhere.discard(index)
        return False

    def forget(self, index: Path) -> None:
        """Make the next comparison of a base due and complete."""
        self.last.pop(index, None)

    def compare(
        self,
        base: Base,
        index: Index,
        limits: Limits,
        paths: Collection[str] | None = None,
        due: Callable[[], bool] = lambda: True,
    ) -> comparison.Difference | None:
        """Compare a base with its files, or with the `paths` that may have changed since; one thread at a time.

        Before a full comparison, `due` is checked again: None if another thread has made it meanwhile.
        """
        with self._turns.setdefault(index.path, threading.Lock()):
            if paths is None and not due():
                return None
            last = self.last.get(index.path)
            if last and paths is not None and len(paths) <= MOST_PATHS:
                partial = comparison.compare_some(base, index, paths, last.frame, limits)
                if partial is not None:
                    return partial
            began, started = time.perf_counter(), time.thread_time()
            self.comparing[index.path] = began
            try:
                difference = comparison.compare(base, index, limits, last.in_step if last else None)
            finally:
                self.comparing.pop(index.path, None)
            cost, scan = time.thread_time() - started, difference.scan
            differs = difference.new_index or len(difference) or difference.unreadable
            in_step = None if differs else f"{difference.generation} {difference.digest}"
            self.last[index.path] = FileComparison(began, time.monotonic(), cost, scan.frame, in_step, scan.passed_over)
            return difference


def sync(
    hub: Hub, names: Iterable[str] = (), *, full: bool = False, check: bool = False, progress: Progress | None = None
) -> tuple[comparison.SyncReport, ...]:
    """Sync the indexes of bases, all if none are named, with their files; see `sync_base`."""
    return tuple(
        _sync(hub, base, full=full, check=check, progress=progress) for base in hub.select(names) if not base.engine
    )


def freshen(
    hub: Hub,
    names: Iterable[str] = (),
    progress: Progress | None = None,
    *,
    max_age: float | None = None,
    changed: Mapping[str, Collection[str] | None] | None = None,
    watched: Collection[str] = (),
) -> tuple[StaleBase, ...]:
    """Sync bases with few changes; return those too far behind, which are left alone.

    `max_age` is as in `Freshness.due`. Of bases in `changed`, only these paths are compared, where that is enough; for
    those in `watched`, events are followed, none of which waits to be handled.
    """
    state, called, behind = hub.state(Freshness), time.perf_counter(), []
    for base in hub.select(names):
        if base.engine:  # its publisher keeps it in step
            continue
        due = partial(state.due, hub.index(base).path, max_age, called, watched=base.id in watched)
        try:
            if stale := _freshen(hub, base, due, (changed or {}).get(base.id), progress):
                behind.append(stale)
        except (BaseUnavailable, IndexUnavailable) as error:
            state.failed[base.id] = error.alone  # named by the search and by `status`
    return tuple(behind)


def _freshen(
    hub: Hub, base: Base, due: Callable[[], bool], paths: Collection[str] | None, progress: Progress | None
) -> StaleBase | None:
    state, index = hub.state(Freshness), hub.index(base)
    if noted_damage(index.path) is not None:
        state.forget(index.path)
    unindexed = not os.path.isfile(index.path)  # noqa: PTH113 - no error for a folder that may not be read
    busy = StaleBase(base.id, 0, unindexed, busy=True)
    difference = None
    if paths is not None or due():
        if index.path in state.elsewhere and state.is_elsewhere(index.path):
            return busy
        _refresh(hub, base)
        difference = state.compare(base, index, hub.limits(), paths, due)
    if difference is None:
        # Even if another call has just compared: its result may not be queued yet.
        return StaleBase(base.id, state.behind.get(base.id, 0), new_index=True) if unindexed else None
    files, young = len(difference), difference.young if difference.young <= FRESHEN_YOUNG else 0
    behind = state.behind[base.id] = files - young
    if difference.digest and 0 < files == young:
        files = 0 if comparison.are_as_indexed(base, index, difference.suspects) else files
    if not (difference.new_index or files):
        fingerprint = None
        with suppress(EmbedderError):
            fingerprint = embedder.fingerprint if (embedder := hub.embedder()) else None
        with index.snapshot():
            if fingerprint in (None, index.meta("embedder")):
                state.failed.pop(base.id, None)
                return None
    if state.is_elsewhere(index.path):
        return busy
    if difference.new_index or behind > FRESHEN_CHANGES or difference.young > FRESHEN_YOUNG:
        return StaleBase(base.id, behind, difference.new_index)
    return busy if _sync(hub, base, progress=progress, difference=difference).busy else None


def sync_written(hub: Hub, base: Base, *, wait: bool = False) -> bool:
    """Index what was just written to a base, unless it has very many other changes; return whether nothing failed.

    With `wait`, another process that indexes the base is waited for, 5 s at most.
    """
    asked = time.perf_counter()
    try:
        if base not in hub.discovery().bases:
            hub.rediscover()
        if base.engine:  # its publisher keeps it in step
            return True
        state, index = hub.state(Freshness), hub.index(base)
        due = partial(state.due, index.path, 0.0, asked)
        if (difference := state.compare(base, index, hub.limits(), due=due)) is None:
            return True  # another thread has compared it since
        files, state.behind[base.id] = len(difference), len(difference) - difference.young
        few = files <= hub.config().settings.limits.freshen_files
        if (files or difference.new_index) and (few or (state.is_elsewhere(index.path) and wait)):
            for _ in range(BUSY_TRIES if wait else 1):
                if not _sync(hub, base, difference=difference).busy:
                    return True
            state.forget(index.path)  # whoever writes the index may have listed the files before
    except KbhubError:  # what was written stays; `status` reports what is wrong with the index
        return False
    return True


def why_unread(hub: Hub, error: BaseUnavailable | IndexUnavailable) -> str:
    """Return why a base cannot be read: because its last sync failed, or else what reading it met."""
    return hub.state(Freshness).failed.get(error.base, error.alone)


def is_in_step(hub: Hub, base: Base) -> bool:
    """Return whether a base whose events are followed need not be compared again; may be asked on an event loop."""
    path = hub.index(base).path
    due = hub.state(Freshness).due(path, None, time.perf_counter(), watched=True)
    return not due and os.path.isfile(path) and noted_damage(path) is None  # noqa: PTH113 - as above


def passed_over(hub: Hub, base: Base) -> dict[str, int]:
    """Return how many text files of a base are of a kind that is not indexed, by suffix, as counted last."""
    if base.engine:
        return {}
    if compared := hub.state(Freshness).last.get(hub.index(base).path):
        return dict(compared.passed_over)
    with suppress(IndexUnavailable, FileNotFoundError), hub.index(base).snapshot() as index:
        if isinstance(counts := index.meta(comparison.PASSED_OVER), str):
            return dict(json.loads(counts))
    return {}


def comparing_for(hub: Hub, base: Base) -> float:
    """Return for how many seconds a comparison of a base with its files has been running; 0 if none is."""
    began = hub.state(Freshness).comparing.get(hub.index(base).path)
    return 0.0 if began is None else time.perf_counter() - began


def _sync(
    hub: Hub,
    base: Base,
    *,
    progress: Progress | None = None,
    difference: comparison.Difference | None = None,
    **how: bool,
) -> comparison.SyncReport:
    # It and the parsers take 60 ms to load, and most searches find their bases unchanged.
    from kbhub.sync.sync import sync_base  # noqa: PLC0415

    state, index, limits = hub.state(Freshness), hub.index(base), hub.limits()

    def note(name: str, done: int, todo: int) -> None:
        state.progress[base.id] = (done, todo)
        if progress:
            progress(name, done, todo)

    try:
        embedder: Embedder | None = hub.embedder()
        notes: tuple[str, ...] = ()
    except EmbedderError as error:
        embedder, notes = None, (str(error),)
    try:
        if difference is None:
            _refresh(hub, base)
            difference = None if how.get("full") else state.compare(base, index, limits)
        report = sync_base(base, index.path, embedder, limits, **how, progress=note, difference=difference)
    except (BaseUnavailable, IndexUnavailable) as error:
        state.failed[base.id] = error.alone
        raise
    finally:
        state.progress.pop(base.id, None)
    if not report.busy:
        state.failed.pop(base.id, None)
        state.behind.pop(base.id, None)
    return report.model_copy(update={"notes": notes + report.notes}) if notes else report


def _refresh(hub: Hub, base: Base) -> None:
    """Bring a base in step that is a copy: of a package's documentation, or of sessions in a client's database."""
    if base.path.parent == hub.data / PACKAGES:
        load("kbhub.sync.packages:refresh")(hub.data, base.path, hub.options.env, hub.options.home)
    elif base.path.parent == hub.data / SESSIONS:
        load("kbhub.index.foreign_sessions:refresh")(base, hub.options.env, hub.options.home)


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
    """Return base → (files done, files to do) of bases whose first index is being made, here or by another process."""
    found = {}
    for base in hub.select(names):
        if base.engine:
            continue
        noted, complete = "", False
        with suppress(IndexUnavailable), hub.index(base).snapshot() as index:
            noted = str(index.meta(comparison.PROGRESS) or "")
            complete = index.meta(comparison.SYNCED) is not None
        done, _, todo = noted.partition(" ")
        files = (int(done), int(todo)) if done.isdecimal() and todo.isdecimal() else (0, 0)
        if not complete and is_in_progress(hub, base):
            found[base.id] = files[0], files[1] or hub.state(Freshness).behind.get(base.id, 0)
    return found


def is_in_progress(hub: Hub, base: Base) -> bool:
    """Return whether a base is being indexed, or soon will be, here or by another process."""
    state = hub.state(Freshness)
    return state.is_pending(base.id) or base.id in state.progress or state.is_elsewhere(hub.index(base).path)
