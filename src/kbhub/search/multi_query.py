"""Search with alternative wordings of a query and fuse the results."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kbhub.errors import UsageError
from kbhub.search.expansion import ALREADY_STRONG, Expansion, expand, is_strong, plain_words, printable
from kbhub.search.notes import ENDS_WITH_NEAREST
from kbhub.search.scores import RRF_K
from kbhub.search.search import search
from kbhub.search.tracing import with_part
from kbhub.types import MOST_HITS, Signal

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Hit, Mode, Query, SearchResult
    from kbhub.workspace.settings import ExpansionSettings

T = TypeVar("T", bound=Hashable)

ORIGINAL_WEIGHT, OTHER_WEIGHT = 2.0, 1.0
"""Of the query itself and of each alternative: two alternatives must agree to outweigh the query."""

UNCOVERED_WEIGHT = 0.5
"""Of the query itself if nothing covers it: its merely nearest hits yield to those of alternatives."""

DEPTH = 50
"""Hits of each query that are fused. A hit at rank 50 adds half as much as the first one; later pages are rare, and the
list ends there."""

MOST_QUERIES, MOST_CHARACTERS = 5, 2000
"""Limits on a client's alternative queries and on the characters of its passage: each is a search."""

CUT = "Only the first {:,} characters of each other wording are read."
"""Note on an answer if a wording was longer."""

ENDS_JOINED = "The list ends with the first {} hits of each wording; search for one alone for all of its own."
"""Note on the last page if the queries have more hits than are fused."""

PART = "expansion"
"""Name of the trace part added by alternative queries; in parentheses, the one that found the hit, if not the query."""

PASSAGE = "a passage such as an answer"
"""Name of the hypothetical passage in notes and traces."""

_Key = tuple[str, int]
"""Ref and, if hits are chunks, the first line."""


def given_expansion(queries: Sequence[str], passage: str = "") -> Expansion:
    """Build an expansion from a client's own wordings, without a model.

    Args:
        queries: alternative queries, in query syntax.
        passage: a hypothetical answer.

    Raises:
        UsageError: there are too many queries.
    """
    if len(queries) > MOST_QUERIES:
        raise UsageError(f"{len(queries)} other queries are more than the {MOST_QUERIES} that are searched for.")
    plain = dict.fromkeys(printable(text)[:MOST_CHARACTERS].strip() for text in queries)
    return Expansion(
        queries=tuple(text for text in plain if text),
        passage=printable(passage)[:MOST_CHARACTERS].strip(),
        note=CUT.format(MOST_CHARACTERS) if any(len(text) > MOST_CHARACTERS for text in (*queries, passage)) else None,
    )


def search_expanding(hub: Hub, query: Query, settings: ExpansionSettings) -> SearchResult:
    """Search; unless the hits are strong, ask a model for other wordings and search again.

    Args:
        hub: what to search; its environment configures Ollama.
        query: the query.
        settings: model and timeout.

    Raises:
        BaseNotFound: the query names a base that is not active.
    """
    first = search(hub, query)
    if is_strong(first):
        return first.model_copy(update={"notes": (*first.notes, ALREADY_STRONG)})
    expansion = expand(query.text, settings, hub.options.env, hub.cache)
    if not expansion.queries and not expansion.passage:
        return first.model_copy(update={"notes": (*first.notes, *([expansion.note] if expansion.note else []))})
    return search_expanded(hub, query, expansion)


_VERDICTS = (None, "none", "weak", "strong")
"""Verdicts in ascending order."""


