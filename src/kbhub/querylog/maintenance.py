"""Maintenance of a project's log: at quiet moments, by one process at a time, within bounded time."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from kbhub.embedding import PACKAGED_SHA256, packaged_embedder
from kbhub.errors import EmbedderError, MemoriesUnavailable, WriteRefused
from kbhub.index.querylog import ONCE_SECONDS
from kbhub.memory.facts import timestamp
from kbhub.memory.strength import DAY_SECONDS
from kbhub.querylog.answers import answer_anywhere
from kbhub.querylog.gaps import QUESTION_CHARACTERS, close_answered, find_gaps, list_gaps
from kbhub.querylog.models import Maintained, Unanswered
from kbhub.querylog.promotion import follow, may_promote, promote
from kbhub.querylog.recording import log_of
from kbhub.querylog.topics import Deadline, Topics

if TYPE_CHECKING:
    from kbhub.embedding import Embedder
    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog
    from kbhub.querylog.models import Gaps

log = logging.getLogger(__name__)

MOST_SECONDS = 10.0
"""Time that one takes at most, some hundred questions; the next one goes on."""

MOST_QUERIES = 100_000
"""Queries that are kept of a project, 30 MB; the oldest give way."""

MOST_DISTINCT = 10_000
"""Distinct queries that are compared, the latest ones: issue "Memories"."""

MOST_UNANSWERED = 20
"""Questions that are shown before they are gaps; each is asked again first."""

_DONE = "maintained"


def maintain(hub: Hub, *, at_most_every: float = 0.0, seconds: float = MOST_SECONDS) -> Maintained:
    """Forget old queries, find what is asked again and again, and bring gaps and promoted memories up to date.

    The indexes are taken as they are. While queries are not logged, old ones are forgotten and nothing else is done.

    Args:
        hub: of the workspace.
        at_most_every: seconds since the last maintenance before which nothing is done.
        seconds: how long it may take.

    Raises:
        QueryLogUnavailable: the log cannot be read or written.
    """
    settings, queries, now = hub.config().settings, log_of(hub), hub.options.clock()
    if not queries.exists():
        return Maintained()
    lock = queries.lock()
    if lock is None:  # another process is at it
        return Maintained()
    with lock:
        if 0 <= now - queries.moment(_DONE) < at_most_every:
            return Maintained()
        queries.note(_DONE, now)
        expired = queries.expire(now - settings.log.days * DAY_SECONDS, MOST_QUERIES)
        if not settings.log.queries:
            return Maintained(ran=True, expired=expired)
        return _maintained(hub, queries, Deadline(seconds)).model_copy(update={"expired": expired})


def _maintained(hub: Hub, queries: QueryLog, deadline: Deadline) -> Maintained:
    # numpy takes 0.1 s to load, and who only notes queries needs none.
    from kbhub.querylog.clusters import SIMILARITY, clusters  # noqa: PLC0415

    embedder = _packaged(hub)
    distinct = queries.distinct(MOST_DISTINCT)
    recurring = clusters(distinct, embedder.embed([one.subject for one in distinct])) if distinct else []
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
    """Give the gaps, and the questions that may become some.

    Args:
        hub: of the workspace.
        every: give those, too, that are answered or were closed.

    Raises:
        QueryLogUnavailable: the log cannot be read.
    """
    # As in `_maintained`.
    from kbhub.querylog.clusters import LEAST, SIMILARITY, clusters  # noqa: PLC0415

    found, queries, embedder = list_gaps(hub, every=every), log_of(hub), _packaged(hub)
    distinct = queries.distinct(MOST_DISTINCT) if found.logged and queries.exists() else []
    known = Topics(queries, "gap", embedder.embed, SIMILARITY)
    asked = clusters(distinct, embedder.embed([one.subject for one in distinct]), least=1) if distinct else []
    below = (one for one in asked if one.count < LEAST and one.mostly("none") and known.about(one) is None)
    deadline = Deadline(MOST_SECONDS)
    still = (one for one in below if not deadline.over() and not answer_anywhere(hub, one.center.subject).strong)
    unanswered = tuple(
        Unanswered(
            question=one.center.subject[:QUESTION_CHARACTERS],
            count=one.count,
            needed=LEAST - one.count,
            last_asked=timestamp(one.last),
            clients=one.clients,
        )
        for one in islice(still, MOST_UNANSWERED)
    )
    rule = (
        f"A question is a gap once it was asked {LEAST} times, in any words, and more than half of its answers had the "
        f"verdict `none`; what a client asks again within {ONCE_SECONDS // 60} minutes counts once."
    )
    return found.model_copy(update={"unanswered": unanswered, "rule": rule})


def _packaged(hub: Hub) -> Embedder:
    """Give the embedder whose similarities are known; the hub's, which may be loaded, if it is that one."""
    try:
        embedder = hub.embedder()
    except EmbedderError:
        embedder = None
    return embedder if embedder and embedder.fingerprint == PACKAGED_SHA256 else packaged_embedder()
