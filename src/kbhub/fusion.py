"""Joining the signals: keyword and semantic ranks into one, with what each part adds. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbhub.ranking import Candidate, Key
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


@dataclass(slots=True)
class Fused:
    """A chunk with its score so far and where that came from."""

    key: Key
    document: int
    """Id of its document in its base."""
    order: tuple[str, int, str]
    parts: tuple[Part, ...]
    factors: tuple[tuple[str, float], ...] = ()
    """(name, factor): what the sum of the parts is multiplied by."""
    score: float = field(init=False, compare=False, default=0.0)
    """The sum of the parts times the factors."""

    @property
    def document_key(self) -> Key:
        """Its document among several bases."""
        return self.key[0], self.document

    def __post_init__(self) -> None:
        score = 0.0
        for part in self.parts:  # not `sum`, which from Python 3.12 on adds floats up in another way
            score += part.amount
        for _, factor in self.factors:
            score *= factor
        self.score = score  # once, for it is asked for at every comparison of a sort

    def and_parts(self, parts: Iterable[Part]) -> Fused:
        """Give the same chunk with further parts, those that add nothing left out."""
        return replace(self, parts=(*self.parts, *(part for part in parts if part.amount)))

    def times(self, name: str, factor: float) -> Fused:
        """Give the same chunk with a further factor."""
        return self if factor == 1 else replace(self, factors=(*self.factors, (name, factor)))


def fuse(
    rankings: Mapping[str, Sequence[Candidate]], similarities: Mapping[Key, float], fusion: Fusion = "convex"
) -> list[Fused]:
    """Join the rankings of one query.

    `convex` adds the signals' values, each divided by its largest (Bruch, Gai, Ingber: "An Analysis of Fusion
    Functions for Hybrid Retrieval", TOIS 2023), so that it counts by how much a chunk is better, not only that it
    is. A chunk without a comparable vector counts as if its semantic value were as good as its keyword value. `rrf`
    adds reciprocals of the ranks.

    Args:
        rankings: `keyword` and `semantic` → its ranking over all bases, best first. One that did not run is left out.
        similarities: the cosine of each chunk that has a comparable vector, also of those not in the ranking.
        fusion: how to join them.

    Returns:
        Every chunk of any ranking, best first.
    """
    ranks = {
        signal: {candidate.key: rank for rank, candidate in enumerate(ranking, 1)}
        for signal, ranking in rankings.items()
    }
    values = {signal: {one.key: one.value for one in ranking} for signal, ranking in rankings.items()}
    if "semantic" in values:
        values["semantic"] |= {key: value for key, value in similarities.items() if value > 0}
    parts = _convex(values, ranks) if fusion == "convex" else _reciprocal(values, ranks)
    candidates = {candidate.key: candidate for ranking in rankings.values() for candidate in ranking}
    return best_first(
        Fused(key, candidate.document, candidate.order, tuple(parts[key])) for key, candidate in candidates.items()
    )


def best_first(fused: Iterable[Fused]) -> list[Fused]:
    """Order chunks by score, equal ones by path, line and base."""
    return sorted(fused, key=lambda one: (-one.score, one.order))


def _convex(values: Mapping[str, Mapping[Key, float]], ranks: Mapping[str, Mapping[Key, int]]) -> dict[Key, list[Part]]:
    both = len([signal for signal in values if values[signal]]) == len(SIGNALS)
    shares = {"keyword": 1 - SEMANTIC_SHARE, "semantic": SEMANTIC_SHARE} if both else dict.fromkeys(values, 1.0)
    parts: dict[Key, list[Part]] = {}
    for signal in sorted(values):
        places = ranks[signal]
        per_value = shares[signal] / (max(values[signal].values(), default=1.0) or 1.0)
        # Of a chunk without a vector, nothing speaks for a semantic value or against it.
        alone = 1 / shares[signal] if both and signal == "keyword" else 1.0
        for key, value in values[signal].items():
            factor = per_value if alone == 1.0 or key in values["semantic"] else per_value * alone
            parts.setdefault(key, []).append(Part(signal, value, factor * max(0.0, value), places.get(key)))
    return parts


def _reciprocal(
    values: Mapping[str, Mapping[Key, float]], ranks: Mapping[str, Mapping[Key, int]]
) -> dict[Key, list[Part]]:
    weights = {"keyword": 1.0, "semantic": RRF_SEMANTIC}
    best = sum(weights[signal] for signal in values) / (RRF_K + 1)
    parts: dict[Key, list[Part]] = {}
    for signal in sorted(values):
        for key, rank in ranks[signal].items():
            amount = weights[signal] / (RRF_K + rank) / best
            parts.setdefault(key, []).append(Part(signal, values[signal][key], amount, rank))
    return parts
