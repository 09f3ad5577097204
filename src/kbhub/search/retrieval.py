"""Rank chunks by words and by meaning, and fuse the two rankings, keeping what each signal adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.bm25 import NO_CHUNKS, Ranking, keys_of, numbered, scores, spread, union
from kbhub.index.bm25 import best_first as in_order
from kbhub.index.rows import Key, Place, Selection, inverse_document_frequency
from kbhub.index.signatures import Columns, Postings, likely, quantise
from kbhub.search.names import is_name
from kbhub.search.scores import RANKED, RRF_K, SIGNALS, Fused, SignalPart
from kbhub.types import Fusion
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kbhub.index.bm25 import Places
    from kbhub.index.engine import Index
    from kbhub.index.query.parser import Term

EACH = 10
"""Chunks per document if hits are documents: a change log with a word in each of 160 sections hid every other document
that has the word."""

LEAST_SIMILARITY = 0.2
"""Minimum cosine of a hit. 99 of 100 relevant chunks of four test collections are nearer, and mean nDCG@10 is the same
with and without it (.584, .583); it keeps small bases from "finding" everything they contain."""

MAX_WORDS = 256
"""Terms from which on no further phrase is replaced by its words: each is a lookup per base."""


NAME_PARTS = 8
"""Most words of a name; longer compounds are not meant as names."""


@struct
class WeightedTerm:
    """A term with its weight."""

    text: str
    """As typed."""
    stems: tuple[str, ...]
    weight: float
    """Inverse document frequency over all bases; for a term that occurs nowhere, the largest in the query."""
    found: bool = True
    """Whether it occurs anywhere."""


@struct
class Matches:
    """All chunks of a base with a query term, one array per field."""

    base: int
    """Number of the base."""
    columns: Columns
    """The index columns of the base."""
    positions: NDArray[np.int64]
    """Ascending."""
    documents: NDArray[np.int32]
    """Ids of their documents."""
    values: NDArray[np.float64]
    """BM25; larger is better."""


@struct
class KeywordRanking:
    """The result of the keyword signal."""

    ranking: Ranking
    """At most `RANKED`."""
    terms: tuple[WeightedTerm, ...]
    """In query order; a phrase that occurs nowhere is replaced by its words."""
    missing: tuple[Term, ...] = ()
    """Terms that occur in no base."""
    absent: tuple[str, ...] = ()
    """Names that occur in no base as typed, although some of their words do."""
    matches: tuple[Matches, ...] = ()
    """All matches per base."""
    coverage: float = 1.0
    """Largest share of the query's terms, by weight, that a single chunk has."""

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Terms that occur in no base as typed."""
        return (*(term.text for term in self.terms if not term.found), *self.absent)

    @property
    def finds_nothing(self) -> bool:
        """Whether there are terms, but none occurs."""
        return bool(self.terms) and not any(term.found for term in self.terms)


def keyword_ranking(
    indexes: Sequence[Index],
    terms: Sequence[Term],
    selections: Sequence[Selection | None] = (),
    each: int | None = EACH,
    others: Sequence[Sequence[Term]] = (),
    passage: Sequence[Term] = (),
) -> KeywordRanking:
    """Rank the chunks of all bases by BM25 with pooled statistics.

    Document count, document frequencies and mean length are summed over the bases, so the ranking does not depend on
    how a corpus is split into bases.

    Each index is within a snapshot; chunk keys contain its position. Empty `selections` select everything. `each`
    limits the chunks per document; None means no limit. `others` are the terms of each other wording: a term counts
    once for every wording that has it, and those that occur nowhere are ignored. `passage` has the terms of a made-up
    answer, which rank as those of another wording, and are not in the result.
    """
    allowed = selections or [None] * len(indexes)
    sizes = [index.size() for index in indexes]
    rows, tokens = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    counted, weighted, missing, absent = _counted(indexes, rows, terms, others, passage)
    weights = [times * inverse_document_frequency(rows, sum(map(len, postings))) for postings, times in counted]
    whole = sum(weights) + sum(term.weight for term in weighted if not term.found)
    matches, coverage = [], 0.0
    for number, (index, selection) in enumerate(zip(indexes, allowed, strict=True)):
        base_terms = [(postings[number], weight) for (postings, _), weight in zip(counted, weights, strict=True)]
        columns = index.columns()
        positions, values, covered = scores(base_terms, columns.lengths, tokens / max(rows, 1))
        if selection is not None:
            inside = columns.selected(selection.chunks)[positions]
            positions, values, covered = positions[inside], values[inside], covered[inside]
        coverage = max(coverage, float(covered.max(initial=0.0)) / (whole or 1.0))
        matches.append(Matches(number, columns, positions, columns.documents[positions], values))
    rankings = []
    for match in matches:
        chosen = spread(match.documents, match.values, RANKED, each)
        ids = match.columns.ids[match.positions[chosen]] + numbered(match.base)
        rankings.append(Ranking(ids, match.documents[chosen], match.values[chosen]))
    return KeywordRanking(_best(indexes, rankings), weighted, missing, absent, tuple(matches), coverage)


@struct
class SemanticRanking:
    """The result of the semantic signal."""

    ranking: Ranking
    """At most `RANKED`."""
    compared: NDArray[np.int64]
    """All chunks whose vector was compared, keyed as by `rankings.numbered`, ascending."""
    similarities: NDArray[np.float64]
    """Their cosines."""
    complete: bool = True
    """Whether every document with a near chunk is included."""


def semantic_ranking(
    indexes: Sequence[Index | None],
    vector: NDArray[np.float32],
    selections: Sequence[Selection | None] = (),
    others: NDArray[np.int64] = NO_CHUNKS,
    each: int | None = EACH,
) -> SemanticRanking:
    """Rank the chunks of all bases by cosine similarity to a vector of shape (dimensions,) and length 1.

    Arguments are as for `keyword_ranking`, with an index of None for a base with vectors of another embedder.
    `LEAST_SIMILARITY` does not apply to filtered selections. `others` are chunks to compare in any case, keyed as by
    `rankings.numbered`.
    """
    allowed = selections or [None] * len(indexes)
    comparable = [(number, index, allowed[number]) for number, index in enumerate(indexes) if index]
    signed = [index.signed(selection, len(vector)) for _, index, selection in comparable]
    near = likely(signed, vector, RANKED)
    every = sum(map(len, near)) == sum(np.count_nonzero(signs.signed & mask) for signs, mask in signed)
    quantised = quantise(vector)
    rankings, compared, similarities, close_by = [], [NO_CHUNKS], [np.zeros(0)], 0
    for (number, index, selection), positions in zip(comparable, near, strict=True):
        columns = index.columns()
        besides = others[(others >= numbered(number)) & (others < numbered(number + 1))] - numbered(number)
        ids, values = index.similarities(quantised, union(columns.ids[positions], besides))
        compared.append(chunks := ids + numbered(number))
        similarities.append(values)
        close = np.flatnonzero(
            values >= (-np.inf if selection is not None and selection.filtered else LEAST_SIMILARITY)
        )
        close_by += len(close)
        documents = columns.documents[columns.positions(ids[close])]
        chosen = spread(documents, values[close], RANKED, each)
        rankings.append(Ranking(chunks[close[chosen]], documents[chosen], values[close[chosen]]))
    ranking = _best(indexes, rankings)
    complete = every and (close_by <= RANKED or len(ranking) < RANKED)
    return SemanticRanking(ranking, np.concatenate(compared), np.concatenate(similarities), complete)


def _counted(
    indexes: Sequence[Index],
    rows: int,
    terms: Sequence[Term],
    others: Sequence[Sequence[Term]],
    passage: Sequence[Term],
) -> tuple[list[tuple[list[Postings], int]], tuple[WeightedTerm, ...], tuple[Term, ...], tuple[str, ...]]:
    """Look up each term in each base; a term that occurs nowhere is replaced by its words.

    Returns the postings per base of each term that occurs, and how many wordings have it; all terms with weights; terms
    that occur nowhere; names of which only words occur.
    """
    counted: dict[str, list[Postings]] = {}
    stems = dict.fromkeys(term.tokens[0] for wording in (terms, *others, passage) for term in wording if term.plain)
    for index in indexes:
        index.expect(stems)

    def occurs(term: Term) -> bool:
        if term.match not in counted:
            postings = [index.postings(term) for index in indexes]
            if not any(map(len, postings)):
                return False
            counted[term.match] = postings
        return True

    order: list[Term] = []
    missing: list[Term] = []
    absent: list[str] = []
    times: Counter[str] = Counter()
    for number, wording in enumerate((terms, *others, passage)):
        found: list[Term] = []
        for term in wording:
            # `maxRetries` also matches `max_retries`; if neither occurs, its words are searched for.
            forms = [form for form in (term, term.apart) if form and occurs(form)]
            many = len(term.tokens) > 1 or term.apart is not None
            full = many and len(counted) >= MAX_WORDS  # not looked up, so not reported as missing
            if not forms and many and not full:
                forms = [word for word in (term.apart or term).words() if occurs(word)]
                absent += [term.text] if not number and len(term.tokens) <= NAME_PARTS and is_name(term.text) else []
            found += forms
            if not (forms or full or number):
                found.append(term)
                missing.append(term)
        order += found if number <= len(others) else []
        times.update(term.match for term in dict.fromkeys(found))
    weights = {match: inverse_document_frequency(rows, sum(map(len, postings))) for match, postings in counted.items()}
    most = max(weights.values(), default=1.0)
    weighted = (
        WeightedTerm(term.text, term.tokens, weights.get(term.match, most), term.match in weights)
        for term in distinct(order)
    )
    postings = [(found, times[match]) for match, found in counted.items()]
    return postings, tuple(weighted), tuple(missing), tuple(absent)


def distinct(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Return terms without those whose stems an earlier one has."""
    by_stems: dict[tuple[str, ...], Term] = {}
    for term in terms:
        by_stems.setdefault(term.tokens, term)
    return tuple(by_stems.values())


