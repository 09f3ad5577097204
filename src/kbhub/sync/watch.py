"""Watch for file events that change bases, or which bases are active."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import Any

from watchfiles import watch
from watchfiles._rust_notify import WatchfilesRustInternalError

from kbhub.errors import KbhubError
from kbhub.hub import Hub
from kbhub.types import Base, Discovery
from kbhub.values import struct
from kbhub.workspace.config import LoadedConfig
from kbhub.workspace.formats import IGNORE_NAMES, LOG_SUFFIX, RECORD_SUFFIX, SKIPPED_FOLDERS, TAKEN_SUFFIXES

log = logging.getLogger(__name__)

STEP_MS, DEBOUNCE_MS = 100, 1000
"""Events less than a step apart are one change, up to the second length: a branch switch is handled at once or in two
parts, and a saved file is searchable well within a second."""

_EVENTS: dict[str, Any] = {
    "watch_filter": None,
    "debounce": DEBOUNCE_MS,
    "step": STEP_MS,
    "yield_on_timeout": True,
    "ignore_permission_denied": True,
}

TICK_MS = 500
"""How often the files that decide which bases are active are checked; some hundred `stat` calls."""

POLL_SECONDS = 2.0
"""How often files are compared with the index without events."""

REMOTE_SYSTEMS = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "vboxsf", "fuse.rclone", "afs"))

LIVE = "live"

UNNAMED = "\N{REPLACEMENT CHARACTER}"
"""Replaces undecodable bytes in the path of an event."""

Changes = Mapping[str, frozenset[str] | None]
"""Id of a base with changed files → the changed paths, with `/`; None if they are not all known."""

Changed = Callable[[Changes | None], None]
"""Called with the bases whose files changed, or None if the active bases may have changed."""


@struct(frozen=False)
class _Plan:
    """The watched folders."""

    current: tuple[LoadedConfig, Discovery] | None
    bases: tuple[Base, ...]
    looks: list[object]
    roots: dict[str, Base] = field(default_factory=dict)
    """Watched folder or file → its base."""
    polled: dict[str, str] = field(default_factory=dict)
    """Base id → why it is polled."""
    followed: bool = False
    """Whether events arrive, and the comparison for what changed before them has been asked for."""


class Watcher:
    """A thread that notices changes of the active bases and of what makes them active, and calls `changed`."""

    def __init__(self, hub: Hub, changed: Changed) -> None:
        self._hub, self._changed = hub, changed
        self._stop = threading.Event()
        self._plan: _Plan | None = None
        self._polled_at = time.monotonic()
        # A daemon thread, so that the process can exit at any moment.
        self._thread = threading.Thread(target=self._run, name="kbhub-watching", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop the thread, waiting at most some seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def state(self, base: str) -> str | None:
        """Return how a base is watched: `live`, or how often and why it is polled, or None."""
        plan = self._plan
        if plan is None or not self._thread.is_alive():
            return None
        if reason := plan.polled.get(base):
            return f"polled every {POLL_SECONDS:.0f} s: {reason}"
        return LIVE if base in map(attrgetter("id"), plan.roots.values()) else None

    def follows(self, base: str) -> bool:
        """Return whether every change of a base is reported by an event."""
        plan = self._plan
        return plan is not None and plan.followed and self.state(base) == LIVE

    def _run(self) -> None:
        while not self._stop.is_set():
            current = _current(self._hub)
            bases = current[1].bases if current else ()
            plan = _Plan(current, bases, _looks_of(bases))
            for base in bases:
                if system := None if base.engine else remote_system(base.path):
                    plan.polled[base.id] = f"it is on {system}"
                elif not base.engine:
                    plan.roots |= {str(path): base for path in watched_folders(base) if path.is_dir()}
            self._plan = plan  # whole, since other threads read it
            try:
                self._follow(plan)
            except (OSError, WatchfilesRustInternalError) as error:
                reason = str(error).split("\n")[0] or type(error).__name__
                log.warning("Cannot watch files (%s); polling instead.", reason)
                plan.polled |= {base.id: reason for base in plan.bases}
                plan.roots.clear()
                plan.followed = False
                self._follow(plan)

    def _follow(self, plan: _Plan) -> None:
        """Report changes, looking at least every tick, until the plan is outdated."""
        for changes in self._batches(plan):
            # One comparison finds what changed before events started.
            changed_paths = changes_of(changes, plan.roots) if plan.followed else None
            if changed_paths is None or changed_paths:
                self._changed(changed_paths)
            plan.followed = True
            if _current(self._hub) is not plan.current or _looks_of(plan.bases) != plan.looks:
                return
            if plan.polled and time.monotonic() - self._polled_at >= POLL_SECONDS:
                self._polled_at = time.monotonic()
                self._changed(dict.fromkeys(plan.polled))

    def _batches(self, plan: _Plan) -> Iterator[Iterable[str]]:
        """Yield changed paths, at least every tick."""
        if not plan.roots:
            yield ()
            while not self._stop.wait(TICK_MS / 1000):
                yield ()
            return
        for changes in watch(
            *plan.roots, **_EVENTS, rust_timeout=TICK_MS, stop_event=self._stop, raise_interrupt=False
        ):
            yield {path for _, path in changes}


def until_changed(base: Base, seconds: float) -> None:
    """Wait until something happens in the folder of a base, or for some seconds."""
    folders = [path for path in watched_folders(base) if path.is_dir()]
    next(watch(*folders, **_EVENTS, rust_timeout=round(seconds * 1000), raise_interrupt=True), None)


def changes_of(paths: Iterable[str], roots: Mapping[str, Base]) -> Changes:
    """Return which paths of which bases changed, from absolute paths and watched folder or file → base."""
    changed = defaultdict[str, set[str | None]](set)
    for path in paths:
        for root, base in roots.items():
            if (path == root or path.startswith(root + os.sep)) and _matters(path, root, base):
                changed[base.id].add(_named(path, base))
    return {base: None if None in names else frozenset(filter(None, names)) for base, names in changed.items()}


def _named(path: str, base: Base) -> str | None:
    """Return an event's path relative to its base, or None if more than that path may have changed."""
    above = f"{base.path}{os.sep}"
    # A replacement character stands for undecodable bytes, so the path is unknown.
    if not path.startswith(above) or path.endswith(IGNORE_NAMES) or UNNAMED in path:
        return None
    return path[len(above) :].replace(os.sep, "/")


