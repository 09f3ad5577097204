"""Rank the chunks of open indexes for a query. Reads only; clock and embedder are injected."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.bm25 import NO_CHUNKS, Ranking, first_of_each, numbered
from kbhub.index.engine import Index
from kbhub.index.query.parser import ParsedQuery, Term, parsed
from kbhub.index.rows import ChunkRow, DocumentRow, Key, Selection
from kbhub.index.selection import known_keys, newest, paths_of, select
from kbhub.search.conversations import SIGNAL as NEWER
from kbhub.search.conversations import SIGNALS as SPOKEN
from kbhub.search.conversations import newer_first
from kbhub.search.days import AMOUNT as TIME_AMOUNT
from kbhub.search.days import SIGNAL as TIME
from kbhub.search.days import asked_time, own_time, without_time
from kbhub.search.evidence import AMOUNTS
from kbhub.search.hits import Group, HitContext, OpenBase, ReadCache, age_days, described, grouped
from kbhub.search.names import SIGNAL as NAME
from kbhub.search.names import is_name, named_first
from kbhub.search.notes import ENDS_WITH_BOTH, ENDS_WITH_NEAREST
from kbhub.search.rerank_text import LOOKED_AT, Ranked, answer_confidence, rerank
from kbhub.search.rerank_transformer import SIGNAL as SECOND_LOOK
from kbhub.search.rerank_transformer import candidates, mix, share
from kbhub.search.retrieval import (
    EACH,
    KeywordRanking,
    Matches,
    SemanticRanking,
    WeightedTerm,
    distinct,
    fuse,
    keyword_ranking,
    places_in,
    semantic_ranking,
)
from kbhub.search.scores import PACKAGED, SIGNALS, Fused, RankedPage, SignalPart, best_first, verdict
from kbhub.search.spelling import PUNCTUATION, Respelling, corrected, corrections
from kbhub.types import Base, Correction, Mode, Query
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kbhub.index.bm25 import Places

    Rerank = Callable[[str, Sequence[OpenBase], Sequence[Key]], Mapping[Key, float]]
    Weigh = Callable[[list[Fused]], list[Fused]]
    """Applies the factors of whole bases and documents, and sorts by score."""

log = logging.getLogger(__name__)

HALF_LIFE_DAYS = 180.0
"""Age at which the score is halved with a recency weight of 1; the same time in which a memory fades."""


def selections_of(searched: Sequence[OpenBase], asked: ParsedQuery, now: float) -> list[Selection | None]:
    """Select what a query may find in each base; each index is within a snapshot.

    `now`, for `age:`, is in seconds since the epoch.
    """
    selections: dict[int, Selection | None] = {}
    # Deepest first, so that inner bases are selected before the bases around them.
    for number in sorted(range(len(searched)), key=lambda number: -len(searched[number].base.path.parts)):
        outer = searched[number].base
        elsewhere = [
            (searched[other].base.path.relative_to(outer.path) / path).as_posix()
            for other, selection in selections.items()
            if outer.path in searched[other].base.path.parents
            for path in paths_of(searched[other].index, selection)
        ]
        names = {outer.id, *outer.names}
        selections[number] = select(searched[number].index, names, asked.filters, asked.excluded, now, elsewhere)
    return [selections[number] for number in range(len(searched))]


@struct
class Dependencies:
    """Dependencies of a search besides the indexes."""

    now: float
    """Seconds since the epoch, for ages."""
    embed: Callable[[str], NDArray[np.float32] | None]
    """Returns the unit vector of a text, or None to leave out the semantic signal."""
    bases: Sequence[Base]
    """All bases a ref may name, searched or not."""
    model: str | None = PACKAGED
    """The model of the vectors, a key of `confidence.MODELS`."""
    contexts: Mapping[str, str] = field(default_factory=dict)
    """Contexts of the global config, for every base."""
    standing: Callable[[OpenBase, Sequence[str]], Mapping[str, float]] = lambda *_: {}
    """Returns score factors of memories by path, for bases that hold memories."""
    gone_since: Callable[[Base, str], float | None] = lambda *_: None
    """Returns when the file of a kept text was first found missing, by base and path; seconds since the epoch."""
    rerank: Rerank | None = None
    """Compares chunks with a text by a better model; None for no reranking by one."""


def find(
    query: Query, searched: Sequence[OpenBase], dependencies: Dependencies, *, everything: bool = True
) -> RankedPage:
    """Rank the chunks of open indexes, each within a snapshot, for a query and describe the best ones.

    `everything` says that no requested base is missing here; only then can the answer say what occurs nowhere.
    """
    complete = everything and bool(searched) and all(base.complete for base in searched)
    indexes, now = [base.index for base in searched], dependencies.now
    understood = understand(query.text, indexes)
    selections = selections_of(searched, understood, now)
    others, passage = [parsed(wording) for wording in query.queries], parsed(query.passage)
    asked_for = understood.terms if TIME in query.without else without_time(understood.terms, query.text, now)
    if not understood.terms and (understood.filters or understood.excluded):
        return _listing(query, understood, searched, selections, dependencies, complete=complete)
    keyword = KeywordRanking(Ranking.joined(()), ())
    fixes: tuple[Respelling, ...] = ()
    if query.mode != "semantic":
        keyword, fixes = _by_words(query, indexes, asked_for, selections, others, passage)
    question = corrected(understood.text, fixes)
    text = " ".join(filter(None, (question, *(other.text for other in others), passage.text)))
    vector = dependencies.embed(text) if query.mode != "keyword" and text.strip() else None
    if vector is None and query.mode == "semantic":
        keyword, fixes = _by_words(query, indexes, asked_for, selections, others, passage)
    rankings, near = _rankings(query, searched, keyword, vector, selections)
    documents = ReadCache(searched)
    fused = fuse(rankings, near.compared, near.similarities, places_in(indexes), query.fusion, keyword.coverage)
    if (model := _reranker(query, understood, dependencies)) and len(rankings) == len(SIGNALS):
        fused = mix(fused, model(text, searched, candidates(rankings.values())), share(keyword.coverage))
    sought = distinct((*asked_for, *(term for other in others for term in other.terms)))
    looked_for = keyword.terms or tuple(WeightedTerm(term.text, term.tokens, 1.0) for term in sought)
    ranked, older = _by_documents(query, fused, question, looked_for, documents, dependencies)
    replaced = {fix.typed for fix in fixes}
    trust = answer_confidence(
        ranked,
        list(dict.fromkeys(term.text for term in looked_for)),
        [index.size()[0] for index in indexes],
        dependencies.model if vector is not None else None,
        as_asked={term.text for term in looked_for} <= {term.text for term in sought},
        absent=complete and any(map(is_name, set(keyword.unmatched) - replaced)),
    )
    hits = [hit for hit in ranked.fused if query.min_signals < 2 or _signals_of(hit) >= query.min_signals]
    scale = trust / hits[0].score if hits and hits[0].score else 0.0
    if query.min_score:
        hits = [hit for hit in hits if hit.score * scale >= query.min_score]
    page, total = _page(query, hits, ranked, keyword if "keyword" in rankings else None, scale, documents, dependencies)
    terms = (*sought, *(fix.term for fix in fixes))
    contexts, bases, gone = dependencies.contexts, dependencies.bases, dependencies.gone_since
    manner = HitContext(query, terms, scale, now, contexts, bases, gone, older)
    mode: Mode = "hybrid" if len(rankings) == len(SIGNALS) else "keyword" if "keyword" in rankings else "semantic"
    log.debug("%s: terms %d, ranked %d, hits %d, confidence %.2f", mode, len(terms), len(fused), total, trust)
    return RankedPage(
        described(page, documents, manner),
        total,
        mode,
        understood,
        (*(term.text for term in sought), *(fix.used for fix in fixes)),
        tuple(word for word in keyword.unmatched if word not in replaced) if complete else (),
        tuple(Correction(typed=fix.typed, used=fix.used) for fix in fixes),
        verdict(trust if hits else 0.0) if complete else None,
        complete and all(selection is not None and not selection.documents for selection in selections),
        complete and keyword.finds_nothing,
        total <= query.offset + query.limit,
        _ends(query, rankings, keyword, near),
    )


def understand(text: str, indexes: Sequence[Index]) -> ParsedQuery:
    """Parse a query; `key:value` is a filter only if some document has that key in its front matter.

    `indexes` are those of all bases searched, each within a snapshot.
    """
    query = parsed(text)
    if not query.keys:
        return query
    return parsed(text, frozenset().union(*(known_keys(index, query.keys) for index in indexes)))


def _listing(
    query: Query,
    understood: ParsedQuery,
    searched: Sequence[OpenBase],
    selections: Sequence[Selection | None],
    dependencies: Dependencies,
    *,
    complete: bool,
) -> RankedPage:
    """List the filtered documents, newest first, for a query without words to rank by."""
    end = min(query.offset + query.limit, sys.maxsize)  # SQLite counts no further
    rows = [
        (-day, number, chunk)
        for number, (base, selection) in enumerate(zip(searched, selections, strict=True))
        for chunk, day in newest(base.index, selection, end)
    ]
    places = places_in([base.index for base in searched])([row[1:] for row in rows])
    ordered = sorted(rows, key=lambda row: (row[0], places[row[1:]][0], row[1]))[query.offset : end]
    documents = ReadCache(searched)
    read = documents.chunks(row[1:] for row in ordered)
    fused = [Fused((number, chunk), read[number, chunk].document_id, ()) for _, number, chunk in ordered]
    groups = grouped(fused, {}, by_document=True)
    manner = HitContext(
        query, (), 0.0, dependencies.now, dependencies.contexts, dependencies.bases, dependencies.gone_since
    )
    total = sum(
        base.index.counts()[0] if selection is None else selection.documents
        for base, selection in zip(searched, selections, strict=True)
    )
    return RankedPage(
        described(groups, documents, manner), total, query.mode, understood, filtered_out=complete and not total
    )


def _page(
    query: Query,
    kept: Sequence[Fused],
    ranked: Ranked,
    keyword: KeywordRanking | None,
    scale: float,
    documents: ReadCache,
    dependencies: Dependencies,
) -> tuple[list[Group], int]:
    """Return one page of hits and the total: ranked hits first, then all others with a word of the query."""
    by_document = query.granularity == "document"
    groups = grouped(kept, ranked.evidence, by_document=by_document)
    matches = keyword.matches if keyword and query.min_signals == 1 else ()
    rest = Remaining(matches, ranked.fused, by_document=by_document)
    weigh = (
        partial(_weighed, query, documents=documents, dependencies=dependencies) if _uneven(query, documents) else None
    )
    return rest.page(query, groups, scale, places_in([base.index for base in documents.searched]), weigh)


def _ends(query: Query, rankings: Mapping[str, Ranking], keyword: KeywordRanking, near: SemanticRanking) -> str:
    """Return a note on where an incomplete list ends; empty if it is complete."""
    if query.min_signals > 1 and len(rankings) == len(SIGNALS):
        every = near.complete and sum(len(match.positions) for match in keyword.matches) == len(keyword.ranking)
        return "" if every else ENDS_WITH_BOTH
    return ENDS_WITH_NEAREST if "keyword" not in rankings and not near.complete else ""


def _by_words(
    query: Query,
    indexes: Sequence[Index],
    terms: tuple[Term, ...],
    selections: Sequence[Selection | None],
    others: Sequence[ParsedQuery],
    passage: ParsedQuery,
) -> tuple[KeywordRanking, tuple[Respelling, ...]]:
    """Rank by words, replacing misspelt ones that occur nowhere."""

    def ranked(terms: tuple[Term, ...]) -> KeywordRanking:
        wordings = [other.terms for other in others]
        return keyword_ranking(indexes, terms, selections, _each(query), wordings, passage.terms)

    ranking = ranked(terms)
    fixes = corrections(indexes, ranking.missing) if ranking.missing else ()
    if not fixes:
        return ranking, ()
    replacements = {fix.typed: fix.term for fix in fixes}
    fixed = tuple(
        replacements.get(term.text.strip(PUNCTUATION), term) if term in ranking.missing else term for term in terms
    )
    return ranked(fixed), fixes


def _each(query: Query) -> int | None:
    return EACH if query.granularity == "document" else None


def _rankings(
    query: Query,
    searched: Sequence[OpenBase],
    keyword: KeywordRanking,
    vector: NDArray[np.float32] | None,
    selections: Sequence[Selection | None],
) -> tuple[dict[str, Ranking], SemanticRanking]:
    """Return the ranking per signal, and the details of the semantic one."""
    rankings: dict[str, Ranking] = {}
    near = SemanticRanking(Ranking.joined(()), NO_CHUNKS, np.zeros(0))
    if query.mode != "semantic" or vector is None:
        rankings["keyword"] = keyword.ranking
    if vector is not None and not ("semantic" in query.without and rankings):
        comparable = [base.index if base.comparable else None for base in searched]
        others = rankings["keyword"].chunks if "keyword" in rankings else NO_CHUNKS
        near = semantic_ranking(comparable, vector, selections, others, _each(query))
        rankings["semantic"] = near.ranking
    if "keyword" in query.without and "semantic" in rankings:
        rankings.pop("keyword", None)
    return rankings, near


def _named(query: Query, fused: list[Fused], text: str, documents: ReadCache) -> list[Fused]:
    """Lift documents named by the query, unless that signal is off."""
    left_out = query.mode == "semantic" or NAME in query.without
    return fused if left_out else named_first(fused, text, documents.paths)


def _by_documents(
    query: Query,
    fused: list[Fused],
    question: str,
    terms: Sequence[WeightedTerm],
    documents: ReadCache,
    dependencies: Dependencies,
) -> tuple[Ranked, dict[Key, list[Key]]]:
    """Rank by what documents are and say; return the ranking, and chunk → older chunks that it replaces."""
    fused = _timed(query, _named(query, fused, question, documents), documents, dependencies.now)
    fused = _weighed(query, fused, documents, dependencies)
    ranked = _by_texts(query, fused, terms, documents)
    return _newer_first(query, ranked, terms, documents, dependencies.now)


def _timed(query: Query, fused: list[Fused], documents: ReadCache, now: float) -> list[Fused]:
    """Lift what was written at the time that the query asks for, unless that signal is off."""
    asked = None if query.mode == "semantic" or TIME in query.without else asked_time(query.text, now)
    if asked is None:
        return fused
    texts = _texts(fused, documents)
    times = [own_time(*texts[hit.key]) for hit in fused]
    near = [0.0 if when is None else asked.nearness(when) for when in times]
    name = f'{TIME} "{asked.span}"'
    return best_first(
        hit.and_parts([SignalPart(name, value, TIME_AMOUNT * value)]) for hit, value in zip(fused, near, strict=True)
    )


def _weighed(query: Query, fused: list[Fused], documents: ReadCache, dependencies: Dependencies) -> list[Fused]:
    """Apply the factors of whole bases and documents: weight, memory strength, recency."""
    if not _uneven(query, documents):
        return fused
    bases = [searched.base for searched in documents.searched]
    weights = {base.weight for base in bases}
    memories = [number for number, base in enumerate(bases) if base.kind == "memory"]
    weighed = [hit.times("weight", bases[hit.key[0]].weight / max(weights)) for hit in fused]
    for number in memories:
        paths = documents.paths(hit.document_key for hit in weighed if hit.key[0] == number)
        factors = dependencies.standing(documents.searched[number], list(paths.values())) if paths else {}
        weighed = [hit.times("strength", factors.get(paths.get(hit.document_key, ""), 1.0)) for hit in weighed]
    if query.recency:
        rows = documents.documents({hit.document_key for hit in weighed})
        ages = {key: age_days(row, dependencies.now) for key, row in rows.items()}
        weighed = [hit.times("recency", recency(ages[hit.document_key], query.recency)) for hit in weighed]
    return best_first(weighed)


def _uneven(query: Query, documents: ReadCache) -> bool:
    """Whether any factor of whole bases or documents applies."""
    bases = [searched.base for searched in documents.searched]
    return query.recency > 0 or len({base.weight for base in bases}) > 1 or any(b.kind == "memory" for b in bases)


def recency(age: float, weight: float) -> float:
    """Return the recency factor for an age in days.

    A weight of 0 ignores age; 1 halves the score every `HALF_LIFE_DAYS`.
    """
    return 1 - weight * (1 - math.exp2(-age / HALF_LIFE_DAYS))


def _by_texts(query: Query, fused: Sequence[Fused], terms: Sequence[WeightedTerm], documents: ReadCache) -> Ranked:
    texts = _texts(fused[:LOOKED_AT], documents)
    return rerank(fused, terms, texts, (*AMOUNTS, *SPOKEN) if query.mode == "semantic" else query.without)


def _reranker(query: Query, understood: ParsedQuery, dependencies: Dependencies) -> Rerank | None:
    """Return the transformer's reranking, or None for a query with names of programs, which it does not know."""
    if query.mode != "hybrid" or SECOND_LOOK in query.without or any(is_name(term.text) for term in understood.terms):
        return None
    return dependencies.rerank


