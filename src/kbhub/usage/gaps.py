"""Gaps, recurring questions without an answer; and the maintenance that finds, promotes and closes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, cast

from kbhub.errors import EmbedderError, MemoriesUnavailable, QueryLogUnavailable, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.side_files import ONCE_SECONDS, QueryLog, Topic
from kbhub.models.embedding import PACKAGED_SHA256, Embedder, packaged_embedder
from kbhub.reading.reports import Gap, QuerySummary
from kbhub.search.memory_boost import timestamp
from kbhub.usage.log import log_of
from kbhub.usage.promotion import follow, may_promote, promote
from kbhub.usage.questions import TimeLimit, Topics, answer_anywhere, topic_id, topic_key
from kbhub.usage.reports import Gaps, Maintained, Unanswered
from kbhub.values import DAY_SECONDS

if TYPE_CHECKING:
    from kbhub.usage.clusters import Cluster

MOST_OPEN = 200
"""Limit of open gaps per project; longer lists are not read, and each maintenance searches for all of them."""

AGAIN = 5
"""Unanswered queries after which an answered gap is reopened: as many as it took to find it."""

QUESTION_CHARACTERS = 300
"""Length to which questions are cut."""


HOUR_SECONDS = 3600.0

TOP = 3
"""Number of gaps in the summary; `kbhub gaps` lists all."""


def find_gaps(
    hub: Hub, log: QueryLog, recurring: Sequence[Cluster], known: Topics, deadline: TimeLimit
) -> tuple[list[str], list[str]]:
    """Record recurring questions that mostly had no answer and still have none; return those of new and reopened gaps.

    An answered gap that is still asked in vain is reopened; one that the user closed is not.
    """
    opened, reopened = [], []
    free = MOST_OPEN - sum(topic.state == "open" for topic in known.topics)
    now = hub.options.clock()
    for cluster in recurring:
        if deadline.over():
            break
        gap = known.about(cluster)
        if gap is not None:
            counted = _counted(gap, cluster)
            if gap.state == "answered" and _asked_in_vain(hub, log, counted, cluster):
                counted = replace(counted, state="open", since=now, reopened=now)
                reopened.append(counted.question)
            log.put(counted, before=gap.state)
        elif free > 0 and cluster.mostly("none"):
            key = topic_key(cluster.center.key)
            new = _counted(Topic(topic_id("gap", key), "gap", key, cluster.center.subject, "open", now), cluster)
            answer = answer_anywhere(hub, new.question)
            if answer.complete and not answer.strong and log.put(new):
                free -= 1
                opened.append(new.question)
    return opened, reopened


def close_answered(hub: Hub, log: QueryLog, deadline: TimeLimit) -> list[str]:
    """Search for open gaps again and close those with an answer; return their questions."""
    answered = []
    for gap in log.topics("gap"):
        if gap.state != "open":
            continue
        if deadline.over():
            break
        answer = answer_anywhere(hub, gap.question)
        if answer.strong and answer.hit:
            closed = replace(gap, state="answered", since=hub.options.clock(), ref=answer.hit.ref)
            if log.put(closed, before="open"):
                answered.append(gap.question)
    return answered


def list_gaps(hub: Hub, *, every: bool = False) -> Gaps:
    """Return the open gaps, or `every` one, as of the last maintenance."""
    gaps = [topic for topic in log_of(hub).topics("gap") if topic.question]
    shown = [topic for topic in gaps if every or topic.state == "open"]
    shown.sort(key=lambda topic: (topic.state != "open", -topic.count, -topic.last, topic.id))
    return Gaps(
        gaps=tuple(map(described, shown)),
        open=sum(topic.state == "open" for topic in gaps),
        logged=hub.config().settings.log.queries,
    )


def close_gap(hub: Hub, name: str) -> Gap:
    """Close a gap for good, by its id; raise `UsageError` if there is none."""
    log = log_of(hub)
    while True:
        gap = next((topic for topic in log.topics("gap") if topic.id == name.strip() and topic.question), None)
        if gap is None:
            raise UsageError(f"No gap {name!r} here. `kbhub gaps --all` lists them with their ids.")
        closed = gap if gap.state == "closed" else replace(gap, state="closed", since=hub.options.clock())
        if log.put(closed, before=gap.state):  # otherwise maintenance just changed it: try again
            return described(closed)


def described(topic: Topic) -> Gap:
    """Build the public description of a gap."""
    return Gap(
        id=topic.id,
        question=topic.question,
        count=topic.count,
        last_asked=timestamp(topic.last),
        clients=topic.clients,
        state=cast("Literal['open', 'answered', 'closed']", topic.state),
        since=timestamp(topic.since),
        answer=topic.ref or None,
        reopened=timestamp(topic.reopened) if topic.reopened is not None else None,
    )


def _counted(gap: Topic, cluster: Cluster) -> Topic:
    question = cluster.center.subject[:QUESTION_CHARACTERS]
    return replace(gap, question=question, count=cluster.count, last=cluster.last, clients=cluster.clients)


def _asked_in_vain(hub: Hub, log: QueryLog, gap: Topic, cluster: Cluster) -> bool:
    if log.unanswered(cluster.keys, gap.since) < AGAIN:
        return False
    answer = answer_anywhere(hub, gap.question)
    return answer.complete and not answer.strong


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
    from kbhub.usage.clusters import SIMILARITY, clusters  # noqa: PLC0415

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
    from kbhub.usage.clusters import LEAST, SIMILARITY, clusters  # noqa: PLC0415

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
