"""Standard metrics of ranked retrieval (Manning, Raghavan, Schütze 2008, chapter 8).

The usual libraries were not an option: ir-measures and pytrec-eval need a compiled part without a wheel for Linux on
Arm and install SciPy without using it, and ranx takes 0.5 GB and ten seconds to import. So the metrics are written
here, a line each, and a test compares them with results of ir-measures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRICS = ("ndcg5", "ndcg10", "recall5", "recall10", "mrr10", "hit1")
"""Metrics of each query, all in 0..1."""

DEPTH = 10
"""The deepest rank that a metric uses."""


def judge(ranked: Sequence[str], gold: Mapping[str, int], *, exponential: bool = False) -> tuple[float, ...]:
    """Compute all metrics of a ranking.

    Args:
        ranked: distinct results, best first.
        gold: relevant item → its gain, above 0; at least one.
        exponential: whether a gain g counts as 2^g − 1 rather than g.

    Returns:
        One value per name in `METRICS`.
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

    Args:
        gains: gains of the results, best first.
        ideal: gains of all relevant items.
        depth: number of results to use.
    """
    best = _dcg(sorted(ideal, reverse=True)[:depth])
    return _dcg(gains[:depth]) / best if best else 0.0


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
