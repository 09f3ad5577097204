"""Query → one ranking per signal over all bases. Each signal is merged on one scale before anything is fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.bm25 import scores
from kbhub.identifiers import is_name
from kbhub.ranking import inverse_document_frequency
from kbhub.rankings import NO_CHUNKS, Ranking, numbered, spread, union
from kbhub.signatures import likely
from kbhub.values import struct
from kbhub.vectors import quantise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.index import Index
    from kbhub.index.columns import Columns
    from kbhub.index.postings import Postings
    from kbhub.index.selection import Selection
    from kbhub.query import Term
    from kbhub.ranking import Key, Place
    from kbhub.rankings import Places

RANKED = 100
"""Chunks per signal that go into the fusion; what is further down does not reach a page people look at."""

EACH = 10
"""Chunks of one document among these, where a hit is a document: a change log that has a word in each of 160 sections
hid every other document that has it."""

LEAST_SIMILARITY = 0.2
"""Cosine from which a chunk counts as near. 99 of 100 relevant chunks of four test collections are nearer, and the
mean nDCG@10 is the same with and without it (.584, .583); it keeps small bases from "finding" all they have."""

MAX_WORDS = 256
"""Terms from which on no further phrase gives way to its words: each is a look-up per base."""


NAME_PARTS = 8
"""Words of a name at most; what is joined of more was not meant as one."""


@struct
class WeightedTerm:
    """A term with what it says about a chunk that has it."""

    text: str
    """As the user wrote it."""
    stems: tuple[str, ...]
    weight: float
    """Inverse document frequency over all bases; of one that occurs nowhere, the largest of the query."""
    found: bool = True
    """Whether it occurs anywhere."""


@struct
class Matches:
    """All chunks of a base that have a term, a column each."""

    base: int
    """Its number."""
    columns: Columns
    """Of the base."""
    positions: NDArray[np.int64]
    """Ascending."""
    documents: NDArray[np.int32]
    """Ids of their documents."""
    values: NDArray[np.float64]
    """BM25; larger is better."""


@struct
class KeywordRanking:
    """What the keyword signal found."""

    ranking: Ranking
    """At most `RANKED`."""
    terms: tuple[WeightedTerm, ...]
    """In the order of the query; the words of a phrase where the phrase itself occurs nowhere."""
    missing: tuple[Term, ...] = ()
    """Terms that occur in no base."""
    absent: tuple[str, ...] = ()
    """Names that occur in no base as they were typed, although words of theirs do."""
    matches: tuple[Matches, ...] = ()
    """What was ranked, of each base."""

    @property
    def unmatched(self) -> tuple[str, ...]:
        """What occurs in no base as it was typed."""
        return (*(term.text for term in self.terms if not term.found), *self.absent)

    @property
    def finds_nothing(self) -> bool:
        """Whether there are terms, and none of them occurs."""
        return bool(self.terms) and not any(term.found for term in self.terms)


def keyword_ranking(
    indexes: Sequence[Index],
    terms: Sequence[Term],
    selections: Sequence[Selection | None] = (),
    each: int | None = EACH,
) -> KeywordRanking:
    """Rank the chunks of all bases by BM25 with pooled statistics.

    Document count, document frequencies and mean length are summed over the bases, so one corpus gives the same
    ranking however it is cut into bases.

    Args:
        indexes: one per base, each within a snapshot; a chunk's key holds its place in this sequence.
        terms: what to look for.
        selections: what may be found in each base; empty for everything.
        each: chunks of one document at most; none for any number.
    """
    allowed = selections or [None] * len(indexes)
    sizes = [index.size() for index in indexes]
    rows, tokens = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    counted, weighted, missing, absent = _counted(indexes, terms, rows)
    weights = [inverse_document_frequency(rows, sum(map(len, found))) for found in counted]
    matches = []
    for number, (index, selection) in enumerate(zip(indexes, allowed, strict=True)):
        here = [(postings[number], weight) for postings, weight in zip(counted, weights, strict=True)]
        columns = index.columns()
        positions, values = scores(here, columns.lengths, tokens / max(rows, 1))
        if selection is not None:
            inside = columns.selected(selection.chunks)[positions]
            positions, values = positions[inside], values[inside]
        matches.append(Matches(number, columns, positions, columns.documents[positions], values))
    found = []
    for one in matches:
        chosen = spread(one.documents, one.values, RANKED, each)
        ids = one.columns.ids[one.positions[chosen]] + numbered(one.base)
        found.append(Ranking(ids, one.documents[chosen], one.values[chosen]))
    return KeywordRanking(_best(indexes, found), weighted, missing, absent, tuple(matches))


@struct
class SemanticRanking:
    """What the semantic signal found."""

    ranking: Ranking
    """At most `RANKED`."""
    compared: NDArray[np.int64]
    """All chunks whose vector was compared, as `rankings.numbered` gives them, ascending."""
    similarities: NDArray[np.float64]
    """Their cosines."""
    complete: bool = True
    """Whether every document with a chunk that is near is in it."""


def semantic_ranking(
    indexes: Sequence[Index | None],
    vector: NDArray[np.float32],
    selections: Sequence[Selection | None] = (),
    others: NDArray[np.int64] = NO_CHUNKS,
    each: int | None = EACH,
) -> SemanticRanking:
    """Rank the chunks of all bases by cosine similarity to a query's vector.

    Args:
        indexes: as for `keyword_ranking`; none for a base whose vectors are of another embedder.
        vector: shape (dimensions,), of length 1.
        selections: as for `keyword_ranking`; what a filter chose is near enough however far it is.
        others: chunks that are to be compared in any case, as `rankings.numbered` gives them.
        each: as for `keyword_ranking`.
    """
    allowed = selections or [None] * len(indexes)
    asked = [(number, index, allowed[number]) for number, index in enumerate(indexes) if index]
    signed = [index.signed(selection, len(vector)) for _, index, selection in asked]
    near = likely(signed, vector, RANKED)
    every = sum(map(len, near)) == sum(np.count_nonzero(one.signed & there) for one, there in signed)
    quantised = quantise(vector)
    found, compared, similarities, close_by = [], [NO_CHUNKS], [np.zeros(0)], 0
    for (number, index, selection), positions in zip(asked, near, strict=True):
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
        found.append(Ranking(chunks[close[chosen]], documents[chosen], values[close[chosen]]))
    ranking = _best(indexes, found)
    complete = every and (close_by <= RANKED or len(ranking) < RANKED)
    return SemanticRanking(ranking, np.concatenate(compared), np.concatenate(similarities), complete)


def _counted(
    indexes: Sequence[Index], terms: Sequence[Term], rows: int
) -> tuple[list[list[Postings]], tuple[WeightedTerm, ...], tuple[Term, ...], tuple[str, ...]]:
    """Find each term in each base; what occurs nowhere gives way to its words.

    Returns:
        Of the terms that occur, where, per base; all of them with their weights; those that occur nowhere; the names
        that only words of theirs stand for.
    """
    counted: dict[str, list[Postings]] = {}

    def occurs(term: Term) -> bool:
        if term.match not in counted:
            found = [index.postings(term) for index in indexes]
            if not any(map(len, found)):
                return False
            counted[term.match] = found
        return True

    order: list[Term] = []
    missing: list[Term] = []
    absent: list[str] = []
    for term in terms:
        # `maxRetries` is `max_retries`, too; but where neither occurs, its words stand for it.
        forms = [one for one in (term, term.apart) if one and occurs(one)]
        many = len(term.tokens) > 1 or term.apart is not None
        full = many and len(counted) >= MAX_WORDS  # not looked up, and so not said to be nowhere
        if not forms and many and not full:
            forms = [word for word in (term.apart or term).words() if occurs(word)]
            absent += [term.text] if len(term.tokens) <= NAME_PARTS and is_name(term.text) else []
        order += forms or ([] if full else [term])
        missing += [] if forms or full else [term]
    weights = {match: inverse_document_frequency(rows, sum(map(len, found))) for match, found in counted.items()}
    most = max(weights.values(), default=1.0)
    weighted = (
        WeightedTerm(term.text, term.tokens, weights.get(term.match, most), term.match in weights)
        for term in dict.fromkeys(order)
    )
    return list(counted.values()), tuple(weighted), tuple(missing), tuple(absent)


def _best(indexes: Sequence[Index | None], found: Sequence[Ranking]) -> Ranking:
    """Make one ranking of what was found in each base."""
    return Ranking.joined(found).best(RANKED, places_in(indexes))


def places_in(indexes: Sequence[Index | None]) -> Places:
    """Give what says where chunks of some bases stand."""

    def places(keys: Sequence[Key]) -> dict[Key, Place]:
        found: dict[Key, Place] = {}
        for number, index in enumerate(indexes):
            if index and (mine := [chunk for base, chunk in keys if base == number]):
                there = index.places(mine)
                found |= {(number, chunk): (*there.get(chunk, ("", chunk)), index.base) for chunk in mine}
        return found

    return places
