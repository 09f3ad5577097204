"""The part of `status` about queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import QueryLogUnavailable
from kbhub.memory.querylog.gaps import list_gaps
from kbhub.memory.querylog.recording import log_of
from kbhub.reading.reports import QuerySummary

if TYPE_CHECKING:
    from kbhub.hub import Hub

HOUR_SECONDS = 3600.0
TOP = 3
"""Number of gaps in the summary; `kbhub gaps` lists all."""


def summary(hub: Hub) -> QuerySummary:
    """Summarise the queries of the last hour and the known open gaps."""
    logged = hub.config().settings.log.queries
    try:
        counts = log_of(hub).verdicts(hub.options.clock() - HOUR_SECONDS)
        gaps = list_gaps(hub)
    except QueryLogUnavailable:  # `status` works without it
        return QuerySummary(logged=logged)
    return QuerySummary(
        logged=logged,
        asked=sum(counts.values()),
        strong=counts.get("strong", 0),
        weak=counts.get("weak", 0),
        none=counts.get("none", 0),
        gaps=gaps.open,
        top_gaps=gaps.gaps[:TOP],
    )
