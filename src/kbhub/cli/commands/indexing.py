"""Bringing indexes in step: index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from kbhub.cli import INTERRUPTED
from kbhub.cli.console import complain, progress_bars, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import Common
from kbhub.cli.readiness import active_and_broken, complain_all, complain_nothing, pull_bases
from kbhub.cli.results import IndexResult
from kbhub.errors import BaseNotFound, KbhubError, UsageError
from kbhub.hub import Hub
from kbhub.memory.querylog.maintenance import maintain
from kbhub.render.gaps import maintained_lines
from kbhub.render.terminal import report_text
from kbhub.sync.background import TIDY_EVERY_SECONDS
from kbhub.sync.bases import sync
from kbhub.sync.deleted_texts import change_keeping
from kbhub.types import Problem

if TYPE_CHECKING:
    from kbhub.sync.report import SyncReport
    from kbhub.sync.sync import Progress


def index(
    *bases: str,
    all_bases: bool = False,
    full: bool = False,
    keep_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    forget_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    pull: bool = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Bring the indexes of bases in step with their files.

    Without a base, all active ones. Ctrl-C leaves a usable index; the next run goes on from there.

    Example: kbhub index --all-bases

    Args:
        bases: Ids of the bases.
        all_bases: Every base of the global config, also those not active here; for a cron job.
        full: Read every file again, even if it looks unchanged, and make every vector anew.
        keep_deleted: Keep the text of files of these names, from now on, so that it is found when they are deleted.
        forget_deleted: Delete what is kept of deleted files of these names, and keep no more of them.
        pull: First fetch and fast-forward those of your own bases that are git checkouts.
        common: Options of every command.

    Returns:
        The exit code: 1 if a base could not be, 130 if interrupted.
    """
    if bases and all_bases:
        raise UsageError("--all-bases and names of bases exclude each other; leave one out.")
    hub = Hub(hub_options(common, every_base=all_bases))
    if bases:
        names = [base.id for base in hub.select(bases)]
    else:
        names = _every_name(hub) if all_bases else active_and_broken(hub)
    complain_all(change_keeping(hub, names, keep=keep_deleted, forget=forget_deleted))
    pulled = pull_bases(hub, bases) if pull else ()
    reports: list[SyncReport] = []
    failed: list[Problem] = []
    interrupted = False
    try:
        with progress_bars() as progress:
            for name in names:
                _index_one(hub, name, reports, failed, full=full, progress=progress)
    except KeyboardInterrupt:
        interrupted = True
    if not (interrupted or all_bases):  # with other bases than usual, other questions are answered
        _maintain_if_due(hub)
    if common.json:
        result = IndexResult(pulled=pulled, reports=tuple(reports), failed=tuple(failed), interrupted=interrupted)
        show_json(result.model_dump_json(indent=2))
    else:
        for report in reports:
            show_text(report_text(report))
        complain_all(f"{problem.subject}: {problem.message}" for problem in failed)
    if interrupted:
        complain("Interrupted. The indexes are usable as far as they got; the next `kbhub index` goes on from there.")
        return INTERRUPTED
    if not names and all_bases:
        complain("The global config names no base to index. `kbhub bases add PATH` adds one.")
    elif not names:
        complain_nothing(hub)
    return 1 if failed or not names or any(pull.state == "failed" for pull in pulled) else 0


def _maintain_if_due(hub: Hub) -> None:
    """Maintain the query log if it was not maintained for a while, and print what changed."""
    try:
        complain_all(maintained_lines(maintain(hub, at_most_every=TIDY_EVERY_SECONDS)))
    except KbhubError as error:  # it is no part of what was asked for
        complain(str(error))


def _index_one(
    hub: Hub,
    name: str,
    reports: list[SyncReport],
    failed: list[Problem],
    *,
    full: bool,
    progress: Progress | None,
) -> None:
    try:
        reports += sync(hub, (name,), full=full, check=True, progress=progress)
    except KbhubError as error:
        failed.append(Problem(subject=name, message=_why(hub, name, error)))


def _every_name(hub: Hub) -> list[str]:
    """Return the ids of the global config's bases and of those named for this call, active or not."""
    return sorted({*hub.config().settings.bases, *hub.options.bases})


def _why(hub: Hub, name: str, error: KbhubError) -> str:
    """Return why a base failed; for one that is not active, discovery knows."""
    if isinstance(error, BaseNotFound):
        return next((problem.message for problem in hub.discovery().problems if problem.subject == name), str(error))
    return str(error)
