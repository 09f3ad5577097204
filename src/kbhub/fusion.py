"""Joining the signals: keyword and semantic ranks into one, with what each part adds. Pure arithmetic."""

from __future__ import annotations

from functools import partial
from math import isnan
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kbhub.rankings import best_first as in_order
from kbhub.rankings import keys_of
from kbhub.values import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from kbhub.ranking import Key
    from kbhub.rankings import Places, Ranking
    from kbhub.types import Fusion

SEMANTIC_SHARE = 0.3
"""Share of the semantic signal where both have found something. Mean nDCG@10 over four collections: .579 at 0.1,
.588 at 0.2, .592 at 0.3, .590 at 0.4, .584 at 0.5; docs/explanation/ranking.md has the table."""

SIGNALS = ("keyword", "semantic")
"""Those that rank chunks by themselves."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009)."""

RRF_SEMANTIC = 0.3
"""Weight of the semantic list in rank fusion; the keyword list has 1. Equal weights are worse than keywords alone."""


class Part(NamedTuple):
    """What one signal adds to a score."""

    signal: str
    value: float
    """The signal's own: BM25, cosine, or a share from 0 to 1."""
    amount: float
    rank: int | None = None
    """Place in the signal's ranking over all bases; none for a signal that does not rank by itself."""


class Fused:
    """A chunk with its score so far and where that came from.

    Args:
        key: the chunk.
        document: id of its document in its base.
        parts: what the score is made of, worked out when it is asked for, as it is of few chunks.
        factors: (name, factor), what the sum of the parts is multiplied by.
        score: the sum of the parts times the factors, if it is known.
    """

    __slots__ = ("_parts", "document", "factors", "key", "score")

    def __init__(
        self,
        key: Key,
        document: int,
        parts: tuple[Part, ...] | Callable[[], tuple[Part, ...]],
        factors: tuple[tuple[str, float], ...] = (),
        score: float | None = None,
    ) -> None:
        self.key, self.document, self.factors, self._parts = key, document, factors, parts
        self.score = self._sum() if score is None else score

    @property
    def parts(self) -> tuple[Part, ...]:
        """What each signal adds."""
        if not isinstance(self._parts, tuple):
            self._parts = self._parts()
        return self._parts

    @property
    def document_key(self) -> Key:
        """Its document among several bases."""
        return self.key[0], self.document

    def _sum(self) -> float:
        score = 0.0
        for part in self.parts:  # not `sum`, which from Python 3.12 on adds floats up in another way
            score += part.amount
        for _, factor in self.factors:
            score *= factor
        return score

    def and_parts(self, parts: Iterable[Part]) -> Fused:
        """Give the same chunk with further parts, those that add nothing left out."""
        added = tuple(part for part in parts if part.amount)
        return Fused(self.key, self.document, self.parts + added, self.factors) if added else self

    def times(self, name: str, factor: float) -> Fused:
        """Give the same chunk with a further factor."""
        if factor == 1:
            return self
        return Fused(self.key, self.document, self._parts, (*self.factors, (name, factor)), self.score * factor)


def fuse(
    rankings: Mapping[str, Ranking],
    compared: NDArray[np.int64],
    similarities: NDArray[np.float64],
    places: Places,
    fusion: Fusion = "convex",
) -> list[Fused]:
    """Join the rankings of one query.

    `convex` adds the signals' values, each divided by its largest (Bruch, Gai, Ingber: "An Analysis of Fusion
    Functions for Hybrid Retrieval", TOIS 2023), so that it counts by how much a chunk is better, not only that it
    is. A chunk without a comparable vector counts as if its semantic value were as good as its keyword value. `rrf`
    adds reciprocals of the ranks.

    Args:
        rankings: `keyword` and `semantic` → its ranking over all bases. One that did not run is left out.
        compared: chunks that have a comparable vector, also such as are not in the ranking; ascending.
        similarities: their cosines.
        places: where chunks stand, which decides between equals.
        fusion: how to join them.

    Returns:
        Every chunk of any ranking, best first.
    """
    chunks, first = np.unique(np.concatenate([one.chunks for one in rankings.values()]), return_index=True)
    documents = np.concatenate([one.documents for one in rankings.values()])[first]
    columns = {signal: _column(rankings[signal], chunks) for signal in sorted(rankings)}
    if "semantic" in columns and fusion == "convex":
        columns["semantic"].fill(chunks, compared, similarities)
    amounts = _convex(columns) if fusion == "convex" else _reciprocal(columns)
    scores = sum(amounts.values(), np.zeros(len(chunks)))
    order = in_order(chunks, scores, places)
    told = [_Told(signal, one, amounts[signal], order) for signal, one in columns.items()]
    rows = zip(keys_of(chunks[order]), documents[order].tolist(), scores[order].tolist(), strict=True)
    return [
        Fused(key, document, partial(_parts, told, at), (), score) for at, (key, document, score) in enumerate(rows)
    ]


