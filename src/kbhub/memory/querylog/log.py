"""Showing and clearing the query log of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kbhub.errors import QueryLogUnavailable
from kbhub.index.querylog import QueryLog
from kbhub.memory.querylog.models import Cleared, LoggedQueries, LoggedQuery
from kbhub.memory.querylog.recording import flush, log_of, logs_folder
from kbhub.search.memory_facts import timestamp

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.querylog import Asked
    from kbhub.types import Mode, Verdict

SHOWN = 20
"""Default number of queries in a list."""


def show_log(hub: Hub, limit: int = SHOWN) -> LoggedQueries:
    """Return the latest queries of this project, newest first.

    Args:
        hub: hub of the workspace.
        limit: maximum number of queries.

    Raises:
        QueryLogUnavailable: the log cannot be read.
    """
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

    Hashes of forgotten promotions and closed gaps are kept, without their text, so that they do not come back.

    Raises:
        QueryLogUnavailable: a log cannot be written.
    """
    flush()
    logs = [log for log in (_all_logs(hub) if every_project else [log_of(hub)]) if log.exists()]
    return Cleared(queries=sum(log.clear() for log in logs), paths=tuple(log.path for log in logs))


def _all_logs(hub: Hub) -> list[QueryLog]:
    folder = logs_folder(hub)
    try:
        return [QueryLog(path) for path in sorted(folder.iterdir()) if path.suffix == ".db"]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise QueryLogUnavailable(folder, error.strerror or str(error)) from error


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
    )
