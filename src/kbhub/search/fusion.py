"""Fuse the keyword and semantic rankings into one, keeping what each signal adds. Pure arithmetic."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.bm25 import best_first as in_order
from kbhub.index.bm25 import keys_of
from kbhub.search.scores import RRF_K, SIGNALS, Fused, SignalPart
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kbhub.index.bm25 import Places, Ranking
    from kbhub.types import Fusion

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
    also: Ranking | None = None,
) -> list[Fused]:
    """Join the rankings of one query, `keyword` and `semantic`, over all bases; return all their chunks, best first.

    `convex` adds the signals' values, each divided by its largest (Bruch, Gai, Ingber: "An Analysis of Fusion
    Functions for Hybrid Retrieval", TOIS 2023), so that it matters how much better a chunk is, not only that it
    is. A chunk without a comparable vector counts as if its semantic value were as good as its keyword value. `rrf`
    adds reciprocals of the ranks.

    A signal that did not run has no ranking. `compared` are the chunks with a comparable vector, ascending, including
    ones outside the ranking, and `similarities` their cosines. `places` break ties. `coverage` is the largest share of
    the query's terms, by weight, that a single chunk has. `also` holds further chunks to include, with what is known of
    them.
    """
    included = [*rankings.values(), *([also] if also else [])]
    chunks, first = np.unique(np.concatenate([ranking.chunks for ranking in included]), return_index=True)
    documents = np.concatenate([ranking.documents for ranking in included])[first]
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
