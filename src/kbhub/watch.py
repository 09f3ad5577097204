"""File events → what has to be looked at: changed bases, or a discovery that has changed."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import watch
from watchfiles._rust_notify import WatchfilesRustInternalError

from kbhub.document_names import IGNORE_NAMES, MARKDOWN_SUFFIXES, SKIPPED_FOLDERS
from kbhub.errors import KbhubError
from kbhub.pointer import POINTER_NAMES
from kbhub.sources.kinds import LOG_SUFFIX, PDF_SUFFIX, RECORD_SUFFIX
from kbhub.values import record

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base

log = logging.getLogger(__name__)

STEP_MS, DEBOUNCE_MS = 100, 1000
"""Events less than a step apart are one change, up to the second length: a branch switch is looked at once or
twice, and a saved file is searchable well within a second."""

TICK_MS = 500
"""How often the places that discovery depends on are looked at; some forty `stat` calls."""

POLL_SECONDS = 2.0
"""How often files are compared with the index where events cannot be had."""

REMOTE_SYSTEMS = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "vboxsf", "fuse.rclone", "afs"))
"""File systems whose changes made elsewhere raise no events here."""

LIVE = "live"

UNNAMED = "\N{REPLACEMENT CHARACTER}"
"""Stands in the path of an event for what is no text."""

DOCUMENT_SUFFIXES = (*MARKDOWN_SUFFIXES, PDF_SUFFIX)
SESSION_SUFFIXES = (LOG_SUFFIX, RECORD_SUFFIX)
"""Ends of the names of files that a base of a kind takes unasked."""

Changes = Mapping[str, frozenset[str] | None]
"""Id of a base whose files changed → the paths in it that did, with `/`; none if they cannot all be named."""

Changed = Callable[[Changes | None], None]
"""Called with the bases whose files changed, or none if the bases themselves may be others now."""


@record
class _Plan:
    """What is watched at one time."""

    bases: tuple[Base, ...]
    places: tuple[Path, ...]
    """What discovery depends on."""
    looks: tuple[object, ...]
    """What those places looked like."""
    roots: dict[str, Base] = field(default_factory=dict)
    """Folder or file that is watched → its base."""
    polled: dict[str, str] = field(default_factory=dict)
    """Base id → why it is polled."""


class Watcher:
    """A thread that notices changes of the active bases and of what decides which those are.

    Args:
        hub: whose bases are watched.
        changed: what to tell; called on the thread of the watcher.
    """

    def __init__(self, hub: Hub, changed: Changed) -> None:
        self._hub, self._changed = hub, changed
        self._stop = threading.Event()
        self._plan: _Plan | None = None
        self._polled_at = time.monotonic()
        # A daemon: the process may end at any moment.
        self._thread = threading.Thread(target=self._run, name="kbhub-watching", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End; waits for it at most some seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def state(self, base: str) -> str | None:
        """Say how changes of a base are noticed: `live`, or why and how often it is polled; none if not at all."""
        plan = self._plan
        if plan is None or not self._thread.is_alive():
            return None
        if reason := plan.polled.get(base):
            return f"polled every {POLL_SECONDS:.0f} s: {reason}"
        return LIVE if any(one.id == base for one in plan.roots.values()) else None

    def _run(self) -> None:
        while not self._stop.is_set():
            self._plan = self._make_plan()
            try:
                self._follow(self._plan)
            except (OSError, WatchfilesRustInternalError) as error:
                reason = str(error).split("\n")[0] or type(error).__name__
                log.warning("Files cannot be watched (%s); they are polled instead.", reason)
                self._plan.polled |= {base.id: reason for base in self._plan.bases}
                self._plan.roots.clear()
                self._follow(self._plan)

    def _make_plan(self) -> _Plan:
        places = _places_of(self._hub)
        looks = tuple(map(_look_of, places))
        try:
            bases = self._hub.rediscover().bases  # again, for what changed while the places were looked at
        except KbhubError:
            bases = ()  # every answer says so until it is mended, which the places show
        plan = _Plan(bases, places, looks)
        for base in bases:
            if system := remote_system(base.path):
                plan.polled[base.id] = f"it lies on {system}"
            else:
                plan.roots |= {str(path): base for path in watched_folders(base) if path.is_dir()}
        return plan

    def _follow(self, plan: _Plan) -> None:
        """Tell changes until the plan no longer holds."""
        told = False
        for changes in self._batches(plan):
            # What changed before the events began is found by comparing once.
            found = None if not told else changes_of(changes, plan.roots)
            told = True
            if found is None or found:
                self._changed(found)
            if tuple(map(_look_of, plan.places)) != plan.looks or self._hub.known_bases() not in (None, plan.bases):
                return
            if plan.polled and time.monotonic() - self._polled_at >= POLL_SECONDS:
                self._polled_at = time.monotonic()
                self._changed(dict.fromkeys(plan.polled))

    def _batches(self, plan: _Plan) -> Iterator[Iterable[str]]:
        """Give the paths that changed, at least every tick."""
        if not plan.roots:
            yield ()
            while not self._stop.wait(TICK_MS / 1000):
                yield ()
            return
        events = watch(
            *plan.roots,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        for changes in events:
            yield {path for _, path in changes}


def changes_of(paths: Iterable[str], roots: Mapping[str, Base]) -> Changes:
    """Say which paths of which bases changed.

    Args:
        paths: what events named, absolute.
        roots: folder or file that is watched → its base.
    """
    found: dict[str, set[str] | None] = {}
    for path in paths:
        for root, base in roots.items():
            if (path == root or path.startswith(root + os.sep)) and _matters(path, root, base):
                inside = _named(path, base)
                known = found.setdefault(base.id, set())
                if inside is None or known is None:
                    found[base.id] = None
                else:
                    known.add(inside)
    return {base: None if names is None else frozenset(names) for base, names in found.items()}


def _named(path: str, base: Base) -> str | None:
    """Give a path as its base has it; none if more than what lies there may be other now."""
    above = f"{base.path}{os.sep}"
    # A character stands for bytes that are no text, and what was meant is not known.
    if not path.startswith(above) or path.endswith(IGNORE_NAMES) or UNNAMED in path:
        return None
    return path[len(above) :].replace(os.sep, "/")


def _matters(path: str, root: str, base: Base) -> bool:
    """Say whether a change may touch a document: not below what is never taken, and of a name that can be one."""
    parts = path[len(root) :].split(os.sep)  # noqa: PTH206 - thousands of events may come at once
    if any((part.startswith(".") and part not in IGNORE_NAMES) or part in SKIPPED_FOLDERS for part in parts if part):
        return False
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - likewise
    taken = SESSION_SUFFIXES if base.kind == "session" else DOCUMENT_SUFFIXES
    known = bool(base.include) or not suffix or suffix in taken or parts[-1] in IGNORE_NAMES
    return known or os.path.isdir(path)  # noqa: PTH112 - a folder may be called `v1.0`


def watched_folders(base: Base) -> list[Path]:
    """Give the folders and files whose changes are a base's; what lies below them counts."""
    return [base.path / part for part in base.only] if base.only else [base.path]


