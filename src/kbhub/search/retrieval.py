"""Rank chunks by words and by meaning, fuse the two, keeping what each adds, and take a second look at the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.index.engine import Index, Key, Place, Selection, inverse_document_frequency
from kbhub.index.matches import CHUNK_BITS, NO_CHUNKS, Places, Ranking, best_first, keys_of, scores, spread
from kbhub.index.query.parser import MARKS, RUN, Term
from kbhub.index.side_files import TransformerVectors
from kbhub.index.signatures import LEAST_COMPARED, Columns, Postings, likely
from kbhub.models.static_model import quantise, similarity
from kbhub.search.evidence import is_name, rarity
from kbhub.search.plan import RANKED, Candidate, OpenBases, Plan, RankingSignal, SignalPart, WeightedTerm, by_base
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNALS = ("keyword", "semantic")
"""Signals with a ranking of their own."""

EACH = 10
"""Chunks per document if hits are documents: a change log with a word in each of 160 sections hid every other document
that has the word."""

LEAST_SIMILARITY = 0.2
"""Minimum cosine of a hit. 99 of 100 relevant chunks of four test collections are nearer, and mean nDCG@10 is the same
with and without it (.584, .583); it keeps small bases from "finding" everything they contain."""

MAX_WORDS = 256
"""Number of terms beyond which phrases are no longer split into words: each word costs a lookup per base."""

FEW_CHUNKS = 100
"""Chunks with which a word's rarity in them counts as much as that in the language: in a few notes, a word such as
"long" is rare by chance. With 60, the gain is half; with 200, two collections lose .003 and .006."""

NAME_PARTS = 8
"""Most words of a name; longer compounds are not meant as names."""


@struct
class Matches:
    """All chunks of a base with a query term, one array per field."""

    base: int
    columns: Columns
    positions: NDArray[np.int64]
    """Ascending."""
    documents: NDArray[np.int32]
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
    unmatched: tuple[str, ...] = ()
    """These as typed, and names that occur in no base as typed, although some of their words do."""
    matches: tuple[Matches, ...] = ()
    coverage: float = 1.0
    """Largest share of the query's terms, by weight, that a single chunk has; pairs of Han or Kana count twice."""


def keyword_ranking(
    indexes: Sequence[Index],
    terms: Sequence[Term],
    selections: Sequence[Selection | None] = (),
    each: int | None = EACH,
    others: Sequence[Sequence[Term]] = (),
    passage: Sequence[Term] = (),
) -> KeywordRanking:
    """Rank the chunks of all bases by BM25, with statistics over all of them, however a corpus is split into bases.

    Chunk keys contain the position of their index. Empty `selections` select everything. `each` limits the chunks per
    document. `others` are the terms of each other wording: a term counts once for every wording that has it, and those
    that occur nowhere are ignored. `passage` has those of a made-up answer, which rank likewise and are not returned.
    """
    allowed = selections or [None] * len(indexes)
    every = [index.columns() for index in indexes]
    rows, tokens = sum([columns.chunks for columns in every]), sum([columns.tokens for columns in every])
    counted, weighted, missing, unmatched = looked_up(indexes, terms, others, passage)
    whole = sum([weight for _, weight in counted]) + sum([term.weight for term in weighted if not term.found])
    # A question shares fewer pairs of characters with its answer than words: those across two words are chance.
    paired = sum([term.weight for term in weighted if RUN.match(term.text)]) / (whole or 1.0)
    matches, rankings, coverage = [], [], 0.0
    for number, (columns, selection) in enumerate(zip(every, allowed, strict=True)):
        base_terms = [(postings[number], weight) for postings, weight in counted]
        positions, values, covered = scores(base_terms, columns.lengths, tokens / max(rows, 1))
        if selection is not None:
            inside = columns.selected(selection.chunks)[positions]
            positions, values, covered = positions[inside], values[inside], covered[inside]
        coverage = max(coverage, (1 + paired) * float(covered.max(initial=0.0)) / (whole or 1.0))
        documents = columns.documents[positions]
        matches.append(Matches(number, columns, positions, documents, values))
        chosen = spread(documents, values, RANKED, each)
        ids = columns.ids[positions[chosen]] + np.int64(number << CHUNK_BITS)
        rankings.append(Ranking(ids, documents[chosen], values[chosen]))
    ranking = Ranking.joined(rankings).best(RANKED, partial(places_of, indexes))
    return KeywordRanking(ranking, weighted, missing, unmatched, tuple(matches), coverage)


