"""What the command does that looks for what is wrong in documents."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

from kbhub.audit import audit as audit_documents
from kbhub.audit import fix as fix_documents
from kbhub.cli.console import wants_colour
from kbhub.cli.hubs import hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, complain_all, complain_broken, complain_nothing
from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.render.audit import audit_listing, audit_text
from kbhub.render.terminal import Painter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.audit import Severity
    from kbhub.cli.options import Formats

SHOWN = 50
"""Findings that are shown as text unless somebody asks for more: a few screens."""


def audit(
    bases: Sequence[str],
    *,
    checks: Sequence[str],
    fix: bool,
    dry_run: bool,
    fail_on: Severity | Literal["never"],
    limit: int | None,
    formats: Formats,
) -> int:
    """Audit bases as their files are now, mend what is to be mended; 1 if something grave is left, or none could be."""
    form = formats.format()
    if dry_run and not fix:
        raise UsageError("--dry-run shows what --fix would change; give both.")
    hub = Hub(hub_options(formats))
    bring_in_step(hub)  # all of them, for links lead from one to another
    report = audit_documents(hub, bases, checks=checks)
    if fix:
        fixed = fix_documents(hub, report, dry_run=dry_run)
        if fixed.changes and not dry_run:
            report = audit_documents(hub, bases, checks=checks)
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
        complain_all([*report.notes, *(f"{one.base}: {one.reason}" for one in report.skipped)])
        if fix:
            complain_all(f"{one.subject}: {one.message}" for one in (report.fixed.failed if report.fixed else ()))
        if not bases:
            complain_broken(hub)
        if not hub.discovery().bases:
            complain_nothing(hub)
    incomplete = bool(report.skipped) or not report.bases
    return 1 if incomplete or (fail_on != "never" and report.reaches(fail_on)) else 0
