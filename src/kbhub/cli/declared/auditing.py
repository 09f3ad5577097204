"""The command that looks for what is wrong in documents."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Formats


@app.command(usage="kbhub audit [OPTIONS] [BASE…]")
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
    """
    return commands.auditing.audit(
        bases, checks=check, fix=fix, dry_run=dry_run, fail_on=fail_on, limit=limit, formats=formats
    )