def _matters(path: str, root: str, base: Base) -> bool:
    """Return whether a change may affect a document: not in a skipped folder, and of a possible name."""
    parts = path[len(root) :].split(os.sep)  # noqa: PTH206 - thousands of events may come at once
    if any((part.startswith(".") and part not in IGNORE_NAMES) or part in SKIPPED_FOLDERS for part in parts if part):
        return False
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - likewise
    taken = ("", LOG_SUFFIX, RECORD_SUFFIX) if base.kind == "session" else ("", *TAKEN_SUFFIXES)
    relevant = bool(base.include) or suffix in taken or parts[-1] in IGNORE_NAMES
    return relevant or os.path.isdir(path)  # noqa: PTH112 - a folder may be called `v1.0`


def watched_folders(base: Base) -> list[Path]:
    """Return the folders and files to watch for a base, recursively."""
    return [base.path / part for part in base.only] if base.only else [base.path]


def _current(hub: Hub) -> tuple[LoadedConfig, Discovery] | None:
    """Return the config and the active bases now; None if an answer would report an error instead."""
    with suppress(KbhubError):
        return hub.current(max_age=0)
    return None


def _looks_of(bases: Iterable[Base]) -> list[object]:
    """Return a state that changes when a watched folder is replaced, but not when it gets a file."""
    looks = list[object]()
    for path in [path for base in bases for path in (base.path, *watched_folders(base))]:
        look: object = None
        with suppress(OSError):
            status = path.stat()
            look = status.st_dev, status.st_ino, *(() if path.is_dir() else (status.st_mtime_ns, status.st_size))
        looks.append(look)
    return looks


def remote_system(path: Path) -> str | None:
    """Return the file system of a path if remote changes on it raise no events here."""
    return next((system for mount, system in _remote_mounts() if path.is_relative_to(mount)), None)


def _remote_mounts() -> list[tuple[str, str]]:
    """Return (folder, file system) of remote mounts, deepest first; Linux only."""
    if sys.platform != "linux":
        return []
    lines = list[str]()
    with suppress(OSError):
        lines = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    mounts = [(fields[1].replace("\\040", " "), fields[2]) for line in lines if len(fields := line.split()) > 2]
    return sorted((mount for mount in mounts if mount[1] in REMOTE_SYSTEMS), key=lambda mount: -len(mount[0]))
