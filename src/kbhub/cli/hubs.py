"""Open a hub with the options of the command line and prepare its bases for a command."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from kbhub.cli.console import complain, progress_bars
from kbhub.cli.options import log_to_stderr
from kbhub.errors import KbhubError, UsageError
from kbhub.hub import HubOptions
from kbhub.render.words import warnings_text
from kbhub.search import base_suggestions
from kbhub.sync.freshness import Patience, first_indexes, freshen, sync
from kbhub.values import counted
from kbhub.workspace.discovery import parse_base_arguments
from kbhub.workspace.files import WORKING_DIRECTORY_GONE, working_directory
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.cli.options import Places
    from kbhub.hub import Hub
    from kbhub.sync.freshness import StaleBase
    from kbhub.sync.sync import Progress
    from kbhub.types import Problem

POLL_SECONDS = 0.1
"""Interval of looks at a first index that another process makes."""


def hub_options(places: Places, *, serve: bool = False, every_base: bool = False, warn: bool = True) -> HubOptions:
    """Return the hub's options for the places that the command line names.

    With `serve`, a client's own variables may name the workspace; with `every_base`, every base of the global config is
    active. `warn` prints configuration fields without effect on standard error; it is off if the command's own result
    has them, and for a server, which tells its client. Raises `UsageError` or `ConfigError` if `--base` or
    `KBHUB_BASES` is malformed, or there is no directory to work for.
    """
    if places.verbose:
        log_to_stderr()
    env = dict(os.environ)
    here = working_directory()
    if here is None and places.root is None and not serve:
        raise UsageError(WORKING_DIRECTORY_GONE)
    return HubOptions(
        root=places.root,
        config=places.config,
        bases=parse_base_arguments(places.base, env),
        cache=places.cache_dir,
        serve=serve,
        every_base=every_base,
        env=env,
        typed_in=None if serve else here,
        warn=_Warnings() if warn and not serve else None,
    )


class _Warnings:
    """Printer of warnings: each once, all new ones on one line."""

    def __init__(self) -> None:
        self._told: set[Problem] = set()

    def __call__(self, warnings: Sequence[Problem]) -> None:
        fresh = [warning for warning in warnings if warning not in self._told]
        self._told.update(fresh)
        if fresh:
            complain(warnings_text(fresh))


def decoded(argument: str) -> str:
    """Return an argument as Unicode: Python passes bytes that the locale does not know as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def bring_in_step(hub: Hub, names: Sequence[str] = ()) -> None:
    """Sync bases with few changes, and report those that are too far behind."""
    most = hub.config().settings.limits.freshen_files
    with progress_bars() as progress:
        for behind in freshen(hub, names, progress):
            if not behind.new_index and behind.files > most:
                command = shlex.join(["kbhub", "index", behind.base])
                complain(
                    f"{behind.base}: {behind.files} files changed since the last sync; run `{command}` to index them."
                )
                continue
            _sync_for_search(hub, behind, progress, most)


def _sync_for_search(hub: Hub, behind: StaleBase, progress: Progress | None, most: int) -> None:
    if progress is None and behind.files > most:
        complain(f"{behind.base}: indexing {behind.files} files…")
    try:
        reports = sync(hub, (behind.base,), progress=progress)
        if any(report.busy for report in reports) and _await_first_index(hub, behind.base, progress):
            reports = sync(hub, (behind.base,), progress=progress)
    except KbhubError as error:
        complain(str(error))
        return
    for report in reports:
        complain_all(f"{report.base}: {note}" for note in report.notes)
        if report.failed:
            complain(f"{report.base}: could not index {counted(len(report.failed), 'file')}; see `kbhub status`.")


def _await_first_index(hub: Hub, base: str, progress: Progress | None) -> bool:
    """Wait while another process makes the first index of a base; return whether it has ended."""
    patience = Patience()
    while files := first_indexes(hub, (base,)).get(base):
        if progress:
            progress(base, *files)
        if (left := patience.left(files[0])) <= 0:
            return False
        time.sleep(min(left, POLL_SECONDS))
    return True


def active_and_broken(hub: Hub) -> list[str]:
    """Return the ids of the active bases, and of those that would be active if they could be used."""
    broken = (problem.subject for problem in hub.missing())
    return [*(base.id for base in hub.discovery().bases), *dict.fromkeys(broken)]


def complain_nothing(hub: Hub) -> None:
    """Complain that no base is active, where it was looked for, and what to do, unless kbhub is off here."""
    discovery = hub.discovery()
    # What was there and does not count has its reason behind it; the rest was not there.
    complain_all(place for place in discovery.looked_for if place.endswith((")", "off here")))
    if discovery.off:
        return
    if any(problem.subject == PROJECT_ID for problem in discovery.problems):
        complain("No knowledge is active here; `kbhub status` says more.")
        return
    if where := discovery.workspace.directory:
        complain(
            f"No knowledge is active here: none in {where}, above it or in the global config. Run `kbhub init` to "
            "choose or create some, or `kbhub status` to see where kbhub looked."
        )
    else:
        complain(
            "No knowledge is active here: no project, and no base in the global config. Change to a project, name one "
            "with --root DIR, or add a folder of notes with `kbhub bases add DIR`."
        )
    complain_all(base_suggestions.outside(hub))


def complain_broken(hub: Hub) -> None:
    """Name the bases that would be active if they could be used."""
    complain_all(broken_bases(hub))


def broken_bases(hub: Hub) -> list[str]:
    """Return the problem of each base that would otherwise be active, as a search notes it."""
    return [f"{problem.subject}: {problem.message}" for problem in hub.missing()]


def complain_all(messages: Iterable[str]) -> None:
    """Complain about several things, one per line."""
    for message in messages:
        complain(message)
