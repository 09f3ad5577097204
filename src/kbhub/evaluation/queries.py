"""Run the queries of a data set one by one, recording rankings and times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import decode, parse_document
from kbhub.errors import IndexUnavailable
from kbhub.evaluation.datasets import best_answer
from kbhub.index.bm25 import NaiveIndex
from kbhub.search.search import search
from kbhub.types import MOST_HITS, Query
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.evaluation.corpus import Corpus
    from kbhub.evaluation.datasets import Dataset, EvalQuery
    from kbhub.sync.sync import Progress
    from kbhub.types import Mode

EvalMode = Literal["naive", "keyword", "semantic", "rrf", "hybrid"]
"""`naive` is plain full-text search; `rrf` is hybrid search with reciprocal rank fusion."""

MOST_PAGES = 5
"""Maximum of result pages fetched for enough distinct sections, since several chunks of one section count once."""


@struct
class Plan:
    """A search configuration to measure."""

    mode: EvalMode
    without: tuple[str, ...] = ()
    """Signals left out."""
    parts: int = 1
    """Number of bases into which the corpus is split."""
    wordings: bool = False
    """Whether to give the other wordings of each query."""
    passage: bool = False
    """Whether to give its made-up answer."""

    @property
    def name(self) -> str:
        """A readable name that stays unique in a file name."""
        without = f" without {'+'.join(self.without)}" if self.without else ""
        wordings = " with wordings" * self.wordings + " and passage" * self.passage
        return f"{self.mode}{without}{wordings}{f', {self.parts} bases' if self.parts > 1 else ''}"


@struct
class QueryResult:
    """The result of a query."""

    query: EvalQuery
    ranked: tuple[str, ...]
    """Distinct documents or sections of the data set, best first."""
    scores: tuple[float, ...]
    """Score of each of them."""
    milliseconds: float
    """Time of the search for the first page."""
    best: float = 0.0
    """Score of the first hit, 0 if there is none."""
    verdict: str | None = None
    """Verdict of the search, if it has one."""
    fell_back: bool = False
    """Whether only a part of the mode could run."""


def ask(
    corpus: Corpus,
    dataset: Dataset,
    queries: Sequence[EvalQuery],
    plan: Plan,
    *,
    depth: int,
    progress: Progress | None = None,
) -> list[QueryResult]:
    """Run queries on a corpus, after an unmeasured one that loads the model and opens the indexes.

    The queries may belong to another data set than `dataset`, of which the corpus was built; the plan must not be
    `naive`. `depth` is the number of results per query. `progress` is called with a label, the number of finished
    queries and their total. Raises `IndexUnavailable` if a base could not be searched.
    """
    answers = []
    for number, query in enumerate([*queries[:1], *queries]):
        answer = ask_one(corpus, dataset, query, plan, depth)
        if number:
            answers.append(answer)
            if progress:
                progress(f"asking {dataset.name}, {plan.name}", number, len(queries))
    return answers


class NaiveSearch:
    """The full-text baseline, over documents or, if answers are sections, over kbhub's chunks."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._places: list[tuple[str, tuple[int, int]]] = []
        """Document and lines of each text; lines are (0, 0) if answers are documents."""
        self._index = NaiveIndex(list(self._texts()))

    def ask(self, queries: Sequence[EvalQuery], *, depth: int) -> list[QueryResult]:
        """Run queries like the function `ask`."""
        return [self._ask(query, depth) for query in queries]

    def _texts(self) -> Iterator[str]:
        for document in self._dataset.documents:
            if self._dataset.sections is None:
                self._places.append((document.id, (0, 0)))
                yield decode(document.data)[0]
                continue
            parsed = parse_document(document.path, document.data)
            for chunk in chunk_document(parsed):
                self._places.append((document.id, (chunk.start_line, chunk.end_line)))
                yield "\n".join((parsed.title, *chunk.headings, chunk.text))

    def _ask(self, query: EvalQuery, depth: int) -> QueryResult:
        started = time.perf_counter()
        rows = self._index.rank(query.text, depth)
        elapsed = (time.perf_counter() - started) * 1000
        if self._dataset.sections is not None:
            rows = self._index.rank(query.text, depth * MOST_PAGES)
        ranked: dict[str, float] = {}
        for number, score in rows:
            name, lines = self._places[number]
            ranked.setdefault(_item(self._dataset, name, lines, query), score)
        return _answer(query, ranked, elapsed, depth)


def ask_one(corpus: Corpus, dataset: Dataset, query: EvalQuery, plan: Plan, depth: int) -> QueryResult:
    """Run one query; see `ask`."""
    mode: Mode = "hybrid" if plan.mode == "naive" or plan.mode == "rrf" else plan.mode
    request = Query(
        text=query.text,
        queries=query.wordings if plan.wordings else (),
        passage=query.passage if plan.passage else "",
        bases=corpus.bases,
        mode=mode,
        limit=min(depth, MOST_HITS),
        granularity="document" if dataset.sections is None else "chunk",
        without=plan.without,
        fusion="rrf" if plan.mode == "rrf" else "convex",
    )
    started = time.perf_counter()
    result = search(corpus.hub, request)
    elapsed = (time.perf_counter() - started) * 1000
    for skipped in result.skipped:  # figures for a part of the corpus are meaningless
        raise IndexUnavailable(skipped.base, skipped.reason)
    ranked: dict[str, float] = {}
    page, offset = result, 0
    while True:
        for hit in page.hits:
            document = corpus.documents[hit.base, hit.path]
            ranked.setdefault(_item(dataset, document, (hit.start_line, hit.end_line), query), hit.score)
        offset += request.limit
        if len(ranked) >= depth or offset >= min(page.total, MOST_PAGES * request.limit):
            break
        page = search(corpus.hub, request.model_copy(update={"offset": offset}))
    return _answer(
        query,
        ranked,
        elapsed,
        depth,
        best=result.hits[0].score if result.hits else 0.0,
        verdict=getattr(result, "verdict", None),
        fell_back=result.mode != mode and not plan.without,
    )


def _item(dataset: Dataset, name: str, lines: tuple[int, int], query: EvalQuery) -> str:
    if dataset.sections is None:
        return name
    return best_answer(name, dataset.sections[name], lines, query.gold)


def _answer(
    query: EvalQuery,
    ranked: dict[str, float],
    milliseconds: float,
    depth: int,
    *,
    best: float | None = None,
    verdict: str | None = None,
    fell_back: bool = False,
) -> QueryResult:
    names, scores = tuple(ranked)[:depth], tuple(ranked.values())[:depth]
    highest = (scores[0] if scores else 0.0) if best is None else best
    return QueryResult(query, names, scores, milliseconds, highest, verdict, fell_back)