@struct
class SemanticRanking:
    """The result of the semantic signal."""

    ranking: Ranking
    """At most `RANKED`."""
    compared: NDArray[np.int64]
    """All chunks whose vector was compared, keyed as in `Ranking`, ascending."""
    similarities: NDArray[np.float64]
    """Their cosines."""
    complete: bool = True
    """Whether every document with a near chunk is included."""


NOTHING_NEAR = SemanticRanking(Ranking.joined(()), NO_CHUNKS, np.zeros(0))


def semantic_ranking(
    indexes: Sequence[Index | None],
    vector: NDArray[np.float32],
    selections: Sequence[Selection | None] = (),
    others: NDArray[np.int64] = NO_CHUNKS,
    each: int | None = EACH,
) -> SemanticRanking:
    """Rank the chunks of all bases by cosine similarity to a unit vector; see `keyword_ranking`.

    An index is None for a base with vectors of another embedder. `LEAST_SIMILARITY` does not apply to filtered
    selections. `others` are chunks to compare in any case, keyed as by `Ranking`.
    """
    allowed = selections or [None] * len(indexes)
    comparable = [(number, index, allowed[number]) for number, index in enumerate(indexes) if index]
    near = [np.flatnonzero(index.selected(selection)) for _, index, selection in comparable]
    if not (every := sum(map(len, near)) <= LEAST_COMPARED):  # fewer are all compared, and need no signatures
        signed = [index.signed(selection, len(vector)) for _, index, selection in comparable]
        near = likely(signed, vector, RANKED)
        every = sum(map(len, near)) == sum([np.count_nonzero(signs.signed & mask) for signs, mask in signed])
    quantised = quantise(vector)
    rankings, compared, similarities, close_by = [], [NO_CHUNKS], [np.zeros(0)], 0
    for (number, index, selection), positions in zip(comparable, near, strict=True):
        columns = index.columns()
        also = others[others >> CHUNK_BITS == number] - (number << CHUNK_BITS)
        wanted = np.union1d(columns.ids[positions], also)
        ids, values = index.similarities(quantised, wanted)
        compared.append(chunks := ids + (number << CHUNK_BITS))
        similarities.append(values)
        least = -np.inf if selection is not None and selection.filtered else LEAST_SIMILARITY
        close = np.flatnonzero(values >= least)
        close_by += len(close)
        documents = columns.documents[columns.positions(ids[close])]
        chosen = spread(documents, values[close], RANKED, each)
        rankings.append(Ranking(chunks[close[chosen]], documents[chosen], values[close[chosen]]))
    ranking = Ranking.joined(rankings).best(RANKED, partial(places_of, indexes))
    complete = every and (close_by <= RANKED or len(ranking.chunks) < RANKED)
    return SemanticRanking(ranking, np.concatenate(compared), np.concatenate(similarities), complete)


