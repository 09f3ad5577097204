"""Whether a difference between two runs can be chance: the paired randomisation test.

Under the hypothesis that two systems are the same, which of the two gave which value for a query is a coin toss, so
the signs of the differences may be swapped (Smucker, Allan, Carterette 2007, who recommend it for retrieval).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERMUTATIONS = 10_000
"""Sign swaps tried: p is exact to some ±.004 near .05."""

SEED = 20260101
"""Of the swaps: the same two runs always have the same p."""

BLOCK = 1 << 22
"""Swapped signs held at a time; as float64 32 MiB."""

_ROUNDING = 1e-12
"""Sums in another order differ by less than this."""


def randomisation_p(
    first: NDArray[np.float64], second: NDArray[np.float64], *, permutations: int = PERMUTATIONS
) -> NDArray[np.float64]:
    """Test, for several metrics at once, whether the means of two runs differ.

    Args:
        first: values of a run, shape (queries, metrics).
        second: values of the other run for the same queries, same shape.
        permutations: sign swaps to try.

    Returns:
        Two-sided p per metric, never 0: the observed one counts as a permutation.
    """
    differences = first - second
    queries = len(differences)
    observed = np.abs(differences.sum(axis=0))
    chance = np.random.default_rng(SEED)
    as_large = np.zeros(differences.shape[1])
    block = max(1, BLOCK // max(1, queries))
    for start in range(0, permutations, block):
        size = min(block, permutations - start)
        signs = chance.integers(0, 2, (size, queries), dtype=np.int8).astype(np.float64) * 2 - 1
        as_large += (np.abs(signs @ differences) >= observed - _ROUNDING).sum(axis=0)
    return (as_large + 1) / (permutations + 1)


def area_under_curve(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Give the chance that a positive one scores higher than a negative one, ties counting half (the ROC's AUC).

    Args:
        positive: scores, shape (any,), at least one.
        negative: scores, shape (any,), at least one.
    """
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))
