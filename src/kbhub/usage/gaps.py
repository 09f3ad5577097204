"""The query log as it is shown; gaps, recurring questions without an answer; and what finds and closes them."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.errors import QueryLogUnavailable, UsageError
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.side_files import ONCE_SECONDS, Distinct, LoggedGap, QueryLog
from kbhub.models.embedding import packaged_embedder
from kbhub.reading.reports import Gap, QuerySummary
from kbhub.search.document_signals import timestamp
from kbhub.search.search import search
from kbhub.types import Hit, Mode, Query, Verdict
from kbhub.usage.log import flush, log_of, log_path
from kbhub.values import DAY_SECONDS, struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 5
"""Minimum number of times that a question was asked to be a gap: issue "Memories"."""

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
        (), description="Questions that are not gaps yet, most frequent first, then latest."
    )
    rule: str = Field("", description="What makes a question a gap.")


class Maintained(Model):
    """What maintenance did with the log of a project."""

    ran: bool = Field(False, description="Whether it ran; false if another process was running it, or it was not due.")
    expired: int = Field(0, description="Queries deleted because they were too old.")
    opened: tuple[str, ...] = Field((), description="New gaps.")
    reopened: tuple[str, ...] = Field((), description="Gaps that had been answered and are open again.")
    answered: tuple[str, ...] = Field((), description="Gaps that are answered now.")


def show_log(hub: Hub, limit: int = SHOWN) -> LoggedQueries:
    """Return the latest queries of this project, newest first."""
    log, settings, queries = log_of(hub), hub.config().settings.log, list[LoggedQuery]()
    for query in log.recent(limit):
        said = {name: getattr(query, name) for name in ("text", "mode", "bases", "verdict", "score", "client", "hits")}
        seconds = None if query.took is None else round(query.took, 4)
        queries.append(LoggedQuery(asked=timestamp(query.at), read=query.opened, seconds=seconds, **said))
    return LoggedQueries(
        queries=tuple(queries), total=log.count(), logged=settings.queries, days=settings.days, path=log.path
    )


def clear_log(hub: Hub, *, every_project: bool = False) -> Cleared:
    """Delete the queries and gaps of this project, or of all, but for the hashes of closed gaps."""
    flush()
    every = map(QueryLog, sorted(log_path(hub).parent.glob("*.db"))) if every_project else [log_of(hub)]
    logs = [log for log in every if log.exists()]
    return Cleared(queries=sum(log.clear() for log in logs), paths=tuple(log.path for log in logs))


MOST_OPEN = 200
"""Limit of open gaps per project; longer lists are not read, and each maintenance searches for all of them."""

AGAIN = 5
"""Unanswered queries after which an answered gap is reopened: as many as it took to find it."""

QUESTION_CHARACTERS = 300

KEY_DIGITS = 32
"""Hex digits of a question's hash."""

ID_CHARACTERS = 8
"""40 bits, as for memories."""

SIMILARITY = 0.85
"""Cosine above which two queries ask the same: issue "Memories"."""

BLOCK = 256
"""Queries compared with all others at a time: 10 MB of similarities for 10,000 queries."""


@struct
class Cluster:
    """Queries that ask the same."""

    leader: Distinct
    """The most frequent."""
    vector: NDArray[np.float32]
    """Of the leader, shape (dimensions,)."""
    keys: tuple[str, ...]
    """Of all queries, the most frequent first."""
    count: int
    """How often they were asked."""
    last: float
    """When one of them was last asked, seconds since the epoch."""
    clients: tuple[str, ...]
    """Who asked them."""
    unanswered: bool
    """Whether more than half of the judged answers had the verdict `none`."""