def looked_up(
    indexes: Sequence[Index], terms: Sequence[Term], others: Sequence[Sequence[Term]] = (), passage: Sequence[Term] = ()
) -> tuple[list[tuple[list[Postings], float]], tuple[WeightedTerm, ...], tuple[Term, ...], tuple[str, ...]]:
    """Look up each term in each base; a term that occurs nowhere is replaced by its words.

    Returns the postings per base of each term that occurs, with its weight times the wordings that have it; all terms
    with weights; terms that occur nowhere; these as typed, and names of which only words occur.
    """
    counted: dict[str, list[Postings]] = {}
    stems = dict.fromkeys([term.tokens[0] for wording in (terms, *others, passage) for term in wording if term.plain])

    def occurs(term: Term) -> bool:
        if term.match not in counted:
            postings = [index.postings(term, stems) for index in indexes]
            if not sum([len(found.positions) for found in postings]):
                return False
            counted[term.match] = postings
        return True

    order, missing, absent = dict[tuple[str, ...], Term](), list[Term](), list[str]()
    texts: dict[str, str] = {}
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
        for term in dict.fromkeys(found):
            times[term.match] += 1
            texts[term.match] = term.text
            if number <= len(others):  # terms with the same stems are one
                order.setdefault(term.tokens, term)
    rows = sum([index.columns().chunks for index in indexes])
    here, weights = rows / (FEW_CHUNKS + rows), dict[str, float]()
    for match, postings in counted.items():
        frequency = inverse_document_frequency(rows, sum([len(found.positions) for found in postings]))
        weights[match] = frequency * (here + (1 - here) * rarity(texts[match]))
    most = max(weights.values(), default=1.0)
    weighted = [
        WeightedTerm(term.text, term.tokens, weights.get(term.match, most), term.match in weights)
        for term in order.values()
    ]
    nowhere = (*[term.text for term in weighted if not term.found], *absent)
    unmatched = tuple([text.strip(MARKS) or text for text in nowhere])
    occurring = [(postings, times[match] * weights[match]) for match, postings in counted.items()]
    return occurring, tuple(weighted), tuple(missing), unmatched


def places_of(indexes: Sequence[Index | None], keys: Sequence[Key]) -> dict[Key, Place]:
    """Look up the places of chunks, which break ties."""
    places: dict[Key, Place] = {}
    for number, index in enumerate(indexes):
        if index and (mine := [chunk for base, chunk in keys if base == number]):
            stored = index.places(mine)
            places |= {(number, chunk): (*stored.get(chunk, ("", chunk)), index.base) for chunk in mine}
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


def fuse(
    rankings: Mapping[str, Ranking],
    compared: NDArray[np.int64],
    similarities: NDArray[np.float64],
    places: Places,
    coverage: float = 1.0,
) -> list[Candidate]:
    """Join the rankings of the signals of a query that ran, over all bases; return all their chunks, best first.

    The signals' values are added, each divided by its largest (Bruch, Gai, Ingber: "An Analysis of Fusion Functions for
    Hybrid Retrieval", TOIS 2023), so that it matters how much better a chunk is. `compared` are the chunks with a
    comparable vector, ascending, including ones outside the ranking, and `similarities` their cosines. `places` break
    ties. `coverage` is that of the keyword ranking.
    """
    joined = Ranking.joined(list(rankings.values()))
    chunks, first = np.unique(joined.chunks, return_index=True)
    values: dict[str, NDArray[np.float64]] = {}  # NaN without a value
    ranks: dict[str, NDArray[np.int64]] = {}  # 0 outside the ranking
    for signal in sorted(rankings):
        at = np.searchsorted(chunks, rankings[signal].chunks)
        values[signal], ranks[signal] = np.full(len(chunks), np.nan), np.zeros(len(chunks), np.int64)
        values[signal][at], ranks[signal][at] = rankings[signal].values, np.arange(1, len(at) + 1)
    if "semantic" in values and len(compared):
        at = np.minimum(np.searchsorted(compared, chunks), len(compared) - 1)
        known = (compared[at] == chunks) & (ranks["semantic"] == 0)
        values["semantic"] = np.where(known, similarities[at], values["semantic"])
    share = falling(coverage, LOW_COVERAGE, HIGH_COVERAGE, MOST_SEMANTIC_SHARE, SEMANTIC_SHARE)
    both = len(values) == len(SIGNALS) and not any(map(np.all, map(np.isnan, values.values())))
    shares, amounts = {"keyword": 1 - share, "semantic": share} if both else dict.fromkeys(values, 1.0), {}
    for signal, column in values.items():
        factor = shares[signal] / (np.nanmax(column, initial=0.0) or 1.0)
        amounts[signal] = factor * np.maximum(0.0, np.nan_to_num(column))
    if both:
        # A chunk without a vector is scored as if its semantic value equalled its keyword value.
        amounts["keyword"][np.isnan(values["semantic"])] /= shares["keyword"]
    total = sum(amounts.values(), np.zeros(len(chunks)))
    order = best_first(chunks, total, places)
    columns = [
        (signal, values[signal][order].tolist(), amount[order].tolist(), ranks[signal][order].tolist())
        for signal, amount in amounts.items()
    ]
    hits = []
    rows = zip(keys_of(chunks[order]), joined.documents[first][order].tolist(), total[order].tolist(), strict=True)
    for row, (key, document, score) in enumerate(rows):
        parts = [
            SignalPart(signal, own[row], amount[row], rank[row] or None)
            for signal, own, amount, rank in columns
            if not isnan(own[row])
        ]
        hits.append(Candidate(key, (key[0], document), tuple(parts), (), score))
    return hits


