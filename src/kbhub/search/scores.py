"""Scored chunks: the parts of a score, the factors on it, and the answer before it becomes a `SearchResult`."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbhub.index.query.parser import ParsedQuery
    from kbhub.index.rows import Key
    from kbhub.types import Correction, Hit, Mode, Verdict


SIGNALS = ("keyword", "semantic")
"""Signals with a ranking of their own."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009)."""

RANKED = 100
"""Chunks per signal that are fused; lower ranks do not reach a page that people read."""


class SignalPart(NamedTuple):
    """What one signal adds to a score."""

    signal: str
    value: float
    """The signal's own value: BM25, cosine, or a share from 0 to 1."""
    amount: float
    rank: int | None = None
    """Rank over all bases; None for a signal without a ranking of its own."""
    reason: str = ""
    """Where the value comes from, if its name does not tell."""


class Fused:
    """A chunk with its score and the parts and factors it is made of.

    `document` is the id in its base. `parts` may be a function that computes them on first access. `factors` are
    (name, factor), applied to the sum of the parts.
    """

    __slots__ = ("_parts", "document", "factors", "key", "score")

    def __init__(
        self,
        key: Key,
        document: int,
        parts: tuple[SignalPart, ...] | Callable[[], tuple[SignalPart, ...]],
        factors: tuple[tuple[str, float], ...] = (),
        score: float | None = None,
    ) -> None:
        self.key, self.document, self.factors, self._parts = key, document, factors, parts
        self.score = self._sum() if score is None else score

    @property
    def parts(self) -> tuple[SignalPart, ...]:
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

    def and_parts(self, parts: Iterable[SignalPart]) -> Fused:
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


@struct
class RankedPage:
    """What a query found."""

    hits: tuple[Hit, ...]
    total: int
    mode: Mode
    understood: ParsedQuery
    """The query itself, without other wordings."""
    terms: tuple[str, ...] = ()
    """What was looked for, as typed: terms of the query, of its other wordings, and corrections."""
    unmatched: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = ()
    verdict: Verdict | None = None
    filtered_out: bool = False
    """Whether filters and exclusions leave no document."""
    near_only: bool = False
    """Whether no query term occurs, so that hits are only near in meaning."""
    last: bool = True
    """Whether this is the last page."""
    ends: str = ""
    """A sentence on where the list ends although more documents may match; empty if it is complete."""
