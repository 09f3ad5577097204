"""Promotion: a recurring question that a document answers becomes a memory that refers to it, and follows it.

Nothing of the document is copied: the memory is the question, in the words in which it was asked, and the place of the
answer. So a repository that was cloned from anywhere gets no text of its own into what is remembered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, MemoryNotFound, UsageError, WriteRefused
from kbhub.index.querylog import Topic
from kbhub.memory.changing import bring_in_step, rewrite
from kbhub.memory.forgetting import forget
from kbhub.memory.known import active_shelves, known
from kbhub.memory.remember import remember
from kbhub.memory.store import read
from kbhub.querylog.answers import answer_in_documents, digest, is_known, target_of, text_at
from kbhub.querylog.recording import key_of
from kbhub.querylog.topics import topic_id, topic_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.hub import Hub
    from kbhub.index.querylog import QueryLog, State
    from kbhub.memory.known import Known
    from kbhub.querylog.clusters import Cluster
    from kbhub.querylog.topics import Deadline, Topics

MOST_PROMOTED = 50
"""Promoted memories of a project: what is asked most. They are pointers; more would crowd out what was learned."""

QUESTION_CHARACTERS = 200
"""Characters of a question that is promoted; a longer text is pasted rather than asked."""

CLIENT = "kbhub"
"""Who remembers what is promoted."""

_COVERED = ("promoted", "forgotten", "own")
"""States of a promotion that keep its question from being promoted again."""


def may_promote(hub: Hub) -> bool:
    """Whether the settings allow it, and there is a project to promote for."""
    settings = hub.config().settings
    return settings.memory.enabled and not settings.read_only and hub.discovery().workspace.directory is not None


def promoted_text(question: str, target: str) -> str:
    """Give the text of a promoted memory."""
    return f"{question}\n\nThe answer is in `{target}`."


def promote(hub: Hub, log: QueryLog, recurring: Sequence[Cluster], topics: Topics, deadline: Deadline) -> list[str]:
    """Remember where the recurring questions are answered that mostly were, and are now.

    Args:
        hub: asks again, and remembers.
        log: where promotions are noted.
        recurring: the clusters, the most asked first.
        topics: the promotions that are known.
        deadline: when to stop.

    Returns:
        The questions.

    Raises:
        MemoriesUnavailable: nothing can be remembered.
    """
    done: list[str] = []
    free = MOST_PROMOTED - sum(topic.state in ("promoted", "own") for topic in topics.topics)
    for cluster in recurring:
        if free <= len(done) or deadline.over():
            break
        before = topics.about(cluster)
        question = _plain(cluster.center.subject)
        if not cluster.mostly("strong") or len(question) > QUESTION_CHARACTERS or (before and before.state in _COVERED):
            continue
        answer = answer_in_documents(hub, question)
        target = target_of(hub, answer.hit) if answer.strong and answer.hit else None
        if target is None:
            continue
        try:
            text = promoted_text(question, target)
            memory = remember(hub, text, scope="project", client=CLIENT, source="promoted", refers=target).memory
        except UsageError:  # a question that cannot be a memory's text
            continue
        key = before.key if before else topic_key(cluster.center.key)
        topic = Topic(topic_id("promotion", key), "promotion", key, question, "promoted", hub.options.clock())
        topic = replace(topic, count=cluster.count, last=cluster.last, ref=target, memory=memory.id)
        log.put(replace(topic, digest=digest(text_at(hub, target) or "")), before=before.state if before else None)
        done.append(question)
    return done


def follow(hub: Hub, log: QueryLog, deadline: Deadline) -> tuple[list[str], list[str]]:
    """Look after promoted memories: let them name the place of the answer as it is now, and withdraw those without one.

    One that the user forgot is noted as such; one that the user changed is the user's, and is left alone.

    Args:
        hub: of the workspace.
        log: where promotions are noted.
        deadline: when to stop.

    Returns:
        The questions of memories that name another place now, and of those that were withdrawn.
    """
    try:
        memories = {one.facts.id: one for shelf in active_shelves(hub, "project") for one in known(hub, shelf)}
    except BaseUnavailable:  # nobody can say what was forgotten
        return [], []
    _adopt(hub, log, memories)
    followed, withdrawn = [], []
    for topic in log.topics("promotion"):
        if topic.state != "promoted":
            continue
        if deadline.over():
            break
        one = memories.get(topic.memory)
        if one is None or _is_changed(one, topic):
            state: State = "forgotten" if one is None else "own"
            log.put(replace(topic, state=state, since=hub.options.clock()), before="promoted")
        elif is_known(hub, one.facts.refers):
            target = _target_now(hub, topic, one.facts.refers)
            if target is None:
                _withdraw(hub, log, topic)
                withdrawn.append(topic.question)
                continue
            if target != one.facts.refers:
                try:
                    _lead_to(hub, one, topic.question, target)
                except WriteRefused:  # its owner wrote it anew, in a form that nobody else can change
                    log.put(replace(topic, state="own", since=hub.options.clock()), before="promoted")
                    continue
                followed.append(topic.question)
            now = digest(text_at(hub, target) or "")
            if (target, now) != (topic.ref, topic.digest):
                log.put(replace(topic, ref=target, digest=now), before="promoted")
    return followed, withdrawn


def _adopt(hub: Hub, log: QueryLog, memories: Mapping[str, Known]) -> None:
    """Look after promoted memories that came from elsewhere (an import, another place), or back from the trash."""
    topics = {topic.memory: topic for topic in log.topics("promotion")}
    for name, one in memories.items():
        topic = topics.get(name)
        if one.facts.source != "promoted" or not one.facts.refers or (topic and topic.state != "forgotten"):
            continue
        stored = read(one.shelf, one.path)
        question = stored.content.body.partition("\n")[0] if stored else ""
        now, key = hub.options.clock(), topic.key if topic else topic_key(key_of(question))
        if question:
            kept = Topic(topic_id("promotion", key), "promotion", key, question, "promoted", now, last=now, memory=name)
            log.put(replace(kept, ref=one.facts.refers), before=topic.state if topic else None)


def _is_changed(one: Known, topic: Topic) -> bool:
    """Whether somebody changed what a promoted memory says."""
    stored = read(one.shelf, one.path)
    return stored is None or stored.content.body != promoted_text(topic.question, one.facts.refers)


def _target_now(hub: Hub, topic: Topic, target: str) -> str | None:
    """Give the place of the answer as it is now; none if there is none any more."""
    text = text_at(hub, target)
    if text is not None and digest(text) == topic.digest:
        return target
    answer = answer_in_documents(hub, topic.question)
    if not answer.complete:
        return target
    found = target_of(hub, answer.hit) if answer.strong and answer.hit else None
    if text is None or (found and found.partition("#")[0] == target.partition("#")[0]):
        return found
    return None if answer.verdict == "none" else target


def _withdraw(hub: Hub, log: QueryLog, topic: Topic) -> None:
    # Noted first: after a crash in between, the memory would be taken for one that the user forgot.
    log.put(replace(topic, state="withdrawn", since=hub.options.clock()), before="promoted")
    try:
        forget(hub, [topic.memory], scope="project")
    except MemoryNotFound:
        return


def _lead_to(hub: Hub, one: Known, question: str, target: str) -> None:
    rewrite(hub, one, lambda _: {"refers": target}, promoted_text(question, target))
    bring_in_step(hub, one.shelf)


def _plain(question: str) -> str:
    """Give a question on one line, without what is not printed."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in question).split())