def _best(indexes: Sequence[Index | None], rankings: Sequence[Ranking]) -> Ranking:
    """Merge the rankings of all bases."""
    return Ranking.joined(rankings).best(RANKED, places_in(indexes))


def places_in(indexes: Sequence[Index | None]) -> Places:
    """Return a function that looks up the places of chunks, which break ties."""

    def places(keys: Sequence[Key]) -> dict[Key, Place]:
        places_by_key: dict[Key, Place] = {}
        for number, index in enumerate(indexes):
            if index and (mine := [chunk for base, chunk in keys if base == number]):
                stored = index.places(mine)
                places_by_key |= {(number, chunk): (*stored.get(chunk, ("", chunk)), index.base) for chunk in mine}
        return places_by_key

    return places


SEMANTIC_SHARE = 0.3
"""Share of the semantic signal if both signals found something, and a chunk has the words of the query. Mean nDCG@10
over four collections: .579 at 0.1, .588 at 0.2, .592 at 0.3, .590 at 0.4, .584 at 0.5; docs/explanation/ranking.md has
the table."""

MOST_SEMANTIC_SHARE = 0.7
"""Its share if no chunk has many of them, so that BM25 ranks by everyday words."""

LOW_COVERAGE, HIGH_COVERAGE = 0.2, 0.5
"""Share of the query's terms, by weight, in the chunk that has most of them: up to the first the semantic share is
largest, from the second on smallest, and between them it falls evenly. docs/explanation/ranking.md has the figures."""