def _places_of(hub: Hub) -> tuple[Path, ...]:
    """Give the files and folders that decide which bases are active."""
    options = hub.options
    config = options.config or options.env.get("KBHUB_CONFIG") or options.home / ".kbhub.json"
    places = [Path(config), hub.trust.path]
    try:
        discovery = hub.rediscover()
    except KbhubError:
        return tuple(places)
    for base in discovery.bases:
        places += [base.path, *watched_folders(base)]
    directory = discovery.workspace.directory
    for folder in (directory, *directory.parents) if directory else ():
        places += [folder / name for name in (*POINTER_NAMES, "knowledge", ".knowledge", ".git", "docs")]
        places.append(folder.parent / f"{folder.name}.knowledge")
    return tuple(dict.fromkeys(places))


def _look_of(path: Path) -> object:
    """Give what changes when a file is written or a path becomes another thing; not when a folder gets a file."""
    try:
        state = path.stat()
    except OSError:
        return None
    if path.is_dir():
        return state.st_dev, state.st_ino
    return state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size


def remote_system(path: Path) -> str | None:
    """Give the file system that a path lies on, if it is one whose changes raise no events here."""
    return next((system for mount, system in _remote_mounts() if path.is_relative_to(mount)), None)


def _remote_mounts() -> list[tuple[str, str]]:
    """Give (folder, file system) of what is mounted from elsewhere, the deepest first; Linux only."""
    if sys.platform != "linux":
        return []
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    mounts = [(fields[1].replace("\\040", " "), fields[2]) for line in lines if len(fields := line.split()) > 2]
    return sorted((mount for mount in mounts if mount[1] in REMOTE_SYSTEMS), key=lambda mount: -len(mount[0]))
