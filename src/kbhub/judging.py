"""The best hits → grades, by a language model of Ollama: off unless asked for, and never needed.

Each passage is graded by itself, in a request of its own: what it says can touch no grade but its own, a small model
is not asked for more than it can do, and when the time is over the grades given so far count. The second look that
every search takes, without a model, is in `reranking`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from kbhub.errors import ModelUnavailable
from kbhub.inference import Deadline, Ollama, Prompt, StoredAnswers, fence_mark, quoted, quoting_rule
from kbhub.query import parse_query
from kbhub.tracing import with_part
from kbhub.types import Signal
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.model_settings import RerankSettings
    from kbhub.types import Hit, Query, SearchResult

BEST_GRADE = 3
"""Grades are 0, 1, 2 and 3, as in the judgements of TREC."""

MOST_TOKENS = 20
"""Length of an answer: one short object."""

PASSAGE_CHARACTERS = 1200
"""Of a passage that the model sees: an excerpt under its title."""

QUERY_CHARACTERS = 1000
"""Of the query that the model sees."""

NONSENSE_ALLOWED = 2
"""Passages for which a model may answer nonsense; one that does so oftener cannot do it."""

MOST_HITS = 100
"""Hits of one answer at most, as `types.Query` has it."""

SHARES = ((3, 0.75), (10, 0.6))
"""Up to which rank the retrieval has which share of the blended score, the grade having the rest."""

LATER_SHARE = 0.4
"""The same for the ranks after those."""

PART = "rerank"
"""Name of the part of a trace that a grade adds."""

_TASK = (
    "You judge how well a passage answers a search query. Answer with one JSON object and nothing else: "
    '{"grade": N}. N is 3 if the passage answers the query, 2 if it answers a part of it, 1 if it is about the same '
    "thing without answering, 0 if it is about something else. Judge only what the passage says about the query."
)


class _Grade(BaseModel):
    """The form of the model's answer."""

    grade: Literal[0, 1, 2, 3]


@struct
class Grades:
    """What a model thinks of passages."""

    grades: Mapping[int, int]
    """Number of the passage, from 0 → its grade; those that were not graded are not there."""
    fault: ModelUnavailable | None = None
    """Why not all were graded."""

    def note(self, passages: int) -> str | None:
        """Say what is missing, in a sentence; none if nothing is.

        Args:
            passages: that were to be graded.
        """
        if self.fault is None:
            return None
        if not self.grades:
            return f"Not reranked: {self.fault}"
        return f"Reranked by the grades of {len(self.grades)} of {passages} passages: {self.fault}"


def rerank(hub: Hub, query: Query, result: SearchResult, settings: RerankSettings) -> SearchResult:
    """Put the best hits of a search into another order, by what a model thinks of their passages.

    Hits beyond the candidates stay where they are. The scores keep their scale.

    Args:
        hub: whose environment says where Ollama is, and whose cache keeps grades.
        query: what was asked.
        result: the hits, from the first one on.
        settings: which model, how many hits, how long to wait.

    Returns:
        The same hits; with a note if not all could be graded, and as they were if none could.
    """
    hits = result.hits[: settings.candidates]
    if len(hits) <= 1:
        return result
    found = grade(
        query.text, [_passage(hit) for hit in hits], settings, Ollama(hub.options.env), StoredAnswers(hub.cache)
    )
    note = found.note(len(hits))
    notes = (*result.notes, note) if note else result.notes
    ordered = _ordered(hits, found.grades) if found.grades else list(hits)
    return result.model_copy(update={"hits": (*ordered, *result.hits[settings.candidates :]), "notes": notes})


