"""Learning by use: documents that were read after a similar question was asked in vain.

Everything comes from the query log of the project, which is on this machine only.
"""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.index.bm25 import Ranking, numbered
from kbhub.index.lessons import Lessons
from kbhub.index.query import parsed
from kbhub.index.references import ref_of
from kbhub.models.embedding import PACKAGED_SHA256
from kbhub.models.vectors import similarity
from kbhub.search.evidence import packaged, rarity
from kbhub.search.memory_boost import decay
from kbhub.search.retrieval import LEAST_SIMILARITY
from kbhub.search.scores import Fused, SignalPart, best_first
from kbhub.sync.deleted_texts import is_gone
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.project_identity import identify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kbhub.hub import Hub
    from kbhub.index.lessons import Lesson
    from kbhub.index.rows import Selection
    from kbhub.search.hits import OpenBase
    from kbhub.search.retrieval import SemanticRanking
    from kbhub.types import Base, Discovery

SIGNAL = "learned"
"""Name of the signal in traces and in `Query.without`."""

AMOUNT = 0.9
"""The most it adds, on a scale where the best keyword and semantic values sum to 1: docs/explanation/ranking.md has the
figures."""

SIMILAR, SAME = 0.55, 0.9
"""Likeness of two questions (mean of cosine and shared words) from which one tells about the other, and from which on
it tells all. With .4 and .7, questions about one subject that have other answers lose .032 of nDCG@10 on ORD-QA."""

NEAR = 0.3
"""Cosine below which the words of two questions are not compared: see `index.lessons.REWORDED`."""

COMPARED = 12
"""Questions whose words are compared, the nearest ones: 0.2 ms each in a process that has not read them yet."""

APART_SECONDS = 1800
"""Time between two occasions: half an hour, in which one task is over."""

MOST = 3
"""Documents lifted for a query, so that most of the first hits are always those that were found."""

SHOWN_CHARACTERS = 100
"""Length to which a question is cut in a trace."""


@struct
class UsageRecord:
    """A document that answered similar questions."""

    ref: str
    likeness: float
    """Of the most similar question, 0 to 1."""
    weight: float
    """How much it counts, 0 to 1."""
    question: str
    """The most similar question."""


def learned(hub: Hub, text: str, now: float) -> list[UsageRecord]:
    """Return the documents that were read after questions like this one, those that count most first.

    A document counts after two occasions in different sessions, `APART_SECONDS` apart, or after one in which a memory
    was written about it. Documents read after the same query share it. Occasions fade as memories do. The question
    comes without filters; `now` is in seconds since the epoch.
    """
    if not hub.config().settings.log.queries or not logs_folder(hub).is_dir():
        return []
    path = log_path(hub)
    lessons = hub.state(Lessons)
    stored = lessons.latest(path, PACKAGED_SHA256[:MODEL_DIGITS])
    near = _near(stored, wanted) if stored and (wanted := question_vector(text)) else {}
    return _weighed(stored, near, lessons.questions(path, list(near)), text, now) if near else []


def _weighed(
    stored: Sequence[Lesson], near: Mapping[int, float], texts: Mapping[int, str], text: str, now: float
) -> list[UsageRecord]:
    words = _words(text)
    likeness = {asked: (near[asked] + _shared(words, _words(known))) / 2 for asked, known in texts.items()}
    likeness = {asked: like for asked, like in likeness.items() if like >= SIMILAR}
    shared = defaultdict[int, int](int)
    for one in stored:
        shared[one.asked_id] += 1
    by_ref = defaultdict[str, list["Lesson"]](list)
    for one in stored:
        if one.asked_id in likeness:
            by_ref[one.ref].append(one)
    found = []
    for ref, occasions in by_ref.items():
        if not _confirmed(occasions):
            continue
        counted: dict[str, float] = {}
        for one in occasions:
            certain = min(1.0, (likeness[one.asked_id] - SIMILAR / 2) / (SAME - SIMILAR / 2))
            value = certain * decay((now - one.at) / DAY_SECONDS) / shared[one.asked_id] * (2 if one.remembered else 1)
            counted[one.session] = max(counted.get(one.session, 0.0), value)  # a session counts once
        best = max((one.asked_id for one in occasions), key=lambda asked: likeness[asked])
        found.append(UsageRecord(ref, likeness[best], min(1.0, sum(counted.values()) / 2), texts[best]))
    return sorted(found, key=lambda one: (-one.weight, one.ref))[:MOST]


def _confirmed(occasions: Sequence[Lesson]) -> bool:
    """Return whether there were two separate occasions, or a memory."""
    return any(one.remembered for one in occasions) or any(
        one.session != other.session and abs(one.at - other.at) >= APART_SECONDS
        for one in occasions
        for other in occasions
    )


def _near(stored: Sequence[Lesson], wanted: bytes) -> dict[int, float]:
    """Return the cosines of the questions nearest to a vector."""
    vectors = {one.asked_id: one.vector for one in stored if len(one.vector) == len(wanted)}
    cosines = similarity(list(vectors.values()), np.frombuffer(wanted, np.int8))
    nearest = np.argsort(-cosines, kind="stable")[:COMPARED].tolist()
    asked = list(vectors)
    return {asked[at]: float(cosines[at]) for at in nearest if cosines[at] >= NEAR}