def _newer_first(
    query: Query, ranked: Ranked, terms: Sequence[WeightedTerm], documents: ReadCache, now: float
) -> tuple[Ranked, dict[Key, list[Key]]]:
    """Lift newer statements above older ones about the same thing, unless that signal is off or a time is asked for."""
    if NEWER in query.without or query.mode == "semantic" or asked_time(query.text, now):
        return ranked, {}
    kinds = [searched.base.kind for searched in documents.searched]
    said = [
        hit
        for hit in ranked.fused
        if hit.key in ranked.spoken or (hit.key in ranked.evidence and kinds[hit.key[0]] == "memory")
    ]
    if len(said) < 2:
        return ranked, {}
    fused, older = newer_first(ranked.fused, _texts(said, documents), terms, query.text)
    return Ranked(tuple(fused), ranked.evidence, ranked.spoken), older


def _texts(fused: Sequence[Fused], documents: ReadCache) -> dict[Key, tuple[ChunkRow, DocumentRow]]:
    """Return the chunks of hits with their documents."""
    chunks = documents.chunks(hit.key for hit in fused)
    rows = documents.documents({hit.document_key for hit in fused})
    return {hit.key: (chunks[hit.key], rows[hit.document_key]) for hit in fused}


def _signals_of(hit: Fused) -> int:
    return len([part for part in hit.parts if part.signal in SIGNALS and part.rank])


