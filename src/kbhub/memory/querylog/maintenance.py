"""Maintenance of a project's log: when idle, in one process at a time, within a time limit."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError, MemoriesUnavailable, WriteRefused
from kbhub.index.querylog import ONCE_SECONDS
from kbhub.memory.querylog.answers import answer_anywhere
from kbhub.memory.querylog.gaps import QUESTION_CHARACTERS, close_answered, find_gaps, list_gaps
from kbhub.memory.querylog.log import Maintained, Unanswered
from kbhub.memory.querylog.promotion import follow, may_promote, promote
from kbhub.memory.querylog.recorder import log_of
from kbhub.memory.querylog.topics import TimeLimit, Topics
from kbhub.models.embedding import PACKAGED_SHA256, packaged_embedder
from kbhub.search.memory_boost import timestamp
from kbhub.values import DAY_SECONDS

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog
    from kbhub.memory.querylog.log import Gaps
    from kbhub.models.embedding import Embedder

log = logging.getLogger(__name__)

MOST_SECONDS = 10.0
"""Time limit of one run, enough for some hundred questions; the next run continues."""

MOST_QUERIES = 100_000
"""Limit of queries kept per project, 30 MB; the oldest are dropped."""

MOST_DISTINCT = 10_000
"""Limit of distinct queries that are clustered, latest first: issue "Memories"."""

MOST_UNANSWERED = 20
"""Limit of unanswered questions shown before they are gaps; each is searched for again first."""

_DONE = "maintained"


def maintain(hub: Hub, *, at_most_every: float = 0.0, seconds: float = MOST_SECONDS) -> Maintained:
    """Expire old queries, find recurring ones, and update gaps and promoted memories, within a limit of `seconds`.

    Indexes are used as they are. If query logging is off, only old queries are expired. Nothing is done within
    `at_most_every` seconds of the last run.
    """
    settings, queries, now = hub.config().settings, log_of(hub), hub.options.clock()
    if not queries.exists():
        return Maintained()
    lock = queries.lock()
    if lock is None:  # another process is running it
        return Maintained()
    with lock:
        if 0 <= now - queries.moment(_DONE) < at_most_every:
            return Maintained()
        queries.note(_DONE, now)
        expired = queries.expire(now - settings.log.days * DAY_SECONDS, MOST_QUERIES)
        if not settings.log.queries:
            return Maintained(ran=True, expired=expired)
        return _maintained(hub, queries, TimeLimit(seconds)).model_copy(update={"expired": expired})


def _maintained(hub: Hub, queries: QueryLog, deadline: TimeLimit) -> Maintained:
    # numpy takes 0.1 s to load, and logging queries does not need it.
    from kbhub.memory.querylog.clusters import SIMILARITY, clusters  # noqa: PLC0415

    embedder = _packaged(hub)
    distinct = queries.distinct(MOST_DISTINCT)
    recurring = clusters(distinct, embedder.embed([query.subject for query in distinct])) if distinct else []
    answered = close_answered(hub, queries, deadline)
    gaps = Topics(queries, "gap", embedder.embed, SIMILARITY)
    opened, reopened = find_gaps(hub, queries, recurring, gaps, deadline)
    promoted: list[str] = []
    followed: list[str] = []
    withdrawn: list[str] = []
    if may_promote(hub):
        try:
            followed, withdrawn = follow(hub, queries, deadline)
            promotions = Topics(queries, "promotion", embedder.embed, SIMILARITY)
            promoted = promote(hub, queries, recurring, promotions, deadline)
        except (MemoriesUnavailable, WriteRefused) as error:
            log.info("%s", error)
    return Maintained(
        ran=True,
        recurring=len(recurring),
        opened=tuple(opened),
        reopened=tuple(reopened),
        answered=tuple(answered),
        promoted=tuple(promoted),
        followed=tuple(followed),
        withdrawn=tuple(withdrawn),
        complete=deadline.met,
    )


def gaps_and_unanswered(hub: Hub, *, every: bool = False) -> Gaps:
    """Return the open gaps, or `every` one, and the questions that may become gaps."""
    # As in `_maintained`.
    from kbhub.memory.querylog.clusters import LEAST, SIMILARITY, clusters  # noqa: PLC0415

    gaps, queries, embedder = list_gaps(hub, every=every), log_of(hub), _packaged(hub)
    distinct = queries.distinct(MOST_DISTINCT) if gaps.logged and queries.exists() else []
    known = Topics(queries, "gap", embedder.embed, SIMILARITY)
    recurring = clusters(distinct, embedder.embed([query.subject for query in distinct]), least=1) if distinct else []
    deadline = TimeLimit(MOST_SECONDS)
    candidates = (
        cluster
        for cluster in recurring
        if cluster.count < LEAST
        and cluster.mostly("none")
        and known.about(cluster) is None
        and not deadline.over()
        and not answer_anywhere(hub, cluster.center.subject).strong
    )
    unanswered = tuple(
        Unanswered(
            question=cluster.center.subject[:QUESTION_CHARACTERS],
            count=cluster.count,
            needed=LEAST - cluster.count,
            last_asked=timestamp(cluster.last),
            clients=cluster.clients,
        )
        for cluster in islice(candidates, MOST_UNANSWERED)
    )
    rule = (
        f"A question becomes a gap after {LEAST} times, in any words, if more than half of its answers had the "
        f"verdict `none`. Repeats by a client within {ONCE_SECONDS // 60} minutes count once."
    )
    return gaps.model_copy(update={"unanswered": unanswered, "rule": rule})


def _packaged(hub: Hub) -> Embedder:
    """Return the embedder that `SIMILARITY` was chosen for; the hub's, which may be loaded, if it is the same."""
    try:
        embedder = hub.embedder()
    except EmbedderError:
        embedder = None
    return embedder if embedder and embedder.fingerprint == PACKAGED_SHA256 else packaged_embedder()
