"""Gaps: recurring questions that nothing answers, until a document or a memory does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from kbhub.errors import UsageError
from kbhub.index.querylog import Topic
from kbhub.memory.facts import timestamp
from kbhub.querylog.answers import answer_anywhere
from kbhub.querylog.models import Gaps
from kbhub.querylog.recording import log_of
from kbhub.querylog.topics import topic_id, topic_key
from kbhub.reports import Gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog
    from kbhub.querylog.clusters import Cluster
    from kbhub.querylog.topics import Deadline, Topics

MOST_OPEN = 200
"""Open gaps of a project; nobody reads a longer list, and each is asked again by every maintenance."""

AGAIN = 5
"""Unanswered askings after which a gap that was answered is open again: as many as it took to find it."""

QUESTION_CHARACTERS = 300
"""Characters of a question that are kept."""


def find_gaps(
    hub: Hub, log: QueryLog, recurring: Sequence[Cluster], known: Topics, deadline: Deadline
) -> tuple[list[str], list[str]]:
    """Note the recurring questions that are mostly not answered, and are not now.

    A gap that was answered and goes on being asked in vain is opened again, and says so; one that the user closed is
    not.

    Args:
        hub: asks again.
        log: where gaps are kept.
        recurring: the clusters.
        known: the gaps that are known.
        deadline: when to stop.

    Returns:
        The questions of new gaps, and of those that are open again.
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
            new = _counted(_new(cluster, now), cluster)
            answer = answer_anywhere(hub, new.question)
            if answer.complete and not answer.strong and log.put(new):
                free -= 1
                opened.append(new.question)
    return opened, reopened


def close_answered(hub: Hub, log: QueryLog, deadline: Deadline) -> list[str]:
    """Ask open gaps again, and close those that something answers now; gives their questions."""
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
    """Give the open gaps, as they were found by the last maintenance.

    Args:
        hub: of the workspace.
        every: give those, too, that are answered or were closed.

    Raises:
        QueryLogUnavailable: the log cannot be read.
    """
    found = [topic for topic in log_of(hub).topics("gap") if topic.question]
    shown = [topic for topic in found if every or topic.state == "open"]
    shown.sort(key=lambda topic: (topic.state != "open", -topic.count, -topic.last, topic.id))
    return Gaps(
        gaps=tuple(map(described, shown)),
        open=sum(topic.state == "open" for topic in found),
        logged=hub.config().settings.log.queries,
    )


def close_gap(hub: Hub, name: str) -> Gap:
    """Close a gap for good.

    Args:
        hub: of the workspace.
        name: its id.

    Raises:
        UsageError: there is none of this id.
        QueryLogUnavailable: the log cannot be written.
    """
    log = log_of(hub)
    while True:
        gap = next((topic for topic in log.topics("gap") if topic.id == name.strip() and topic.question), None)
        if gap is None:
            raise UsageError(f"No gap {name!r} here. `kbhub gaps --all` lists them with their ids.")
        closed = gap if gap.state == "closed" else replace(gap, state="closed", since=hub.options.clock())
        if log.put(closed, before=gap.state):  # else maintenance changed it this moment
            return described(closed)


def described(topic: Topic) -> Gap:
    """Describe a gap for an answer."""
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


def _new(cluster: Cluster, now: float) -> Topic:
    key = topic_key(cluster.center.key)
    return Topic(topic_id("gap", key), "gap", key, cluster.center.subject, "open", now)


def _counted(gap: Topic, cluster: Cluster) -> Topic:
    question = cluster.center.subject[:QUESTION_CHARACTERS]
    return replace(gap, question=question, count=cluster.count, last=cluster.last, clients=cluster.clients)


def _asked_in_vain(hub: Hub, log: QueryLog, gap: Topic, cluster: Cluster) -> bool:
    if log.unanswered(cluster.keys, gap.since) < AGAIN:
        return False
    answer = answer_anywhere(hub, gap.question)
    return answer.complete and not answer.strong
