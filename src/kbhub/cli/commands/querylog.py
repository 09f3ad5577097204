"""The query log: log, gaps."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import bring_in_step, complain_all, hub_options
from kbhub.cli.options import Common, Tables
from kbhub.cli.output import present
from kbhub.hub import Hub
from kbhub.render.memories import (
    cleared_text,
    gaps_listing,
    gaps_text,
    maintained_lines,
    queries_listing,
    queries_text,
)
from kbhub.usage.gaps import MOST_QUERIES, close_gap, gaps_and_unanswered, list_gaps, maintain
from kbhub.usage.reports import SHOWN, Gaps, clear_log, show_log

OFF = "The query log is off: `log.queries` is false."


def show(
    *,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=MOST_QUERIES))
    ] = None,
    formats: Tables = Tables(),  # noqa: B008 - frozen
) -> int:
    """Show the queries of this project, yours and those of agents, newest first.

    Example: kbhub log show --limit 100

    Args:
        limit: Queries to show (20).
        formats: Options of every command.
    """
    formats.format()
    log = show_log(Hub(hub_options(formats)), limit or SHOWN)
    present(formats, lambda: queries_listing(log), lambda: queries_text(log), document=log.model_dump_json(indent=2))
    if not log.logged:
        complain(OFF)
    elif not log.queries:
        complain("No queries logged yet.")
    if log.total > len(log.queries):
        complain(f"Showing {len(log.queries)} of {log.total} queries; --limit shows more.")
    return 0


def clear(
    *,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Delete the query log of this project, and its gaps.

    Example: kbhub log clear

    Args:
        all_: Delete those of every project.
        common: Options of every command.
    """
    done = clear_log(Hub(hub_options(common)), every_project=all_)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(cleared_text(done))
    return 0


def gaps(
    *,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    close: Annotated[str | None, Parameter(metavar="ID")] = None,
    formats: Tables = Tables(),  # noqa: B008 - frozen
) -> int:
    """List the questions that are asked repeatedly and that no document answers.

    A gap closes automatically once a document or memory answers it. All gaps are checked again before they are listed.

    Example: kbhub gaps

    Args:
        all_: Also list gaps that are answered or closed.
        close: Close this gap for good.
        formats: Options of every command.
    """
    formats.format()
    hub = Hub(hub_options(formats))
    if close is not None:
        gap = close_gap(hub, close)
        found = Gaps(gaps=(gap,), open=list_gaps(hub).open, logged=hub.config().settings.log.queries)
    else:
        bring_in_step(hub)
        complain_all(maintained_lines(maintain(hub)))
        found = gaps_and_unanswered(hub, every=all_)
    present(formats, lambda: gaps_listing(found), lambda: gaps_text(found), document=found.model_dump_json(indent=2))
    if not found.logged:
        complain(OFF)
    elif close is None:
        if not found.gaps:
            complain("No gaps yet." if found.unanswered else "No gaps: every repeated question has an answer here.")
        complain(found.rule)
    return 0