RRF_SEMANTIC = 0.3
"""Weight of the semantic list in rank fusion; the keyword list has 1. Equal weights are worse than keywords only."""


def fuse(
    rankings: Mapping[str, Ranking],
    compared: NDArray[np.int64],
    similarities: NDArray[np.float64],
    places: Places,
    fusion: Fusion = "convex",
    coverage: float = 1.0,
) -> list[Fused]:
    """Join the rankings of one query, `keyword` and `semantic`, over all bases; return all their chunks, best first.

    `convex` adds the signals' values, each divided by its largest (Bruch, Gai, Ingber: "An Analysis of Fusion
    Functions for Hybrid Retrieval", TOIS 2023), so that it matters how much better a chunk is, not only that it
    is. A chunk without a comparable vector counts as if its semantic value were as good as its keyword value. `rrf`
    adds reciprocals of the ranks.

    A signal that did not run has no ranking. `compared` are the chunks with a comparable vector, ascending, including
    ones outside the ranking, and `similarities` their cosines. `places` break ties. `coverage` is the largest share of
    the query's terms, by weight, that a single chunk has.
    """
    chunks, first = np.unique(np.concatenate([ranking.chunks for ranking in rankings.values()]), return_index=True)
    documents = np.concatenate([ranking.documents for ranking in rankings.values()])[first]
    columns = {signal: _column(rankings[signal], chunks) for signal in sorted(rankings)}
    if "semantic" in columns and fusion == "convex":
        columns["semantic"].fill(chunks, compared, similarities)
    amounts = _convex(columns, semantic_share(coverage)) if fusion == "convex" else _reciprocal(columns)
    scores = sum(amounts.values(), np.zeros(len(chunks)))
    order = in_order(chunks, scores, places)
    signals = [_SignalColumn(signal, column, amounts[signal], order) for signal, column in columns.items()]
    rows = zip(keys_of(chunks[order]), documents[order].tolist(), scores[order].tolist(), strict=True)
    return [
        Fused(key, document, partial(_parts, signals, at), (), score) for at, (key, document, score) in enumerate(rows)
    ]


