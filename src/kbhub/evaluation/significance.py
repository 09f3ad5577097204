"""Significance of the difference between two runs: the paired randomisation test.

Under the null hypothesis the two systems are the same, so which of them produced which value for a query is random,
and the signs of the differences may be swapped (Smucker, Allan, Carterette 2007, who recommend it for retrieval).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERMUTATIONS = 10_000
"""Number of sign swaps; p is exact to about ±.004 near .05."""

SEED = 20260101
"""Seed of the sign swaps, so that the same two runs always have the same p."""

BLOCK = 1 << 22
"""Signs held in memory at a time; 32 MiB as float64."""

_ROUNDING = 1e-12
"""Tolerance for sums in a different order."""


def randomisation_p(
    first: NDArray[np.float64], second: NDArray[np.float64], *, permutations: int = PERMUTATIONS
) -> NDArray[np.float64]:
    """Test for several metrics at once whether the means of two runs differ.

    Args:
        first: values of a run, shape (queries, metrics).
        second: values of the other run for the same queries, same shape.
        permutations: number of sign swaps.

    Returns:
        Two-sided p per metric, never 0, because the observed order counts as a permutation.
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

    Args:
        positive: scores, shape (n,), n ≥ 1.
        negative: scores, shape (m,), m ≥ 1.
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))