def best_first(fused: Iterable[Fused]) -> list[Fused]:
    """Order chunks by score; equal ones stay as they are."""
    return sorted(fused, key=attrgetter("score"), reverse=True)


@record
class _Column:
    """What one signal says of each chunk."""

    values: NDArray[np.float64]
    """Not a number where it says nothing."""
    ranks: NDArray[np.int64]
    """0 for a chunk that is not in its ranking."""

    def fill(self, chunks: NDArray[np.int64], known: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Take the values of chunks that are not in the ranking, too."""
        if len(known):
            at = np.minimum(np.searchsorted(known, chunks), len(known) - 1)
            self.values = np.where((known[at] == chunks) & (self.ranks == 0), values[at], self.values)


def _column(ranking: Ranking, chunks: NDArray[np.int64]) -> _Column:
    values, ranks = np.full(len(chunks), np.nan), np.zeros(len(chunks), np.int64)
    at = np.searchsorted(chunks, ranking.chunks)
    values[at], ranks[at] = ranking.values, np.arange(1, len(at) + 1)
    return _Column(values, ranks)


def _convex(columns: Mapping[str, _Column]) -> dict[str, NDArray[np.float64]]:
    """Give what each signal adds to each chunk."""
    both = len([one for one in columns.values() if not np.isnan(one.values).all()]) == len(SIGNALS)
    shares = {"keyword": 1 - SEMANTIC_SHARE, "semantic": SEMANTIC_SHARE} if both else dict.fromkeys(columns, 1.0)
    amounts = {}
    for signal, one in columns.items():
        factor = shares[signal] / (np.nanmax(one.values, initial=0.0) or 1.0)
        amounts[signal] = factor * np.maximum(0.0, np.nan_to_num(one.values))
    if both:
        # Of a chunk without a vector, nothing speaks for a semantic value or against it.
        amounts["keyword"][np.isnan(columns["semantic"].values)] /= shares["keyword"]
    return amounts


def _reciprocal(columns: Mapping[str, _Column]) -> dict[str, NDArray[np.float64]]:
    """Give what each signal adds to each chunk."""
    weights = {"keyword": 1.0, "semantic": RRF_SEMANTIC}
    best = sum(weights[signal] for signal in columns) / (RRF_K + 1)
    return {
        signal: np.where(one.ranks > 0, weights[signal] / (RRF_K + one.ranks) / best, 0.0)
        for signal, one in columns.items()
    }


class _Told:
    """What one signal says of each chunk, in order."""

    def __init__(self, signal: str, one: _Column, amounts: NDArray[np.float64], order: NDArray[np.int64]) -> None:
        self.signal = signal
        self.values, self.amounts, self.ranks = one.values[order], amounts[order], one.ranks[order]


def _parts(told: Iterable[_Told], at: int) -> tuple[Part, ...]:
    """Give what the signals add to one chunk, those left out that say nothing."""
    return tuple(
        Part(one.signal, float(one.values[at]), float(one.amounts[at]), int(one.ranks[at]) or None)
        for one in told
        if not isnan(one.values[at])
    )
