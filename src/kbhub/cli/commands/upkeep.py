"""Keeping indexes, documents and the query log in order: index, audit, doctor, log, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from pydantic import Field

from kbhub.cli import INTERRUPTED
from kbhub.cli.app import complain, progress_bars
from kbhub.cli.commands.daemon import daemon_finding
from kbhub.cli.options import Common, Exact, Formats, Reply, Tables, bring_in_step, command, hub_options, nothing_active
from kbhub.editing.audit import audit as audit_documents
from kbhub.editing.audit import fix as fix_documents
from kbhub.editing.findings import KEPT
from kbhub.errors import BaseNotFound, KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.render.annotations import located, sarif_log, workflow_commands
from kbhub.render.bases import sync_report
from kbhub.render.documents import audit_report
from kbhub.render.memories import gaps_report, maintained_lines, queries_report
from kbhub.render.setup import diagnosis_report
from kbhub.render.terminal import text as text_of
from kbhub.server.daemon.protocol import DaemonFolder
from kbhub.setup.doctor import examine, repair
from kbhub.sync.background import TIDY_EVERY_SECONDS, embed_ahead
from kbhub.sync.comparison import SyncReport, change_keeping
from kbhub.sync.freshness import sync
from kbhub.types import Problem
from kbhub.usage import gaps as query_gaps
from kbhub.values import counted

FINDINGS_SHOWN = 50
"""Findings shown as text by default: a few screens."""


class IndexResult(Model):
    """What `kbhub admin index` did."""

    reports: tuple[SyncReport, ...] = Field((), description="One per synced base.")
    failed: tuple[Problem, ...] = Field((), description="Bases that could not be indexed, and why.")
    interrupted: bool = Field(False, description="Whether Ctrl-C interrupted it.")


@command()
def index(
    *bases: Annotated[str, Parameter(name="BASE")],
    all_bases: bool = False,
    full: bool = False,
    keep_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    forget_deleted: Annotated[tuple[str, ...], Parameter(metavar="PATTERN")] = (),
    transformer: bool = False,
    common: Common,
) -> Reply:
    """Sync the indexes of bases with their files.

    Syncs all active bases by default. Ctrl-C leaves a usable index, and the next run continues from there.

    Example: kbhub admin index --all-bases

    Args:
        bases: Ids of the bases to sync.
        all_bases: Sync every base of the global config, even if it is not active here; for cron jobs.
        full: Read every file again, even if it looks unchanged, and recompute every vector.
        keep_deleted: From now on, keep the text of files that match, so that it can be found after they are deleted.
        forget_deleted: Delete the kept text of files that match, and stop keeping it.
        transformer: Compute the vectors of `search.secondLook` now, about 20 per second; a server does it when idle.

    Returns:
        The exit code: 1 if a base could not be synced, 130 if interrupted.
    """
    if bases and all_bases:
        raise UsageError("--all-bases cannot be used with BASE.")
    hub = Hub(hub_options(common, every_base=all_bases))
    if bases:
        names = [base.id for base in hub.select(bases)]
    elif all_bases:  # active or not
        names = sorted({*hub.config().settings.bases, *hub.options.bases})
    else:
        broken = dict.fromkeys(problem.subject for problem in hub.missing())  # they would be active otherwise
        names = [*(base.id for base in hub.discovery().bases), *broken]
    complain(*change_keeping(hub, names, keep=keep_deleted, forget=forget_deleted))
    reports = list[SyncReport]()
    failed = list[Problem]()
    interrupted = False
    try:
        with progress_bars() as progress:
            for name in names:
                try:
                    if any(base.engine for base in hub.select((name,))):
                        complain(f"{name} is a shared base: its publisher syncs it with `kbhub team publish`.")
                    reports += sync(hub, (name,), full=full, check=True, progress=progress)
                except KbhubError as error:
                    # Why a base is not active, discovery knows.
                    known = hub.discovery().problems if isinstance(error, BaseNotFound) else ()
                    why = next((problem.message for problem in known if problem.subject == name), str(error))
                    failed.append(Problem(subject=name, message=why))
        if transformer and hub.transformer() is None:
            complain("No vectors to compute: `search.secondLook` is off, or the extra kbhub[onnx] is not installed.")
        elif transformer:
            with progress_bars("reading ") as progress:
                embed_ahead(hub, hub.select(names), lambda: True, progress)
    except KeyboardInterrupt:
        interrupted = True
    if not (interrupted or all_bases):  # with other bases than usual, other questions are answered
        try:
            complain(*maintained_lines(query_gaps.maintain(hub, at_most_every=TIDY_EVERY_SECONDS)))
        except KbhubError as error:  # it is no part of what was asked for
            complain(str(error))
    result = IndexResult(reports=tuple(reports), failed=tuple(failed), interrupted=interrupted)
    hints: Sequence[str] = ()
    if interrupted:
        hints = ("Interrupted. The indexes are usable; run `kbhub admin index` again to continue.",)
    elif not names:
        empty = "No bases in the global config. Add one with `kbhub base add DIR`."
        hints = (empty,) if all_bases else nothing_active(hub)
    code = INTERRUPTED if interrupted else 1 if failed or not names else 0
    said = "\n".join(text_of(sync_report(report)) for report in reports)
    return Reply(result, said, notes=[one.text for one in failed], hints=hints, code=code)


@command(audit_report, options=Formats, colour=True)
def audit(
    hub: Hub,
    *bases: Annotated[str, Parameter(name="BASE")],
    check: Annotated[tuple[str, ...], Parameter(metavar="NAME")] = (),
    okf: bool = False,
    keep: bool = False,
    fix: bool = False,
    dry_run: bool = False,
    fail_on: Literal["error", "warning", "info", "never"] | None = None,
    sarif: bool = False,
    github: bool = False,
    limit: Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=0))] = None,
    common: Common,
) -> Reply:
    """Find problems in documents, such as broken links.

    Every finding says how to fix it. In a CI job, the exit code is 1 if there is an error, or a finding of --fail-on.

    Checks: links, related, headings, ambiguous, spelling, refs, front-matter, encoding, secrets, files, titles, tags,
    duplicates, stale, orphans, memories, okf, sources, changed, contradicted, gaps. The last three run only with --keep
    or by name.

    Example: kbhub audit --check links --check refs

    Args:
        bases: Ids of the bases to check (all active bases).
        check: Run only this check; may be repeated.
        okf: Run only the check okf, on bundles of the Open Knowledge Format or the named bases.
        keep: Run the checks of what was true once, or is missing: changed, contradicted, gaps, stale,
            orphans, memories.
        fix: Fix what is safe to fix in writable bases, then check again.
        dry_run: With --fix, show the changes without making them.
        fail_on: Exit with 1 if a finding has this severity or a higher one (error; with --keep, warning).
        sarif: Print what is found in files of the repository as SARIF 2.1.0, for code scanning.
        github: The same as annotations of a workflow on GitHub.
        limit: Maximum number of findings (50 as text, otherwise all).

    Returns:
        The exit code: 1 if a severe finding is left, or no base could be checked.
    """
    if dry_run and not fix:
        raise UsageError("--dry-run requires --fix.")
    if (sarif or github) and (common.format() != "text" or sarif == github):
        raise UsageError("--sarif and --github cannot be used with each other or another format.")
    check = (*check, *(("okf",) if okf else ()), *(KEPT if keep else ()))
    fail_on = fail_on or ("warning" if keep else "error")
    bring_in_step(hub)  # all of them, for links lead from one to another
    with progress_bars("checking ", "documents") as progress:
        report = audit_documents(hub, bases, checks=check, progress=progress)
        if fix:
            fixed = fix_documents(hub, report, dry_run=dry_run)
            if fixed.changes and not dry_run:
                report = audit_documents(hub, bases, checks=check, progress=progress)
            report = report.model_copy(update={"fixed": fixed})
    most = None if sarif or github or common.format() != "text" else FINDINGS_SHOWN
    shown = report.cut(most if limit is None else limit)
    said = [one.text for one in report.fixed.failed] if report.fixed else []
    said += [] if bases else [one.text for one in hub.missing()]
    said += [] if hub.discovery().bases else nothing_active(hub)
    code = 1 if report.skipped or not report.bases or (fail_on != "never" and report.reaches(fail_on)) else 0
    if sarif or github:
        discovery = hub.discovery()
        here = [*located(shown, discovery.workspace.root, {base.id: base.path for base in discovery.bases})]
        if left := len(shown.findings) - len(here):
            said = [*said, f"{counted(left, 'finding')} outside of the repository not shown."]
        text = sarif_log(shown.checks, here) if sarif else workflow_commands(here)
        return Reply(text=Exact(text), notes=[*report.notes, *said], code=code)
    return Reply(shown, notes=said, code=code)


@command(diagnosis_report, colour=True)
def doctor(*, fix: bool = False, common: Common) -> Reply:
    """Check the installation, and say how to fix what fails.

    Checks SQLite, the model, config, pointers, trust, kbhub's own folders, every active base with its index, the limits
    for watching files, clients, and the process that windows share. Only errors make it fail, not warnings.

    Example: kbhub doctor --fix

    Args:
        fix: Fix what is safe to fix: permissions of kbhub's own files, damaged or stale indexes.
            Documents, config and pointers are never touched.

    Returns:
        The exit code: 1 if an error is left.
    """
    hub = Hub(hub_options(common, warn=False))
    diagnosis = examine(hub)
    if fix:
        diagnosis = repair(hub, diagnosis)
    findings = (*diagnosis.findings, daemon_finding(DaemonFolder(hub.data)))
    code = 1 if any(finding.level == "error" for finding in findings) else 0
    return Reply(diagnosis.model_copy(update={"findings": findings}), code=code)


OFF = "The query log is off: `log.queries` is false."


@command(queries_report, options=Tables)
def show(
    hub: Hub,
    *,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=query_gaps.MOST_QUERIES))
    ] = None,
) -> Reply:
    """Show the queries of this project, yours and those of agents, newest first.

    Example: kbhub dev log show --limit 100

    Args:
        limit: Queries to show (20).
    """
    log = query_gaps.show_log(hub, limit or query_gaps.SHOWN)
    hints = [OFF] if not log.logged else [] if log.queries else ["No queries logged yet."]
    if log.total > len(log.queries):
        hints.append(f"Showing {len(log.queries)} of {log.total} queries; --limit shows more.")
    return Reply(log, hints=hints)


@command(lambda done: f"Deleted {counted(done.queries, 'query', 'queries')} from the log, and their gaps.")
def clear(hub: Hub, *, all_: bool = False) -> query_gaps.Cleared:
    """Delete the query log of this project, and its gaps.

    Example: kbhub dev log clear

    Args:
        all_: Delete those of every project.
    """
    return query_gaps.clear_log(hub, every_project=all_)


@command(gaps_report, options=Tables)
def gaps(hub: Hub, *, all_: bool = False, close: Annotated[str | None, Parameter(metavar="ID")] = None) -> Reply:
    """List questions asked repeatedly that no document answers.

    A gap closes automatically once a document or memory answers it. All gaps are checked again before they are listed.

    Example: kbhub gaps

    Args:
        all_: Also list gaps that are answered or closed.
        close: Close this gap for good.
    """
    if close is not None:
        closed = query_gaps.close_gap(hub, close)
        found = query_gaps.list_gaps(hub).model_copy(update={"gaps": (closed,)})
        return Reply(found, hints=() if found.logged else (OFF,))
    bring_in_step(hub)
    complain(*maintained_lines(query_gaps.maintain(hub)))
    found = query_gaps.gaps_and_unanswered(hub, every=all_)
    if not found.logged:
        return Reply(found, hints=[OFF])
    none = "No gaps yet." if found.unanswered else "No gaps: no repeated question lacks an answer here."
    return Reply(found, hints=[*([] if found.gaps else [none]), found.rule])