def search_expanded(hub: Hub, query: Query, expansion: Expansion) -> SearchResult:
    """Search for a query and its alternative wordings, and fuse the rankings.

    The query's filters and exclusions apply to all. Scores keep the scale of the query itself.

    Args:
        hub: what to search.
        query: the query.
        expansion: the other wordings, from a model or the client.

    Returns:
        The query's own result with the fused hits; without other wordings, just that result.

    Raises:
        BaseNotFound: the query names a base that is not active.
    """
    note = (expansion.note,) if expansion.note else ()
    wide = {"offset": 0, "limit": min(MOST_HITS, max(DEPTH, query.offset + query.limit))}
    original = search(hub, query.model_copy(update=wide))
    others = _others(query, original.filters, expansion)
    if not others:
        result = search(hub, query)
        return result.model_copy(update={"notes": (*result.notes, *note)})
    results = [(label, search(hub, other.model_copy(update=wide))) for label, other in others]
    wordings = [result for label, result in results if label != PASSAGE]
    best_wording = max(wordings, key=_best_score, default=original)
    deciding = best_wording if _worth(best_wording) > _worth(original) else original
    best = _best_score(deciding) or max(_best_score(result) for _, result in results)
    hits = _joined(original, results, best, by_chunk=query.granularity == "chunk")
    every = all(
        result.total_exact and len(result.hits) == result.total for result in (original, *dict(results).values())
    )
    return original.model_copy(
        update={
            "hits": tuple(hits[query.offset : query.offset + query.limit]),
            "total": len(hits),
            "total_exact": every,
            "verdict": deciding.verdict,
            "notes": (
                *(text for text in deciding.notes if text != ENDS_WITH_NEAREST),
                *note,
                f"Also searched for: {'; '.join(label for label, _ in results)}.",
                *([] if every or query.offset + query.limit < len(hits) else [ENDS_JOINED.format(wide["limit"])]),
            ),
            "terms": tuple(dict.fromkeys(term for result in (original, *wordings) for term in result.terms)),
        }
    )


def fuse_queries(results: Sequence[tuple[float, Sequence[T]]]) -> list[tuple[T, float]]:
    """Join rankings of several queries by weighted reciprocal rank fusion.

    Args:
        results: (weight, ranking, best first) of each query; duplicates within a ranking count once, at the first.

    Returns:
        (item, score) of all items, best first; ties go to the earlier query.
    """
    scores: dict[T, float] = {}
    for weight, ranking in results:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + weight / (RRF_K + rank)
    return sorted(scores.items(), key=lambda entry: -entry[1])  # a stable sort


def _others(query: Query, filters: Sequence[str], expansion: Expansion) -> list[tuple[str, Query]]:
    """Return the alternative queries with labels, under the same filters; the passage is searched by meaning."""

    def variant(text: str, mode: Mode) -> Query:
        return query.model_copy(update={"text": " ".join((text, *filters)), "mode": mode})

    others = [(text, variant(text, query.mode)) for text in expansion.queries]
    if expansion.passage and query.mode != "keyword":
        others.append((PASSAGE, variant(plain_words(expansion.passage), "semantic")))
    return others


def _joined(
    original: SearchResult, others: Sequence[tuple[str, SearchResult]], best: float, *, by_chunk: bool
) -> list[Hit]:
    """Fuse the hits of all queries, each as first found; the best hit gets the score `best`."""
    leaders: dict[_Key, _Key] = {}
    hits: dict[_Key, tuple[Hit, str]] = {}
    rankings: list[tuple[float, list[_Key]]] = []
    for label, result in [("", original), *others]:
        keys = [_key(hit, leaders, by_chunk=by_chunk) for hit in result.hits]
        for key, hit in zip(keys, result.hits, strict=True):
            hits.setdefault(key, (hit, label))
        own = UNCOVERED_WEIGHT if result.verdict == "none" else ORIGINAL_WEIGHT
        rankings.append((OTHER_WEIGHT if label else own, keys))
    fused = fuse_queries(rankings)
    scale = best / fused[0][1] if fused else 0.0
    return [
        with_part(hit, value * scale, Signal(name=_part(label), rank=rank, value=value, contribution=0))
        for rank, (key, value) in enumerate(fused, 1)
        for hit, label in [hits[key]]
    ]


def _key(hit: Hit, leaders: dict[_Key, _Key], *, by_chunk: bool) -> _Key:
    """Return a hit's identity, the same for duplicates, of which each query may show another one."""
    keys = [(ref, hit.start_line if by_chunk else 0) for ref in (hit.ref, *hit.duplicates)]
    leader = next((leaders[key] for key in keys if key in leaders), keys[0])
    leaders |= dict.fromkeys(keys, leader)
    return leader


def _part(label: str) -> str:
    return f"{PART} ({label})" if label else PART


def _worth(result: SearchResult) -> int:
    return _VERDICTS.index(result.verdict)


def _best_score(result: SearchResult) -> float:
    return result.hits[0].score if result.hits else 0.0
