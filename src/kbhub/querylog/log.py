"""The log of a project: what is in it, and clearing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kbhub.errors import QueryLogUnavailable
from kbhub.index.querylog import QueryLog
from kbhub.memory.facts import timestamp
from kbhub.querylog.models import Cleared, LoggedQueries, LoggedQuery
from kbhub.querylog.recording import flush, log_of, logs_folder

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.querylog import Asked
    from kbhub.types import Mode, Verdict

SHOWN = 20
"""Queries of one list, unless it is asked for more."""


def show_log(hub: Hub, limit: int = SHOWN) -> LoggedQueries:
    """Give the latest queries of this project, newest first.

    Args:
        hub: of the workspace.
        limit: how many.

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
    """Forget the queries and gaps of this project, or of all.

    Which promoted memories were forgotten and which gaps were closed is kept, without their words, so that they do not
    come back.

    Raises:
        QueryLogUnavailable: a log cannot be written.
    """
    flush()
    logs = [log for log in (_every_log(hub) if every_project else [log_of(hub)]) if log.exists()]
    return Cleared(queries=sum(log.clear() for log in logs), paths=tuple(log.path for log in logs))


def _every_log(hub: Hub) -> list[QueryLog]:
    folder = logs_folder(hub)
    try:
        return [QueryLog(path) for path in sorted(folder.iterdir()) if path.suffix == ".db"]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise QueryLogUnavailable(folder, error.strerror or str(error)) from error


def _described(one: Asked) -> LoggedQuery:
    return LoggedQuery(
        asked=timestamp(one.at),
        text=one.text,
        mode=cast("Mode", one.mode),
        bases=one.bases,
        verdict=cast("Verdict | None", one.verdict),
        score=one.score,
        client=one.client,
        hits=one.hits,
        read=one.opened,
    )
