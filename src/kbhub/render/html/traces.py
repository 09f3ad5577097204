"""Traces of scores as the parts of a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.render.words import contribution_of
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.types import Hit

TONES = {"keyword": "keyword", "semantic": "semantic"}
"""Signal → colour of its part; the others are evidence."""

WHOLE = 100.0
"""Width of the bar for a score of 1."""


@struct
class TracePart:
    """What a signal adds to a score, and where that lies in the bar."""

    name: str
    tone: str
    rank: int | None
    value: float
    contribution: float
    shown: str
    reason: str | None
    start: float
    width: float


@struct
class BarOfTrace:
    """A trace, to be drawn."""

    parts: tuple[TracePart, ...]
    factors: tuple[tuple[str, float], ...]
    score: float

    def adds(self, name: str) -> float | None:
        """Return what a signal adds, or None if it does not contribute."""
        return next((part.contribution for part in self.parts if part.name == name), None)

    def factor(self, name: str) -> float:
        """Return the factor of this name, or 1 if there is none."""
        return dict(self.factors).get(name, 1.0)


def traced(hit: Hit) -> BarOfTrace:
    """Return the trace of a hit as parts of a bar, whose length is the score."""
    if hit.trace is None:
        return BarOfTrace((), (), hit.score)
    signals, factors = hit.trace.signals, hit.trace.factors
    positive = sum(max(0.0, signal.contribution) for signal in signals)
    scale = WHOLE * hit.score / positive if positive else 0.0
    parts, at = [], 0.0
    for signal in signals:
        width = max(0.0, signal.contribution) * scale
        parts.append(
            TracePart(
                name=signal.name,
                tone=TONES.get(signal.name, "evidence"),
                rank=signal.rank,
                value=signal.value,
                contribution=signal.contribution,
                shown=contribution_of(signal),
                reason=signal.reason,
                start=round(at, 2),
                width=round(width, 2),
            )
        )
        at += width
    return BarOfTrace(tuple(parts), tuple(sorted(factors.items())), hit.score)
