"""Scored chunks: the parts a score is the sum of, and the factors on it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbhub.index.ranking import Key

SIGNALS = ("keyword", "semantic")
"""Signals with a ranking of their own."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009)."""

RANKED = 100
"""Chunks per signal that are fused; lower ranks do not reach a page that people read."""


class Part(NamedTuple):
    """What one signal adds to a score."""

    signal: str
    value: float
    """The signal's own value: BM25, cosine, or a share from 0 to 1."""
    amount: float
    rank: int | None = None
    """Rank over all bases; None for a signal without a ranking of its own."""


class Fused:
    """A chunk with its score and the parts and factors it is made of.

    Args:
        key: the chunk.
        document: id of its document in its base.
        parts: the parts of the score, or a function that computes them on first access.
        factors: (name, factor), applied to the sum of the parts.
        score: the sum of the parts times the factors, if known.
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
        """(number of the base, document id)."""
        return self.key[0], self.document

    def _sum(self) -> float:
        score = 0.0
        for part in self.parts:  # not `sum`, which adds floats differently from Python 3.12 on
            score += part.amount
        for _, factor in self.factors:
            score *= factor
        return score

    def and_parts(self, parts: Iterable[Part]) -> Fused:
        """Return the chunk with additional parts, leaving out zeros."""
        added = tuple(part for part in parts if part.amount)
        return Fused(self.key, self.document, self.parts + added, self.factors) if added else self

    def times(self, name: str, factor: float) -> Fused:
        """Return the chunk with an additional factor."""
        if factor == 1:
            return self
        return Fused(self.key, self.document, self._parts, (*self.factors, (name, factor)), self.score * factor)


def best_first(fused: Iterable[Fused]) -> list[Fused]:
    """Sort chunks by score, stably."""
    return sorted(fused, key=attrgetter("score"), reverse=True)