def search_reranked(
    hub: Hub, query: Query, settings: RerankSettings, search: Callable[[Query], SearchResult] | None = None
) -> SearchResult:
    """Search, and rerank as many hits as the settings say, whichever page of them is asked for.

    Args:
        hub: what to search.
        query: what is asked.
        settings: which model, how many hits, how long to wait.
        search: what searches, if not the hub by itself.

    Raises:
        BaseNotFound: the query names a base that is not active.
    """
    search = search or hub.search
    if query.offset >= settings.candidates:
        return search(query)
    end = query.offset + query.limit
    wide = query.model_copy(update={"offset": 0, "limit": min(MOST_HITS, max(settings.candidates, end))})
    result = rerank(hub, query, search(wide), settings)
    return result.model_copy(update={"hits": result.hits[query.offset : end]})


def grade(
    query: str, passages: Sequence[str], settings: RerankSettings, server: Ollama, stored: StoredAnswers
) -> Grades:
    """Let a model grade passages, one after the other, as long as there is time.

    Args:
        query: what was asked; its filters and exclusions are not shown to the model.
        passages: the most promising first.
        settings: which model, and how long to wait for all together.
        server: where the model is.
        stored: grades given earlier.
    """
    deadline = Deadline(settings.seconds, "rerank.seconds")
    grades: dict[int, int] = {}
    nonsense = 0
    fault = None
    question = parse_query(query).text or query
    for number, passage in enumerate(passages):
        prompt = grading_prompt(question, passage)
        asked = ("grade", settings.model, prompt.system, prompt.user)
        known = stored.load(_Grade, asked)
        try:
            if known is None:
                if not deadline.left:
                    raise deadline.passed(server.where)
                known = server.generate_as(_Grade, settings.model, prompt, deadline, most_tokens=MOST_TOKENS)
                stored.save(known, asked)
            grades[number] = known.grade
        except ModelUnavailable as error:
            fault = fault or error
            nonsense += error.kind == "nonsense"
            if error.kind not in ("nonsense", "late") or nonsense > NONSENSE_ALLOWED:
                break
    return Grades(grades, fault)


def grading_prompt(query: str, passage: str) -> Prompt:
    """Give what the model is asked about a passage: of the same form whatever the passage says.

    Args:
        query: what was asked.
        passage: a stranger's text.
    """
    query, passage = query[:QUERY_CHARACTERS], passage[:PASSAGE_CHARACTERS]
    mark = fence_mark([query, passage])
    return Prompt(f"{_TASK} {quoting_rule(mark)}", f"{quoted(query, mark, 'query')}\n{quoted(passage, mark)}")


def blended(relevance: Sequence[float], grades: Mapping[int, int]) -> list[float]:
    """Join what the retrieval and a model think of hits, by rank: where the retrieval is sure, it counts for more.

    A hit that was not graded counts as if it had the mean of the grades that were given.

    Args:
        relevance: of each hit by the retrieval, from 0 to 1, best first.
        grades: number of the hit, from 0 → 0 to `BEST_GRADE`; at least one.

    Returns:
        A value from 0 to 1 for each hit.
    """
    mean = sum(grades.values()) / len(grades)
    return [
        share * value + (1 - share) * grades.get(number, mean) / BEST_GRADE
        for number, value in enumerate(relevance)
        for share in [_retrieval_share(number + 1)]
    ]


def _retrieval_share(rank: int) -> float:
    return next((share for last, share in SHARES if rank <= last), LATER_SHARE)


def _passage(hit: Hit) -> str:
    return "\n".join(part for part in (hit.title, " > ".join(hit.headings), hit.excerpt) if part)


def _ordered(hits: Sequence[Hit], grades: Mapping[int, int]) -> list[Hit]:
    """Give hits by blended value; the best has the score that the best had."""
    best = max(hit.score for hit in hits)
    values = blended([hit.score / (best or 1.0) for hit in hits], grades)
    scale = best / (max(values) or 1.0)
    mean = sum(grades.values()) / len(grades)
    numbered = sorted(range(len(hits)), key=lambda number: -values[number])  # a stable sort
    return [
        with_part(
            hits[number],
            values[number] * scale,
            Signal(name=PART, value=grades.get(number, mean) / BEST_GRADE, contribution=0),
        )
        for number in numbered
    ]
