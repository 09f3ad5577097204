"""Promotion: a recurring question that a document answers becomes a memory that refers to it, and follows it.

No text of the document is copied: the memory holds the question, as it was asked, and a ref to the answer. So a cloned
repository cannot get its own text into the memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, MemoryNotFound, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.side_files import QueryLog, State, Topic
from kbhub.memory.catalog import active_shelves, known
from kbhub.memory.changes import forget, remember, rewrite
from kbhub.memory.files import MemoryFile, read
from kbhub.sync.freshness import sync_written
from kbhub.usage import questions
from kbhub.usage.log import key_of

if TYPE_CHECKING:
    from kbhub.usage.clusters import Cluster

MOST_PROMOTED = 50
"""Limit of promoted memories per project, most asked first; more would crowd out other memories."""

QUESTION_CHARACTERS = 200
"""Limit of a question to promote; longer ones are pasted text."""

CLIENT = "kbhub"
"""Client name that promoted memories are attributed to."""

_COVERED = ("promoted", "forgotten", "own")
"""States of a promotion in which its question is not promoted again."""


def may_promote(hub: Hub) -> bool:
    """Return whether the settings allow promotion, and there is a project to promote for."""
    settings = hub.config().settings
    return settings.memory.enabled and not settings.read_only and hub.discovery().workspace.directory is not None


def promoted_text(question: str, target: str) -> str:
    """Return the text of a promoted memory."""
    return f"{question}\n\nThe answer is in `{target}`."


def promote(
    hub: Hub, log: QueryLog, recurring: Sequence[Cluster], topics: questions.Topics, deadline: questions.TimeLimit
) -> list[str]:
    """Remember where recurring questions are answered, if most answers were strong and still are; return the questions.

    The clusters come most frequent first.
    """
    promoted: list[str] = []
    free = MOST_PROMOTED - sum(topic.state in ("promoted", "own") for topic in topics.topics)
    for cluster in recurring:
        if free <= len(promoted) or deadline.over():
            break
        before = topics.about(cluster)
        # On one line, without unprintable characters.
        question = " ".join("".join(c if c.isprintable() else " " for c in cluster.center.subject).split())
        if not cluster.mostly("strong") or len(question) > QUESTION_CHARACTERS or (before and before.state in _COVERED):
            continue
        answer = questions.answer_in_documents(hub, question)
        target = questions.target_of(hub, answer.hit) if answer.strong and answer.hit else None
        if target is None:
            continue
        try:
            text = promoted_text(question, target)
            memory = remember(hub, text, scope="project", client=CLIENT, source="promoted", refers=target).memory
        except UsageError:  # a question that cannot be a memory's text
            continue
        key = before.key if before else questions.topic_key(cluster.center.key)
        topic = Topic(questions.topic_id("promotion", key), "promotion", key, question, "promoted", hub.options.clock())
        topic = replace(topic, count=cluster.count, last=cluster.last, ref=target, memory=memory.id)
        log.put(
            replace(topic, digest=questions.digest(questions.text_at(hub, target) or "")),
            before=before.state if before else None,
        )
        promoted.append(question)
    return promoted


def follow(hub: Hub, log: QueryLog, deadline: questions.TimeLimit) -> tuple[list[str], list[str]]:
    """Update the refs of promoted memories, and withdraw those without an answer; return the questions of both."""
    try:
        memories = {memory.facts.id: memory for shelf in active_shelves(hub, "project") for memory in known(hub, shelf)}
    except BaseUnavailable:  # cannot tell what was forgotten
        return [], []
    _adopt(hub, log, memories)
    followed, withdrawn = [], []
    for topic in log.topics("promotion"):
        if topic.state != "promoted":
            continue
        if deadline.over():
            break
        memory = memories.get(topic.memory)
        stored = read(memory.shelf, memory.path) if memory else None
        if not memory or not stored or stored.body != promoted_text(topic.question, memory.facts.refers):
            state: State = "forgotten" if memory is None else "own"
            log.put(replace(topic, state=state, since=hub.options.clock()), before="promoted")
        elif questions.is_known(hub, memory.facts.refers):
            target = _target_now(hub, topic, memory.facts.refers)
            if target is None:
                # Recorded first: after a crash in between, the memory would look as if the user had forgotten it.
                log.put(replace(topic, state="withdrawn", since=hub.options.clock()), before="promoted")
                with suppress(MemoryNotFound):
                    forget(hub, [topic.memory], scope="project")
                withdrawn.append(topic.question)
                continue
            if target != memory.facts.refers:
                try:
                    _point_to(hub, memory, topic.question, target)
                except WriteRefused:  # its owner rewrote it in a form that cannot be edited safely
                    log.put(replace(topic, state="own", since=hub.options.clock()), before="promoted")
                    continue
                followed.append(topic.question)
            now = questions.digest(questions.text_at(hub, target) or "")
            if (target, now) != (topic.ref, topic.digest):
                log.put(replace(topic, ref=target, digest=now), before="promoted")
    return followed, withdrawn


def _adopt(hub: Hub, log: QueryLog, memories: Mapping[str, MemoryFile]) -> None:
    """Track promoted memories that were imported, moved here, or restored from the trash."""
    topics = {topic.memory: topic for topic in log.topics("promotion")}
    for name, memory in memories.items():
        topic = topics.get(name)
        if memory.facts.source != "promoted" or not memory.facts.refers or (topic and topic.state != "forgotten"):
            continue
        stored = read(memory.shelf, memory.path)
        question = stored.body.partition("\n")[0] if stored else ""
        now, key = hub.options.clock(), topic.key if topic else questions.topic_key(key_of(question))
        if question:
            kept = Topic(
                questions.topic_id("promotion", key), "promotion", key, question, "promoted", now, last=now, memory=name
            )
            log.put(replace(kept, ref=memory.facts.refers), before=topic.state if topic else None)


def _target_now(hub: Hub, topic: Topic, target: str) -> str | None:
    """Return the current target of the answer, or None if there is none any more."""
    text = questions.text_at(hub, target)
    if text is not None and questions.digest(text) == topic.digest:
        return target
    answer = questions.answer_in_documents(hub, topic.question)
    if not answer.complete:
        return target
    successor = questions.target_of(hub, answer.hit) if answer.strong and answer.hit else None
    if text is None or (successor and successor.partition("#")[0] == target.partition("#")[0]):
        return successor
    return None if answer.verdict == "none" else target


def _point_to(hub: Hub, memory: MemoryFile, question: str, target: str) -> None:
    rewrite(hub, memory, lambda _: {"refers": target}, promoted_text(question, target))
    sync_written(hub, memory.shelf.base)
