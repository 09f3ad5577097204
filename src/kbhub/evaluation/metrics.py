"""Metrics of ranked retrieval (Manning, Raghavan, Schütze 2008, chapter 8), and a significance test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


METRICS = ("ndcg5", "ndcg10", "recall5", "recall10", "mrr10", "hit1")
"""Metrics of each query, all in 0..1."""

DEPTH = 10
"""The deepest rank that a metric uses."""


PERMUTATIONS = 10_000
"""Number of sign swaps; p is exact to about ±.004 near .05."""

SEED = 20260101
"""Seed of the sign swaps, so that the same two runs always have the same p."""

BLOCK = 1 << 22
"""Signs held in memory at a time; 32 MiB as float64."""

_ROUNDING = 1e-12
"""Tolerance for sums in a different order."""


def judge(ranked: Sequence[str], gold: Mapping[str, int], *, exponential: bool = False) -> tuple[float, ...]:
    """Compute all metrics of a ranking, one value per name in `METRICS`.

    `ranked` has distinct results, best first; `gold` maps each relevant item, at least one, to its gain, above 0. With
    `exponential`, a gain g counts as 2^g − 1.
    """
    ideal = {name: float(2**gain - 1 if exponential else gain) for name, gain in gold.items()}
    gains = [ideal.get(name, 0.0) for name in ranked]
    relevant = [gain > 0 for gain in gains]
    first = relevant.index(True) + 1 if any(relevant[:10]) else 0
    return (
        ndcg(gains, list(ideal.values()), 5),
        ndcg(gains, list(ideal.values()), 10),
        sum(relevant[:5]) / len(ideal),
        sum(relevant[:10]) / len(ideal),
        1 / first if first else 0.0,
        float(first == 1),
    )


def ndcg(gains: Sequence[float], ideal: Sequence[float], depth: int) -> float:
    """Return the normalised discounted cumulative gain (Järvelin and Kekäläinen 2002, discount log2(rank + 1)).

    `gains` are those of the results, best first; only `depth` of them count. `ideal` are those of all relevant items.
    """
    best = _dcg(sorted(ideal, reverse=True)[:depth])
    return _dcg(gains[:depth]) / best if best else 0.0


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def randomisation_p(
    first: NDArray[np.float64], second: NDArray[np.float64], *, permutations: int = PERMUTATIONS
) -> NDArray[np.float64]:
    """Test for several metrics at once whether the means of two runs differ, by swapping signs at random.

    Both arrays have the shape (queries, metrics), for the same queries. Returns a two-sided p per metric, never 0,
    because the observed order counts as a permutation.
    """
    differences = first - second
    queries = len(differences)
    observed = np.abs(differences.sum(axis=0))
    generator = np.random.default_rng(SEED)
    at_least_observed = np.zeros(differences.shape[1])
    block = max(1, BLOCK // max(1, queries))
    for start in range(0, permutations, block):
        size = min(block, permutations - start)
        signs = generator.integers(0, 2, (size, queries), dtype=np.int8).astype(np.float64) * 2 - 1
        at_least_observed += (np.abs(signs @ differences) >= observed - _ROUNDING).sum(axis=0)
    return (at_least_observed + 1) / (permutations + 1)


def area_under_curve(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the probability that a positive scores higher than a negative, with ties counting half (ROC AUC).

    The shapes are (n,) and (m,), with n, m ≥ 1.
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))