def clusters(queries: Sequence[Distinct], vectors: NDArray[np.float32], least: int) -> list[Cluster]:
    """Group queries that ask the same, most frequent first: each joins the most frequent leader that it is similar to.

    The result does not depend on the order of the queries. `vectors` has the shape (queries, dimensions), each of
    length 1, or all zeros (similar to nothing) for none. Clusters asked fewer than `least` times are left out.
    """
    # numpy takes 0.1 s to load, and logging queries does not need it.
    import numpy as np  # noqa: PLC0415

    order = sorted(range(len(queries)), key=lambda number: (-queries[number].count, queries[number].key))
    queries, vectors = [queries[number] for number in order], vectors[order]
    leaders = np.full(len(vectors), -1, np.int64)
    for start in range(0, len(vectors), BLOCK):
        free = start + np.flatnonzero(leaders[start : start + BLOCK] < 0)
        near = vectors[free] @ vectors.T > SIMILARITY
        for number, row in zip(free.tolist(), near, strict=True):
            if leaders[number] < 0:
                leaders[row & (leaders < 0)] = number
                leaders[number] = number
    groups = []
    for leader in np.unique(leaders):
        members = [queries[number] for number in np.flatnonzero(leaders == leader)]
        if (count := sum(query.count for query in members)) < least:
            continue
        keys, last = tuple(query.key for query in members), max(query.last for query in members)
        clients = tuple(sorted({client for query in members for client in query.clients}))
        unanswered = sum(query.none for query in members) > sum(query.strong + query.weak for query in members)
        groups.append(Cluster(queries[leader], vectors[leader], keys, count, last, clients, unanswered))
    return sorted(groups, key=lambda cluster: (-cluster.count, -cluster.last, cluster.leader.key))


class KnownGaps:
    """The gaps in a log."""

    def __init__(self, log: QueryLog) -> None:
        self.gaps = log.gaps()
        self._vectors = packaged_embedder().embed([gap.question for gap in self.gaps]) if self.gaps else None

    def about(self, cluster: Cluster) -> LoggedGap | None:
        """Return the gap of a cluster, the nearest if several match, or None if it is new."""
        keys = set(map(_hashed, cluster.keys))
        same = next((gap for gap in self.gaps if gap.key in keys), None)
        if same or self._vectors is None:
            return same
        near = self._vectors @ cluster.vector
        nearest = int(near.argmax())
        return self.gaps[nearest] if near[nearest] > SIMILARITY else None


