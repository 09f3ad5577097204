"""What `status` tells of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import QueryLogUnavailable
from kbhub.querylog.gaps import list_gaps
from kbhub.querylog.recording import log_of
from kbhub.reports import QuerySummary

if TYPE_CHECKING:
    from kbhub.hub import Hub

HOUR_SECONDS = 3600.0
TOP = 3
"""Gaps that are told; `kbhub gaps` lists them all."""


def summary(hub: Hub) -> QuerySummary:
    """Say what was asked in the last hour, and which gaps are open; reads what is there and finds nothing new."""
    logged = hub.config().settings.log.queries
    try:
        counts = log_of(hub).verdicts(hub.options.clock() - HOUR_SECONDS)
        gaps = list_gaps(hub)
    except QueryLogUnavailable:  # nothing that `status` is asked for
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
