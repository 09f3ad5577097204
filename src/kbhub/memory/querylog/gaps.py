"""Gaps: recurring questions without an answer, until a document or memory answers them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from kbhub.errors import QueryLogUnavailable, UsageError
from kbhub.index.logged import Topic
from kbhub.memory.querylog.answers import answer_anywhere
from kbhub.memory.querylog.log import Gaps
from kbhub.memory.querylog.recorder import log_of
from kbhub.memory.querylog.topics import topic_id, topic_key
from kbhub.reading.reports import Gap, QuerySummary
from kbhub.search.memory_boost import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog
    from kbhub.memory.querylog.clusters import Cluster
    from kbhub.memory.querylog.topics import TimeLimit, Topics


MOST_OPEN = 200
"""Limit of open gaps per project; nobody reads a longer list, and each maintenance searches for all of them."""

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