def _hashed(key: str) -> str:
    """Hash the key of a query, to recognise it after its text was deleted."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:KEY_DIGITS]


def _recurring(log: QueryLog, least: int = LEAST) -> list[Cluster]:
    """Return the queries that ask the same, most frequent first."""
    if distinct := log.distinct(MOST_DISTINCT):
        return clusters(distinct, packaged_embedder().embed([query.subject for query in distinct]), least)
    return []


def _answer(hub: Hub, question: str) -> tuple[Hit | None, bool]:
    """Return the hit that answers a question now, and whether it certainly has none: all could be searched."""
    result = search(hub, Query(text=question, limit=1))
    hit = result.hits[0] if result.hits and result.verdict == "strong" else None
    return hit, hit is None and bool(result.searched) and not result.skipped


def find_gaps(hub: Hub, log: QueryLog, deadline: float) -> tuple[list[str], list[str]]:
    """Record recurring questions that mostly had no answer and still have none; return those of new and reopened gaps.

    An answered gap that is still asked in vain is reopened; one that the user closed is not.
    """
    opened, reopened, known = [], [], KnownGaps(log)
    free = MOST_OPEN - sum(gap.state == "open" for gap in known.gaps)
    now = hub.options.clock()
    for cluster in _recurring(log):
        if time.monotonic() > deadline:
            break
        gap = known.about(cluster)
        if gap is not None:
            counted = _counted(gap, cluster)
            again = gap.state == "answered" and log.unanswered(cluster.keys, gap.since) >= AGAIN
            if again and _answer(hub, counted.question)[1]:
                counted = replace(counted, state="open", since=now, reopened=now)
                reopened.append(counted.question)
            log.put(counted, before=gap.state)
        elif free > 0 and cluster.unanswered:
            key = _hashed(cluster.leader.key)
            id_ = base64.b32encode(hashlib.sha256(key.encode()).digest())[:ID_CHARACTERS].decode("ascii").lower()
            new = _counted(LoggedGap(id_, key, cluster.leader.subject, "open", now), cluster)
            if _answer(hub, new.question)[1] and log.put(new):
                free -= 1
                opened.append(new.question)
    return opened, reopened


def close_answered(hub: Hub, log: QueryLog, deadline: float) -> list[str]:
    """Search for open gaps again and close those with an answer; return their questions."""
    answered = []
    for gap in [gap for gap in log.gaps() if gap.state == "open"]:
        if time.monotonic() > deadline:
            break
        if hit := _answer(hub, gap.question)[0]:
            closed = replace(gap, state="answered", since=hub.options.clock(), ref=hit.ref)
            if log.put(closed, before="open"):
                answered.append(gap.question)
    return answered


def list_gaps(hub: Hub, *, every: bool = False) -> Gaps:
    """Return the open gaps, or `every` one, as of the last maintenance."""
    gaps = [gap for gap in log_of(hub).gaps() if gap.question]
    shown = [gap for gap in gaps if every or gap.state == "open"]
    shown.sort(key=lambda gap: (gap.state != "open", -gap.count, -gap.last, gap.id))
    return Gaps(
        gaps=tuple(map(described, shown)),
        open=sum(gap.state == "open" for gap in gaps),
        logged=hub.config().settings.log.queries,
    )


def close_gap(hub: Hub, name: str) -> Gap:
    """Close a gap for good, by its id; raise `UsageError` if there is none."""
    log = log_of(hub)
    while True:
        gap = next((one for one in log.gaps() if one.id == name.strip() and one.question), None)
        if gap is None:
            raise UsageError(f"No gap {name!r} here. `kbhub gaps --all` lists them with their ids.")
        closed = gap if gap.state == "closed" else replace(gap, state="closed", since=hub.options.clock())
        if log.put(closed, before=gap.state):  # otherwise maintenance just changed it: try again
            return described(closed)


def described(gap: LoggedGap) -> Gap:
    """Build the public description of a gap."""
    said = {name: getattr(gap, name) for name in ("id", "question", "count", "clients", "state")}
    reopened = None if gap.reopened is None else timestamp(gap.reopened)
    times = {"last_asked": timestamp(gap.last), "since": timestamp(gap.since), "reopened": reopened}
    return Gap(answer=gap.ref or None, **times, **said)


def _counted(gap: LoggedGap, cluster: Cluster) -> LoggedGap:
    question = cluster.leader.subject[:QUESTION_CHARACTERS]
    return replace(gap, question=question, count=cluster.count, last=cluster.last, clients=cluster.clients)


def summary(hub: Hub) -> QuerySummary:
    """Summarise the queries of the last hour and the known open gaps."""
    logged = hub.config().settings.log.queries
    try:
        counts = log_of(hub).verdicts(hub.options.clock() - DAY_SECONDS / 24)
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
        top_gaps=gaps.gaps[:3],
    )


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
    """Expire old queries, find recurring ones, and update the gaps, within a limit of `seconds`.

    Indexes are used as they are. If query logging is off, only old queries are expired. Nothing is done within
    `at_most_every` seconds of the last run.
    """
    settings, queries, now = hub.config().settings, log_of(hub), hub.options.clock()
    if not queries.exists() or (lock := queries.lock()) is None:  # another process is running it
        return Maintained()
    with lock:
        if 0 <= now - queries.moment(_DONE) < at_most_every:
            return Maintained()
        queries.note(_DONE, now)
        expired = queries.expire(now - settings.log.days * DAY_SECONDS, MOST_QUERIES)
        if not settings.log.queries:
            return Maintained(ran=True, expired=expired)
        deadline = time.monotonic() + seconds
        answered = close_answered(hub, queries, deadline)
        opened, reopened = find_gaps(hub, queries, deadline)
    return Maintained(
        ran=True, expired=expired, opened=tuple(opened), reopened=tuple(reopened), answered=tuple(answered)
    )


def gaps_and_unanswered(hub: Hub, *, every: bool = False) -> Gaps:
    """Return the open gaps, or `every` one, and the questions that may become gaps."""
    gaps, queries = list_gaps(hub, every=every), log_of(hub)
    known = KnownGaps(queries)
    recurring = _recurring(queries, least=1) if gaps.logged and queries.exists() else []
    deadline = time.monotonic() + MOST_SECONDS
    candidates = (
        cluster
        for cluster in recurring
        if cluster.count < LEAST
        and cluster.unanswered
        and known.about(cluster) is None
        and time.monotonic() < deadline
        and not _answer(hub, cluster.leader.subject)[0]
    )
    unanswered = tuple(
        Unanswered(
            question=cluster.leader.subject[:QUESTION_CHARACTERS],
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