@struct(frozen=False)
class _Column:
    """The values and ranks of one signal for each chunk."""

    values: NDArray[np.float64]
    """NaN without a value."""
    ranks: NDArray[np.int64]
    """0 for a chunk outside the ranking."""

    def fill(self, chunks: NDArray[np.int64], known: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add the values of chunks outside the ranking."""
        if len(known):
            at = np.minimum(np.searchsorted(known, chunks), len(known) - 1)
            self.values = np.where((known[at] == chunks) & (self.ranks == 0), values[at], self.values)


def _column(ranking: Ranking, chunks: NDArray[np.int64]) -> _Column:
    values, ranks = np.full(len(chunks), np.nan), np.zeros(len(chunks), np.int64)
    at = np.searchsorted(chunks, ranking.chunks)
    values[at], ranks[at] = ranking.values, np.arange(1, len(at) + 1)
    return _Column(values, ranks)


def semantic_share(coverage: float) -> float:
    """Return the share of the semantic signal for a coverage as in `fuse`."""
    missing = (HIGH_COVERAGE - coverage) / (HIGH_COVERAGE - LOW_COVERAGE)
    return SEMANTIC_SHARE + (MOST_SEMANTIC_SHARE - SEMANTIC_SHARE) * min(1.0, max(0.0, missing))


def _convex(columns: Mapping[str, _Column], share: float) -> dict[str, NDArray[np.float64]]:
    """Return what each signal adds to each chunk."""
    both = len([column for column in columns.values() if not np.isnan(column.values).all()]) == len(SIGNALS)
    shares = {"keyword": 1 - share, "semantic": share} if both else dict.fromkeys(columns, 1.0)
    amounts = {}
    for signal, column in columns.items():
        factor = shares[signal] / (np.nanmax(column.values, initial=0.0) or 1.0)
        amounts[signal] = factor * np.maximum(0.0, np.nan_to_num(column.values))
    if both:
        # A chunk without a vector is scored as if its semantic value equalled its keyword value.
        amounts["keyword"][np.isnan(columns["semantic"].values)] /= shares["keyword"]
    return amounts


def _reciprocal(columns: Mapping[str, _Column]) -> dict[str, NDArray[np.float64]]:
    """Return what each signal adds to each chunk."""
    weights = {"keyword": 1.0, "semantic": RRF_SEMANTIC}
    best = sum(weights[signal] for signal in columns) / (RRF_K + 1)
    return {
        signal: np.where(column.ranks > 0, weights[signal] / (RRF_K + column.ranks) / best, 0.0)
        for signal, column in columns.items()
    }


class _SignalColumn:
    """The values of one signal, in ranked order."""

    def __init__(self, signal: str, column: _Column, amounts: NDArray[np.float64], order: NDArray[np.int64]) -> None:
        self.signal = signal
        self.values, self.amounts, self.ranks = column.values[order], amounts[order], column.ranks[order]


def _parts(signals: Iterable[_SignalColumn], at: int) -> tuple[SignalPart, ...]:
    """Return what each signal with a value adds to one chunk."""
    return tuple(
        SignalPart(signal.signal, float(signal.values[at]), float(signal.amounts[at]), int(signal.ranks[at]) or None)
        for signal in signals
        if not isnan(signal.values[at])
    )
