"""Query → one ranking per signal over all bases. Each signal is merged on one scale before anything is fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbhub.index import KeywordTerm
from kbhub.ranking import Candidate, inverse_document_frequency, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.index import Index
    from kbhub.index.selection import Selection
    from kbhub.query import Term

RANKED = 100
"""Chunks per signal that go into the fusion; what is further down does not reach a page people look at."""

POSTINGS_BUDGET = 50_000
"""Matching chunks, summed over terms and bases, up to which all terms are searched with OR (some 20 ms of CPU).
Above it all terms must match first, and if that finds too few, the rarest terms within the budget follow."""

LEAST_SIMILARITY = 0.2
"""Cosine from which a chunk counts as near. 99 of 100 relevant chunks of four test collections are nearer, and the
mean nDCG@10 is the same with and without it (.584, .583); it keeps small bases from "finding" all they have."""

MAX_WORDS = 256
"""Terms from which on no further phrase gives way to its words: SQLite takes 1,000 arguments of a function."""

ENOUGH = 20
"""Chunks with all terms that make the second look unnecessary."""


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
    allowed = selections or [None] * len(indexes)
    sizes = [index.size() for index in indexes]
    rows, tokens = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    counted, weighted, missing = _counted(indexes, terms, rows)
    frequencies = {term.match: counts for term, counts in counted}
    if not frequencies:
        return KeywordRanking([], weighted, missing)
    search = _Search(indexes, [size[0] for size in sizes], rows, tokens / max(rows, 1), frequencies, allowed)
    costs = {match: search.cost(match) for match in frequencies}
    matches = list(frequencies)
    if sum(costs.values()) <= POSTINGS_BUDGET or len(matches) == 1:
        found = search.run(matches, "OR")
    else:
        found = search.run(matches, "AND")
        if len(found) < ENOUGH:
            # A chunk with all terms keeps its full score; the rarest terms alone would give it less.
            found = search.run(_rarest(costs), "OR") | found
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


@dataclass(frozen=True, slots=True)
class _Search:
    """A keyword search with its pooled statistics."""

    indexes: Sequence[Index]
    sizes: Sequence[int]
    rows: int
    mean_length: float
    frequencies: dict[str, list[int]]
    """FTS5 expression → chunks that it matches, per base."""
    selections: Sequence[Selection | None]
    """What may be found in each base; none for everything."""

    def cost(self, match: str) -> int:
        """Give the chunks that a term can bring: few under a narrow filter, however common it is."""
        return sum(
            count if selection is None else min(count, len(selection.chunks))
            for count, selection in zip(self.frequencies[match], self.selections, strict=True)
        )

    def run(self, matches: Sequence[str], operator: str) -> dict[tuple[int, int], float]:
        found = {}
        for number, index in enumerate(self.indexes):
            here = [match for match in matches if self.frequencies[match][number]]
            if not here or (operator == "AND" and len(here) < len(matches)):
                continue
            terms = [self._term(match, number) for match in here]
            counts = [self.frequencies[match][number] for match in here]
            bound = sum(counts) if operator == "OR" else min(counts)
            for chunk, score in index.keyword(terms, operator, bound, self.mean_length, self.selections[number]):
                found[number, chunk] = score
        return found

    def _term(self, match: str, number: int) -> KeywordTerm:
        counts = self.frequencies[match]
        return KeywordTerm(
            match,
            inverse_document_frequency(self.rows, sum(counts)),
            inverse_document_frequency(self.sizes[number], counts[number]),
        )


def _counted(
    indexes: Sequence[Index], terms: Sequence[Term], rows: int
) -> tuple[list[tuple[Term, list[int]]], tuple[WeightedTerm, ...], tuple[Term, ...]]:
    """Count each term per base; what occurs nowhere gives way to its words.

    Returns:
        The terms that occur with their counts; all of them with their weights; those that occur nowhere.
    """
    counted: dict[str, tuple[Term, list[int]]] = {}

    def occurs(term: Term) -> bool:
        if term.match not in counted:
            counts = [index.document_frequency(term.match) for index in indexes]
            if not any(counts):
                return False
            counted[term.match] = (term, counts)
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
    weights = {match: inverse_document_frequency(rows, sum(counts)) for match, (_, counts) in counted.items()}
    most = max(weights.values(), default=1.0)
    weighted = (
        WeightedTerm(term.text, term.tokens, weights.get(term.match, most), term.match in weights)
        for term in dict.fromkeys(order)
    )
    return list(counted.values()), tuple(weighted), tuple(missing)


def _rarest(costs: dict[str, int]) -> list[str]:
    kept: list[str] = []
    spent = 0
    for match in sorted(costs, key=lambda match: (costs[match], match)):
        spent += costs[match]
        if kept and spent > POSTINGS_BUDGET:
            break
        kept.append(match)
    return kept


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
