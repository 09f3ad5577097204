"""Reports on the query log: queries, gaps, what maintenance did."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pydantic import Field

from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.side_files import Asked, QueryLog
from kbhub.reading.reports import Gap
from kbhub.search.document_signals import timestamp
from kbhub.types import Mode, Verdict
from kbhub.usage.log import flush, log_of, logs_folder

SIMILARITY = 0.85
"""Cosine above which two queries ask the same: issue "Memories"."""

LEAST = 5
"""Minimum number of times that a question was asked to be a gap. Same source."""

SHOWN = 20


class LoggedQuery(Model):
    """A query and its results."""

    asked: str = Field(description="Time (ISO 8601, UTC).")
    text: str = Field(description="The query.")
    mode: Mode = Field(description="The mode that was used.")
    bases: tuple[str, ...] = Field((), description="Bases that were searched.")
    verdict: Verdict | None = Field(None, description="Whether they cover the query; null if not judged.")
    score: float | None = Field(None, description="Score of the best hit.")
    client: str = Field(description="Name of the MCP client, or `user`.")
    hits: tuple[str, ...] = Field((), description="Refs of the best hits.")
    read: tuple[str, ...] = Field((), description="Refs of hits that were read within half an hour.")
    seconds: float | None = Field(None, description="Duration of the search, if measured.")


class LoggedQueries(Model):
    """The log of a project."""

    queries: tuple[LoggedQuery, ...] = Field((), description="Newest first.")
    total: int = Field(0, description="Number of queries in the log.")
    logged: bool = Field(description="Whether queries are logged.")
    days: int = Field(description="How long queries are kept.")
    path: Path = Field(description="The file.")


class Cleared(Model):
    """What `kbhub dev log clear` removed."""

    queries: int = Field(description="Number of deleted queries.")
    paths: tuple[Path, ...] = Field((), description="The log files.")


class Unanswered(Model):
    """A question that nothing answered, and that was not asked often enough to be a gap."""

    question: str = Field(description="The most frequent wording.")
    count: int = Field(description="How often it was asked, in any words.")
    needed: int = Field(description="How many more times it must be asked to become a gap.")
    last_asked: str = Field(description="When it was last asked (ISO 8601, UTC).")
    clients: tuple[str, ...] = Field((), description="Who asked.")


class Gaps(Model):
    """Recurring questions that nothing answers, or answered."""

    gaps: tuple[Gap, ...] = Field((), description="Open gaps first, most frequent first.")
    open: int = Field(0, description="Number of open gaps.")
    logged: bool = Field(description="Whether queries are logged.")
    unanswered: tuple[Unanswered, ...] = Field(
        (), description=("Questions that are not gaps yet, most frequent first, then latest.")
    )
    rule: str = Field("", description="What makes a question a gap.")


class Maintained(Model):
    """What maintenance did with the log of a project."""

    ran: bool = Field(
        False, description=("Whether it ran; false if another process was running it, or it was not due.")
    )
    expired: int = Field(0, description="Queries deleted because they were too old.")
    opened: tuple[str, ...] = Field((), description="New gaps.")
    reopened: tuple[str, ...] = Field((), description="Gaps that had been answered and are open again.")
    answered: tuple[str, ...] = Field((), description="Gaps that are answered now.")


def show_log(hub: Hub, limit: int = SHOWN) -> LoggedQueries:
    """Return the latest queries of this project, newest first."""
    log, settings = log_of(hub), hub.config().settings.log
    return LoggedQueries(
        queries=tuple(map(_described, log.recent(limit))),
        total=log.count(),
        logged=settings.queries,
        days=settings.days,
        path=log.path,
    )


def clear_log(hub: Hub, *, every_project: bool = False) -> Cleared:
    """Delete the queries and gaps of this project, or of all.

    Hashes of closed gaps are kept, without their text, so that they do not come back.
    """
    flush()
    every = map(QueryLog, sorted(logs_folder(hub).glob("*.db"))) if every_project else [log_of(hub)]
    logs = [log for log in every if log.exists()]
    return Cleared(queries=sum(log.clear() for log in logs), paths=tuple(log.path for log in logs))


def _described(query: Asked) -> LoggedQuery:
    return LoggedQuery(
        asked=timestamp(query.at),
        text=query.text,
        mode=cast("Mode", query.mode),
        bases=query.bases,
        verdict=cast("Verdict | None", query.verdict),
        score=query.score,
        client=query.client,
        hits=query.hits,
        read=query.opened,
        seconds=None if query.took is None else round(query.took, 4),
    )