def falling(coverage: float, low: float, high: float, most: float, least: float) -> float:
    """Return a share that falls evenly from `most` at a low coverage to `least` at a high one."""
    return least + (most - least) * min(1.0, max(0.0, (high - coverage) / (high - low)))


SECOND_LOOK = "second_look"

CANDIDATES = 50
"""Best chunks by each signal that are reranked: 89 % of the answers to questions in whole sentences are among the
first 20, and a perfect order of the best 50 of each would have nearly all."""

MOST_SHARE, LEAST_SHARE = 0.75, 0.1
FEW_WORDS, MANY_WORDS = 0.25, 0.65
"""Share of the transformer in a candidate's score: MOST_SHARE up to a coverage of FEW_WORDS (the share of query terms,
by weight, in the best chunk), LEAST_SHARE from MANY_WORDS, linear between. On a base of 949 documents, nDCG@10 of
85 questions is .591 without and .689 with it; docs/explanation/ranking.md has the table."""

LEAST_KNOWN = 0.5
"""Share of the candidates that must have a vector; with fewer, their order would be a matter of which have one."""


def _look_again(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Mix in cosines to the query and its other wordings, unless too few chunks have a vector."""
    model = bases.hub.transformer() if plan.both and plan.asks_for(SECOND_LOOK) else None
    if model is None or any(is_name(term.text) for term in plan.parsed.terms):  # it knows no names of programs
        return
    wanted = [hit.key for hit in hits if any(part.rank and part.rank <= CANDIDATES for part in hit.parts)]
    vectors: dict[Key, bytes] = {}
    for number, chunks in by_base(wanted).items():
        index = bases.open[number].index
        keys = index.text_keys(chunks)
        stored = TransformerVectors(index.path, model.fingerprint).get(keys.values())
        for chunk, key in keys.items():
            # A text that the model cannot read has zeros.
            if len(vector := stored.get(key, b"")) == model.dimensions and any(vector):
                vectors[number, chunk] = vector
    if not vectors or len(vectors) < LEAST_KNOWN * len(wanted):
        return
    try:
        asked = model.embed_query(plan.text)
    except EmbedderError as error:
        bases.notes.append(f"Not reranked: {error}")
        return
    if asked.any():  # zeros for a query in another language than the model's
        cosines = similarity(list(vectors.values()), quantise(asked))
        share = falling(plan.coverage, FEW_WORDS, MANY_WORDS, MOST_SHARE, LEAST_SHARE)
        mix(hits, dict(zip(vectors, cosines, strict=True)), share)


def mix(hits: Sequence[Candidate], similarities: Mapping[Key, float], weight: float) -> None:
    """Mix cosines, stretched to the range of the scores of candidates that have one, into these with a weight."""
    sums = {hit.key: sum(part.amount for part in hit.parts) for hit in hits if hit.key in similarities}
    values = [similarities[key] for key in sums]
    if not values or max(values) <= min(values):
        return
    low, least = min(sums.values()), min(values)
    stretch = (max(sums.values()) - low) / (max(values) - least)
    for hit in hits:
        if hit.key in sums:
            value = similarities[hit.key]
            amount = weight * (low + stretch * (value - least) - sums[hit.key])
            hit.add(SignalPart(SECOND_LOOK, value, amount), zero=True)


SECOND_LOOK_SIGNAL = RankingSignal((SECOND_LOOK,), _look_again)
