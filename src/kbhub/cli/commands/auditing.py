"""The command that looks for what is wrong in documents: audit."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.console import wants_colour
from kbhub.cli.hubs import hub_options
from kbhub.cli.options import Formats
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, complain_all, complain_broken, complain_nothing
from kbhub.editing.audit import audit as audit_documents
from kbhub.editing.audit import fix as fix_documents
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.render.audit import audit_listing, audit_text
from kbhub.render.terminal import Painter

SHOWN = 50
"""Findings that are shown as text unless somebody asks for more: a few screens."""


def audit(
    *bases: Annotated[str, Parameter(metavar="BASE")],
    check: Annotated[tuple[str, ...], Parameter(metavar="NAME")] = (),
    fix: bool = False,
    dry_run: bool = False,
    fail_on: Literal["error", "warning", "info", "never"] = "error",
    limit: Annotated[int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=0))] = None,
    formats: Formats = Formats(),  # noqa: B008 - frozen
) -> int:
    """Find what is wrong in documents: broken links and refs, duplicates, stale documents, tags and more.

    Every finding says what to do. The exit code is 1 if there is an error, or what --fail-on names, so that a build can
    run it.

    Checks: links, related, headings, ambiguous, spelling, refs, front-matter, encoding, files, titles, tags,
    duplicates, stale, orphans, memories.

    Example: kbhub audit --check links --check refs

    Args:
        bases: Ids of the bases to look at; all active ones if none is named.
        check: Only this check; may be repeated.
        fix: Mend what is safe to mend in bases that may be written, then look again.
        dry_run: With --fix, show what would be changed and change nothing.
        fail_on: Exit with 1 if there is a finding as grave as this.
        limit: Findings to show at most: 50 as text, otherwise all.
        formats: Options of every command that lists things.

    Returns:
        The exit code: 1 if something grave is left, or none could be.
    """
    form = formats.format()
    if dry_run and not fix:
        raise UsageError("--dry-run shows what --fix would change; give both.")
    hub = Hub(hub_options(formats))
    bring_in_step(hub)  # all of them, for links lead from one to another
    report = audit_documents(hub, bases, checks=check)
    if fix:
        fixed = fix_documents(hub, report, dry_run=dry_run)
        if fixed.changes and not dry_run:
            report = audit_documents(hub, bases, checks=check)
        report = report.model_copy(update={"fixed": fixed})
    most = limit if limit is not None or form != "text" else SHOWN
    shown = report.cut(most)
    present(
        formats,
        lambda: audit_listing(shown),
        lambda: audit_text(shown, Painter(wants_colour(sys.stdout, os.environ))),
        document=shown.model_dump_json(indent=2),
    )
    if form != "json":
        complain_all([*report.notes, *(f"{skipped.base}: {skipped.reason}" for skipped in report.skipped)])
        if report.fixed:
            complain_all(f"{problem.subject}: {problem.message}" for problem in report.fixed.failed)
        if not bases:
            complain_broken(hub)
        if not hub.discovery().bases:
            complain_nothing(hub)
    incomplete = bool(report.skipped) or not report.bases
    return 1 if incomplete or (fail_on != "never" and report.reaches(fail_on)) else 0
