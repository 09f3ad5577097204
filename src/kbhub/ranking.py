"""Rank arithmetic, pure: pooled BM25 and fusion. No storage, no clock, no model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

K1, B = 1.2, 0.75
"""BM25's saturation and length normalisation; the values that FTS5 has built in."""

IDF_FLOOR = 1e-6
"""Inverse document frequency of a term in more than half of the chunks, as FTS5 sets it."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009)."""

SIGNAL_WEIGHTS: Mapping[str, float] = {"keyword": 1.0, "semantic": 0.3}
"""Weight of each signal in the fusion. Mean nDCG@10 over cranfield, cacm, ord-qa and an MS MARCO sample with the
packaged model: keyword alone .571; semantic at 1.0 .561, at 0.5 .577, at 0.3 .583."""

Key = tuple[int, int]
"""A chunk among several bases: (number of the base, id of the chunk in it)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that a signal found."""

    key: Key
    value: float
    """The signal's own score; larger is better."""
    order: tuple[str, int, str]
    """(path, line, base id): decides between equal values, the same however a corpus is cut into bases."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one signal adds to a fused score."""

    signal: str
    rank: int
    value: float
    amount: float


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk with its fused score and where that came from."""

    key: Key
    score: float
    contributions: tuple[Contribution, ...]
    order: tuple[str, int, str]


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Give a term's weight in BM25.

    Args:
        rows: chunks in all bases.
        containing: chunks that contain the term.
    """
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))


def bm25(frequencies: Sequence[float], weights: Sequence[float], length: int, mean_length: float) -> float:
    """Score one chunk.

    Args:
        frequencies: per term, its occurrences in the chunk, each weighted by its field.
        weights: per term, its inverse document frequency.
        length: tokens in the chunk.
        mean_length: tokens in a chunk on average, over all bases.
    """
    norm = K1 * (1 - B + B * length / mean_length)
    score = 0.0
    for frequency, weight in zip(frequencies, weights, strict=True):
        if frequency:
            score += weight * frequency * (K1 + 1) / (frequency + norm)
    return score


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Order candidates: best first, equal ones by path, line and base."""
    return sorted(candidates, key=lambda candidate: (-candidate.value, candidate.order))


def fuse(
    rankings: Mapping[str, Sequence[Candidate]],
    weights: Mapping[str, float] = SIGNAL_WEIGHTS,
    base_weights: Sequence[float] = (),
) -> list[Fused]:
    """Join rankings of the same chunks by reciprocal rank fusion.

    Args:
        rankings: signal → its ranking over all bases, best first. A signal that did not run is left out.
        weights: signal → weight.
        base_weights: weight of each base by number; empty means 1 for all.

    Returns:
        Every chunk of any ranking, best first, with scores from 0 to 1: 1 is first place in every ranking that
        ran, in a base of the largest weight. A chunk's contributions times its base's share add up to its score.
    """
    best = sum(weights[signal] / (RRF_K + 1) for signal in rankings)
    heaviest = max(base_weights, default=1.0)
    found: dict[Key, list[Contribution]] = {}
    order: dict[Key, tuple[str, int, str]] = {}
    for signal in sorted(rankings):
        for rank, candidate in enumerate(rankings[signal], 1):
            amount = weights[signal] / (RRF_K + rank) / best
            found.setdefault(candidate.key, []).append(Contribution(signal, rank, candidate.value, amount))
            order[candidate.key] = candidate.order
    fused = [
        Fused(
            key,
            min(
                1.0,
                sum(part.amount for part in parts) * (base_weights[key[0]] / heaviest if base_weights else 1.0),
            ),
            tuple(parts),
            order[key],
        )
        for key, parts in found.items()
    ]
    return sorted(fused, key=lambda one: (-one.score, one.order))
