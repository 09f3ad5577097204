"""What the commands about queries and gaps do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.background import TIDY_EVERY_SECONDS
from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import hub_options
from kbhub.cli.output import present
from kbhub.cli.readiness import bring_in_step, complain_all
from kbhub.errors import KbhubError
from kbhub.hub import Hub
from kbhub.querylog.gaps import close_gap, list_gaps
from kbhub.querylog.log import SHOWN, clear_log, show_log
from kbhub.querylog.maintenance import gaps_and_unanswered, maintain
from kbhub.querylog.models import Gaps
from kbhub.render.gaps import cleared_text, gaps_listing, gaps_text, maintained_lines, queries_listing, queries_text

if TYPE_CHECKING:
    from kbhub.cli.options import Common, Tables

OFF = "Queries are not logged: `log.queries` is false."


def show_queries(*, limit: int | None, formats: Tables) -> int:
    """Print the latest queries."""
    formats.format()
    log = show_log(Hub(hub_options(formats)), limit or SHOWN)
    present(formats, lambda: queries_listing(log), lambda: queries_text(log), document=log.model_dump_json(indent=2))
    if not log.logged:
        complain(OFF)
    elif not log.queries:
        complain("Nothing was asked here yet.")
    if log.total > len(log.queries):
        complain(f"{len(log.queries)} of {log.total} queries; --limit shows more.")
    return 0


def clear_queries(*, every_project: bool, common: Common) -> int:
    """Forget queries and say how many."""
    done = clear_log(Hub(hub_options(common)), every_project=every_project)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(cleared_text(done))
    return 0


def gaps(*, every: bool, close: str | None, formats: Tables) -> int:
    """Look for gaps and print them, or close one."""
    formats.format()
    hub = Hub(hub_options(formats))
    if close is not None:
        gap = close_gap(hub, close)
        found = Gaps(gaps=(gap,), open=list_gaps(hub).open, logged=hub.config().settings.log.queries)
    else:
        bring_in_step(hub)
        complain_all(maintained_lines(maintain(hub)))
        found = gaps_and_unanswered(hub, every=every)
    present(formats, lambda: gaps_listing(found), lambda: gaps_text(found), document=found.model_dump_json(indent=2))
    if not found.logged:
        complain(OFF)
    elif close is None:
        if not found.gaps:
            complain("No gaps yet." if found.unanswered else "No gaps: nothing was asked in vain here.")
        complain(found.rule)
    return 0


def maintain_if_due(hub: Hub) -> None:
    """Look after the log if nobody did for a while, and say what that brought."""
    try:
        complain_all(maintained_lines(maintain(hub, at_most_every=TIDY_EVERY_SECONDS)))
    except KbhubError as error:  # it is no part of what was asked for
        complain(str(error))
