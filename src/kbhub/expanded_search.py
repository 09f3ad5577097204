"""Search with other words for a query beside it, and join what each of them finds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kbhub.errors import UsageError
from kbhub.expansion import ALREADY_STRONG, Expansion, expand, is_strong, plain_words, printable
from kbhub.fusion import RRF_K
from kbhub.search import ENDS_WITH_NEAREST
from kbhub.tracing import with_part
from kbhub.types import Signal

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.model_settings import ExpansionSettings
    from kbhub.types import Hit, Mode, Query, SearchResult

T = TypeVar("T", bound=Hashable)

ORIGINAL_WEIGHT, OTHER_WEIGHT = 2.0, 1.0
"""Of the query itself, and of each that others made of it: two of them must agree to outweigh it."""

UNCOVERED_WEIGHT = 0.5
"""Of the query itself where nothing covers it: what is merely nearest to it gives way to what another one finds."""

DEPTH = 50
"""Hits of each query that are joined. At rank 50 a hit adds half of what the first one does; pages beyond it are rare,
and end there."""

MOST_HITS = 100
"""Hits of one answer at most, as `types.Query` has it."""

MOST_QUERIES, MOST_CHARACTERS = 5, 2000
"""Other queries that a client may give, and characters of its passage: each is a search."""

CUT = "Only the first {:,} characters of each other wording are read."
"""Note of an answer to a wording that is longer."""

ENDS_JOINED = "The list ends with the first {} hits of each wording; search for one alone for all of its own."
"""Note of the last page of an answer to several queries that have more hits than are joined."""

PART = "expansion"
"""Name of the part of a trace that other queries add; in parentheses, the one that found the hit, if not the query."""

PASSAGE = "a passage such as an answer"
"""What the hypothetical passage is called in notes and traces."""

_Key = tuple[str, int]
"""Ref and, where chunks are hits, the first line."""


def given_expansion(queries: Sequence[str], passage: str = "") -> Expansion:
    """Make an expansion of what a client gives by itself, without a model.

    Args:
        queries: other queries, in the language of queries.
        passage: a text such as a document that answers might contain.

    Raises:
        UsageError: there are more than are searched for.
    """
    if len(queries) > MOST_QUERIES:
        raise UsageError(f"{len(queries)} other queries are more than the {MOST_QUERIES} that are searched for.")
    plain = dict.fromkeys(printable(one)[:MOST_CHARACTERS].strip() for one in queries)
    return Expansion(
        queries=tuple(one for one in plain if one),
        passage=printable(passage)[:MOST_CHARACTERS].strip(),
        note=CUT.format(MOST_CHARACTERS) if any(len(one) > MOST_CHARACTERS for one in (*queries, passage)) else None,
    )


def search_expanding(hub: Hub, query: Query, settings: ExpansionSettings) -> SearchResult:
    """Search, and ask a model for other words first unless the query finds strong hits as it stands.

    Args:
        hub: what to search, whose environment says where Ollama is.
        query: what is asked.
        settings: which model, and how long to wait.

    Raises:
        BaseNotFound: the query names a base that is not active.
    """
    first = hub.search(query)
    if is_strong(first):
        return first.model_copy(update={"notes": (*first.notes, ALREADY_STRONG)})
    expansion = expand(query.text, settings, hub.options.env, hub.cache)
    if not expansion.queries and not expansion.passage:
        return first.model_copy(update={"notes": (*first.notes, *([expansion.note] if expansion.note else []))})
    return search_expanded(hub, query, expansion)


_VERDICTS = (None, "none", "weak", "strong")
"""What is known of an answer, the surest last."""


def search_expanded(hub: Hub, query: Query, expansion: Expansion) -> SearchResult:
    """Search for a query and for other words of it, by both signals, and join what is found by its ranks.

    The filters and exclusions of the query hold for all. Scores keep the scale of the query itself.

    Args:
        hub: what to search.
        query: what is asked.
        expansion: the other words, of a model or of the client.

    Returns:
        The query's own result with the joined hits; where there are no other words, that result alone.

    Raises:
        BaseNotFound: the query names a base that is not active.
    """
    note = (expansion.note,) if expansion.note else ()
    wide = {"offset": 0, "limit": min(MOST_HITS, max(DEPTH, query.offset + query.limit))}
    original = hub.search(query.model_copy(update=wide))
    others = _others(query, original.filters, expansion)
    if not others:
        result = hub.search(query)
        return result.model_copy(update={"notes": (*result.notes, *note)})
    results = [(label, hub.search(other.model_copy(update=wide))) for label, other in others]
    asked = [result for label, result in results if label != PASSAGE]
    surest = max(asked, key=_best_score, default=original)
    decides = surest if _worth(surest) > _worth(original) else original
    best = _best_score(decides) or max(_best_score(result) for _, result in results)
    hits = _joined(original, results, best, by_chunk=query.granularity == "chunk")
    every = all(one.total_exact and len(one.hits) == one.total for one in (original, *dict(results).values()))
    return original.model_copy(
        update={
            "hits": tuple(hits[query.offset : query.offset + query.limit]),
            "total": len(hits),
            "total_exact": every,
            "verdict": decides.verdict,
            "notes": (
                *(one for one in decides.notes if one != ENDS_WITH_NEAREST),
                *note,
                f"Also searched for: {'; '.join(label for label, _ in results)}.",
                *([] if every or query.offset + query.limit < len(hits) else [ENDS_JOINED.format(wide["limit"])]),
            ),
            "terms": tuple(dict.fromkeys(term for result in (original, *asked) for term in result.terms)),
        }
    )


def fuse_queries(results: Sequence[tuple[float, Sequence[T]]]) -> list[tuple[T, float]]:
    """Join rankings of several queries by weighted reciprocal rank fusion.

    Args:
        results: (weight, ranking, best first) of each query; of an item that occurs twice in one, the first counts.

    Returns:
        (item, score) of everything in any ranking, best first; of equal ones, those of an earlier query first.
    """
    scores: dict[T, float] = {}
    for weight, ranking in results:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + weight / (RRF_K + rank)
    return sorted(scores.items(), key=lambda one: -one[1])  # a stable sort


def _others(query: Query, filters: Sequence[str], expansion: Expansion) -> list[tuple[str, Query]]:
    """Give the other queries, each with what it is called, under the same filters; the passage goes by meaning."""

    def asked(text: str, mode: Mode) -> Query:
        return query.model_copy(update={"text": " ".join((text, *filters)), "mode": mode})

    others = [(text, asked(text, query.mode)) for text in expansion.queries]
    if expansion.passage and query.mode != "keyword":
        others.append((PASSAGE, asked(plain_words(expansion.passage), "semantic")))
    return others


def _joined(
    original: SearchResult, others: Sequence[tuple[str, SearchResult]], best: float, *, by_chunk: bool
) -> list[Hit]:
    """Give the hits of all queries, each as the first of them found it, the best with a given score."""
    known: dict[_Key, _Key] = {}
    found: dict[_Key, tuple[Hit, str]] = {}
    rankings: list[tuple[float, list[_Key]]] = []
    for label, result in [("", original), *others]:
        keys = [_key(hit, known, by_chunk=by_chunk) for hit in result.hits]
        for key, hit in zip(keys, result.hits, strict=True):
            found.setdefault(key, (hit, label))
        own = UNCOVERED_WEIGHT if result.verdict == "none" else ORIGINAL_WEIGHT
        rankings.append((OTHER_WEIGHT if label else own, keys))
    fused = fuse_queries(rankings)
    scale = best / fused[0][1] if fused else 0.0
    return [
        with_part(hit, value * scale, Signal(name=_part(label), rank=rank, value=value, contribution=0))
        for rank, (key, value) in enumerate(fused, 1)
        for hit, label in [found[key]]
    ]


def _key(hit: Hit, known: dict[_Key, _Key], *, by_chunk: bool) -> _Key:
    """Give what tells a hit from others; of documents with the same text, each query may show another one."""
    mine = [(ref, hit.start_line if by_chunk else 0) for ref in (hit.ref, *hit.duplicates)]
    leader = next((known[one] for one in mine if one in known), mine[0])
    known |= dict.fromkeys(mine, leader)
    return leader


def _part(label: str) -> str:
    return f"{PART} ({label})" if label else PART


def _worth(result: SearchResult) -> int:
    return _VERDICTS.index(result.verdict)


def _best_score(result: SearchResult) -> float:
    return result.hits[0].score if result.hits else 0.0