class Remaining:
    """The hits that follow the ranked ones, best first.

    They are ordered by keyword score only, scaled so that none exceeds the last ranked hit. `matches` has all chunks
    with a word of the query, per base; `by_document` makes a hit of each document rather than of each chunk.
    """

    def __init__(self, matches: Sequence[Matches], fused: Sequence[Fused], *, by_document: bool) -> None:
        self._by_document = by_document
        self._last = fused[-1].score if fused else 0.0
        self._most = max((float(base.values.max(initial=0.0)) for base in matches), default=0.0)
        ranked: dict[int, list[int]] = {base.base: [] for base in matches}
        for hit in fused:
            if hit.key[0] in ranked:
                ranked[hit.key[0]].append(hit.document if by_document else hit.key[1])
        self._left = [(base, *self._outside(base, ranked[base.base])) for base in matches]

    def __len__(self) -> int:
        """Return the number of remaining hits."""
        return sum(count for _, _, count in self._left)

    def page(
        self, query: Query, ranked: Sequence[Group], scale: float, places: Places, weigh: Weigh | None = None
    ) -> tuple[list[Group], int]:
        """Return the hits of a page, ranked and remaining, and the number of all.

        `scale` is a factor for scores; `places` break ties. `weigh` is None if no factors of bases and documents apply.
        """
        start, stop, count = query.offset - len(ranked), query.offset + query.limit - len(ranked), len(self)
        ordered, smaller = list[Fused](), 1.0
        if query.min_score and count:
            if self._last * scale >= query.min_score:
                ordered, smaller = self._ordered(count, places, weigh)
            count = len([hit for hit in ordered if hit.score * smaller * scale >= query.min_score])
        stop = min(stop, count)
        page = list(ranked[query.offset : query.offset + query.limit])
        if stop > max(start, 0):
            if not ordered:
                ordered, smaller = self._ordered(stop, places, weigh)
            page += [self._group(hit, smaller) for hit in ordered[max(start, 0) : stop]]
        return page, len(ranked) + count

    def _ordered(self, wanted: int, places: Places, weigh: Weigh | None) -> tuple[list[Fused], float]:
        """Return at least the first `wanted` hits, and the factor for their scores."""
        hits = Ranking.joined([self._hits(base, outside) for base, outside, _ in self._left])
        hits = hits.best(len(hits) if weigh else min(wanted, len(hits)), places)
        rows = zip(hits.as_keys(), hits.documents.tolist(), (hits.values / self._most).tolist(), strict=True)
        ordered = [Fused(key, document, (), (), share) for key, document, share in rows]
        if weigh:
            ordered = weigh(ordered)
        best = ordered[0].score
        return ordered, min(1.0, self._last / best) if best else 0.0

    def _outside(self, matches: Matches, ranked: Sequence[int]) -> tuple[NDArray[np.bool_], int]:
        """Return a mask of a base's matches outside all ranked hits, and how many hits they make."""
        if not self._by_document:
            outside = np.isin(matches.positions, matches.columns.positions(ranked), invert=True)
            return outside, int(np.count_nonzero(outside))
        documents = np.zeros(1 + int(matches.documents.max(initial=0)), np.bool_)
        documents[matches.documents] = True
        documents[[document for document in ranked if document < len(documents)]] = False
        return documents[matches.documents], int(np.count_nonzero(documents))

    def _hits(self, matches: Matches, outside: NDArray[np.bool_]) -> Ranking:
        """Return the best chunk of each hit in a base, unordered."""
        positions, documents, values = matches.positions[outside], matches.documents[outside], matches.values[outside]
        if self._by_document:
            best = first_of_each(documents, values, 1)
            positions, documents, values = positions[best], documents[best], values[best]
        return Ranking(matches.columns.ids[positions] + numbered(matches.base), documents, values)

    def _group(self, hit: Fused, scale: float) -> Group:
        """Return a hit, if by document with the document's other matches."""
        base = next(base for base, _, _ in self._left if base.base == hit.key[0])
        rows = np.flatnonzero(base.documents == hit.document)
        ids, values = base.columns.ids[base.positions[rows]], base.values[rows]
        at = int(np.flatnonzero(ids == hit.key[1])[0])
        part = SignalPart("keyword", float(values[at]), float(values[at]) / self._most * scale)
        best = Fused(hit.key, hit.document, (part,), hit.factors)
        if not self._by_document:
            return Group([best], [])
        order = [place for place in np.argsort(-values, kind="stable") if place != at]
        return Group([best, *(Fused((base.base, int(ids[place])), hit.document, ()) for place in order)], [])