@lru_cache(maxsize=1000)  # the same questions are compared with every query
def _words(text: str) -> Mapping[tuple[str, ...], float]:
    return {term.tokens: rarity(term.text) for term in parsed(text).terms}


def _shared(one: Mapping[tuple[str, ...], float], other: Mapping[tuple[str, ...], float]) -> float:
    """Return the share of words that two questions have in common, by rarity (Dice's coefficient)."""
    common = sum(rare for word, rare in one.items() if word in other)
    return 2 * common / (sum(one.values()) + sum(other.values()) or 1.0)


@struct
class UsageMatch:
    """A learned document in a searched base."""

    lesson: UsageRecord
    number: int
    """Number of the base."""
    document: int
    chunks: NDArray[np.int64]
    """All its chunks that may be found, keyed as by `bm25.numbered`, ascending."""


def found_again(
    searched: Sequence[OpenBase],
    selections: Sequence[Selection | None],
    known: Sequence[UsageRecord],
    bases: Sequence[Base],
) -> list[UsageMatch]:
    """Return the learned documents that exist, are searched and pass the filters; each index is within a snapshot."""
    found = []
    for lesson in known:
        for number, (base, selection) in enumerate(zip(searched, selections, strict=True)):
            path = lesson.ref.removeprefix(f"{base.base.id}@")
            row = base.index.document(path) if ref_of(base.base, path, bases) == lesson.ref else None
            if row is None or is_gone(row.size):
                continue
            columns = base.index.columns()
            here = columns.alive & (columns.documents == row.id)
            if selection is not None:
                here &= columns.selected(selection.chunks)
            if here.any():
                found.append(UsageMatch(lesson, number, row.id, columns.ids[here].astype(np.int64) + numbered(number)))
    return found


def best_of(known: Sequence[UsageMatch], near: SemanticRanking) -> Ranking | None:
    """Return the chunk of each learned document that is nearest to the query, if it is near enough for a hit."""
    chunks, documents, values = [], [], []
    for one in known:
        mine = np.flatnonzero(np.isin(near.compared, one.chunks))
        if (
            len(mine)
            and (value := near.similarities[best := mine[near.similarities[mine].argmax()]]) > LEAST_SIMILARITY
        ):
            chunks.append(near.compared[best])
            documents.append(one.document)
            values.append(value)
    return Ranking(np.array(chunks, np.int64), np.array(documents, np.int64), np.array(values)) if chunks else None


def lifted(fused: list[Fused], known: Sequence[UsageMatch]) -> list[Fused]:
    """Add the signal to the best chunk of each learned document; `fused` comes best first."""
    lessons_by_key = {(one.number, one.document): one.lesson for one in known}
    if not lessons_by_key:
        return fused
    result = []
    for hit in fused:
        if lesson := lessons_by_key.pop(hit.document_key, None):
            words = "".join(mark if mark.isprintable() else " " for mark in lesson.question)[:SHOWN_CHARACTERS]
            reason = f"read after a similar question: {words}"
            hit = hit.and_parts([SignalPart(SIGNAL, lesson.likeness, AMOUNT * lesson.weight, reason=reason)])
        result.append(hit)
    return best_first(result)


MODEL_DIGITS = 8
"""Hex digits of the model's hash kept with a vector; vectors of another release's model do not count."""

FOLDER = "queries"
"""Folder of the logs in the data directory, with one file per project."""

NO_PROJECT = "no-project"
"""Name of the log if kbhub runs without a directory."""


class _Log:
    """The location of the log of a hub's project."""

    found: tuple[Discovery, Path] | None = None
    """The discovery whose workspace the path was found for, and the path: telling which project it is may take git."""


class LogSession:
    """The session that a hub's queries and reads belong to."""

    name = ""
    """Of the connection; empty where there is none, as on the command line."""

    def at(self, now: float) -> str:
        """Return the session at a time: without a connection, all of a day (UTC) is one."""
        return self.name or datetime.fromtimestamp(now, UTC).date().isoformat()


def logs_folder(hub: Hub) -> Path:
    """Return the folder of the logs of all projects."""
    return Path(os.path.realpath(hub.data)) / FOLDER


def log_path(hub: Hub) -> Path:
    """Return the path of the log of a hub's project; clones and worktrees share one."""
    discovery, log = hub.discovery(), hub.state(_Log)
    if log.found is None or log.found[0] is not discovery:
        identity = identify(discovery.workspace)
        log.found = discovery, logs_folder(hub) / f"{identity.digest if identity else NO_PROJECT}.db"
    return log.found[1]


def question_vector(text: str) -> bytes:
    """Return the vector of a question by the packaged model, int8; empty if the model does not know its words."""
    # Imports numpy, which a command that only reads documents does without.
    from kbhub.models.vectors import quantise  # noqa: PLC0415

    try:
        vector = packaged().embed_query(text)
    except EmbedderError:
        return b""
    return quantise(vector).tobytes() if vector.any() else b""
