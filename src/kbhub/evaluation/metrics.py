"""How good a ranking is. Standard figures of retrieval (Manning, Raghavan, Schütze 2008, chapter 8).

The libraries for this are ir-measures and pytrec-eval, which need a compiled part that has no wheel for Linux on Arm
and install SciPy without using it, and ranx, which takes 0.5 GB and ten seconds to import. So they are written here,
a line each, and a test compares them with figures that ir-measures gave; run files can be judged with any of those.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRICS = ("ndcg5", "ndcg10", "recall5", "recall10", "mrr10", "hit1")
"""What is measured of each query, each in 0..1."""

DEPTH = 10
"""Results that the deepest of them looks at."""


def judge(ranked: Sequence[str], gold: Mapping[str, int], *, exponential: bool = False) -> tuple[float, ...]:
    """Measure one ranking.

    Args:
        ranked: distinct results, best first.
        gold: what is relevant → its gain, above 0; at least one.
        exponential: whether a gain g is worth 2^g − 1 rather than g.

    Returns:
        One value per name in `METRICS`.
    """
    worth = {name: float(2**gain - 1 if exponential else gain) for name, gain in gold.items()}
    gains = [worth.get(name, 0.0) for name in ranked]
    found = [gain > 0 for gain in gains]
    first = found.index(True) + 1 if any(found[:10]) else 0
    return (
        ndcg(gains, list(worth.values()), 5),
        ndcg(gains, list(worth.values()), 10),
        sum(found[:5]) / len(worth),
        sum(found[:10]) / len(worth),
        1 / first if first else 0.0,
        float(first == 1),
    )


def ndcg(gains: Sequence[float], ideal: Sequence[float], depth: int) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002, discount log2(rank + 1)).

    Args:
        gains: of the results, best first.
        ideal: gains of all that is relevant.
        depth: results to look at.
    """
    best = _dcg(sorted(ideal, reverse=True)[:depth])
    return _dcg(gains[:depth]) / best if best else 0.0


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
