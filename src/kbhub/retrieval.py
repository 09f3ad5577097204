"""Query → one ranking per signal over all bases. Each signal is merged on one scale before anything is fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbhub.ranking import Candidate, inverse_document_frequency, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index import Index
    from kbhub.index.postings import Postings
    from kbhub.index.selection import Selection
    from kbhub.query import Term

RANKED = 100
"""Chunks per signal that go into the fusion; what is further down does not reach a page people look at."""

LEAST_SIMILARITY = 0.2
"""Cosine from which a chunk counts as near. 99 of 100 relevant chunks of four test collections are nearer, and the
mean nDCG@10 is the same with and without it (.584, .583); it keeps small bases from "finding" all they have."""

MAX_WORDS = 256
"""Terms from which on no further phrase gives way to its words: each is a look-up per base."""


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A term with what it says about a chunk that has it."""

    text: str
    """As the user wrote it."""
    stems: tuple[str, ...]
    weight: float
    """Inverse document frequency over all bases; of one that occurs nowhere, the largest of the query."""
    found: bool = True
    """Whether it occurs anywhere."""


@dataclass(frozen=True, slots=True)
class KeywordRanking:
    """What the keyword signal found."""

    candidates: list[Candidate]
    terms: tuple[WeightedTerm, ...]
    """In the order of the query; the words of a phrase where the phrase itself occurs nowhere."""
    missing: tuple[Term, ...] = ()
    """Terms that occur in no base."""

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Terms that occur in no base."""
        return tuple(term.text for term in self.terms if not term.found)


def keyword_ranking(
    indexes: Sequence[Index], terms: Sequence[Term], selections: Sequence[Selection | None] = ()
) -> KeywordRanking:
    """Rank the chunks of all bases by BM25 with pooled statistics.

    Document count, document frequencies and mean length are summed over the bases, so one corpus gives the same
    ranking however it is cut into bases.

    Args:
        indexes: one per base, each within a snapshot; a chunk's key holds its place in this sequence.
        terms: what to look for.
        selections: what may be found in each base; empty for everything.

    Returns:
        At most `RANKED` candidates, best first.
    """
    from kbhub.bm25 import best, scores  # noqa: PLC0415 - numpy takes 0.1 s to load

    allowed = selections or [None] * len(indexes)
    sizes = [index.size() for index in indexes]
    rows, tokens = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    counted, weighted, missing = _counted(indexes, terms, rows)
    weights = [inverse_document_frequency(rows, sum(map(len, found))) for found in counted]
    found: dict[tuple[int, int], float] = {}
    for number, (index, selection) in enumerate(zip(indexes, allowed, strict=True)):
        here = [(postings[number], weight) for postings, weight in zip(counted, weights, strict=True)]
        columns = index.columns()
        positions, values = scores(here, columns.lengths, tokens / max(rows, 1))
        if selection is not None:
            inside = columns.selected(selection.chunks)[positions]
            positions, values = positions[inside], values[inside]
        positions, values = best(positions, values, RANKED)
        ids = columns.ids[positions].tolist()
        found |= {(number, chunk): value for chunk, value in zip(ids, values.tolist(), strict=True)}
    return KeywordRanking(_cut(indexes, found), weighted, missing)


def semantic_ranking(
    indexes: Sequence[Index | None], vector: NDArray[np.float32], selections: Sequence[Selection | None] = ()
) -> list[Candidate]:
    """Rank the chunks of all bases by cosine similarity to a query's vector.

    Args:
        indexes: as for `keyword_ranking`; none for a base whose vectors are of another embedder.
        vector: shape (dimensions,), of length 1.
        selections: as for `keyword_ranking`; what a filter chose is near enough however far it is.

    Returns:
        At most `RANKED` candidates, best first.
    """
    allowed = selections or [None] * len(indexes)
    found = {
        (number, chunk): similarity
        for number, (index, selection) in enumerate(zip(indexes, allowed, strict=True))
        if index
        for chunk, similarity in index.semantic(vector, RANKED, selection)
        if selection is not None or similarity >= LEAST_SIMILARITY
    }
    return _cut(indexes, found)


def similarities(
    indexes: Sequence[Index | None], vector: NDArray[np.float32], keys: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], float]:
    """Give the cosine of chunks to a query's vector, for those that have a comparable vector.

    Args:
        indexes: as for `semantic_ranking`.
        vector: shape (dimensions,), of length 1.
        keys: the chunks.
    """
    return {
        (number, chunk): similarity
        for number, index in enumerate(indexes)
        if index and (mine := [chunk for base, chunk in keys if base == number])
        for chunk, similarity in index.similarities(vector, mine)
    }


def _counted(
    indexes: Sequence[Index], terms: Sequence[Term], rows: int
) -> tuple[list[list[Postings]], tuple[WeightedTerm, ...], tuple[Term, ...]]:
    """Find each term in each base; what occurs nowhere gives way to its words.

    Returns:
        Of the terms that occur, where, per base; all of them with their weights; those that occur nowhere.
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
    for term in terms:
        # `maxRetries` is `max_retries`, too; but where neither occurs, its words stand for it.
        forms = [one for one in (term, term.apart) if one and occurs(one)]
        many = len(term.tokens) > 1 or term.apart is not None
        full = many and len(counted) >= MAX_WORDS  # not looked up, and so not said to be nowhere
        if not forms and many and not full:
            forms = [word for word in (term.apart or term).words() if occurs(word)]
        order += forms or ([] if full else [term])
        missing += [] if forms or full else [term]
    weights = {match: inverse_document_frequency(rows, sum(map(len, found))) for match, found in counted.items()}
    most = max(weights.values(), default=1.0)
    weighted = (
        WeightedTerm(term.text, term.tokens, weights.get(term.match, most), term.match in weights)
        for term in dict.fromkeys(order)
    )
    return list(counted.values()), tuple(weighted), tuple(missing)


def _cut(indexes: Sequence[Index | None], found: dict[tuple[int, int], float]) -> list[Candidate]:
    candidates = []
    for number, index in enumerate(indexes):
        mine = [key for key in found if key[0] == number]
        if index and mine:
            places = index.places([chunk for _, chunk in mine])
            candidates += [
                Candidate(key, found[key], (path, line, index.base), document)
                for key in mine
                if key[1] in places
                for path, line, document in [places[key[1]]]
            ]
    return ranked(candidates)[:RANKED]
