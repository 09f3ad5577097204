"""Plots as points of an SVG, small enough to be inlined and drawn without a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.search.memory_boost import FADING_DAYS, strength
from kbhub.values import DAY_SECONDS, struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.memory.catalog import StoredMemory

WIDTH, HEIGHT = 300.0, 60.0
"""Units of a plot's view box."""

DAYS_AHEAD = 200
"""Days of a memory's curve after its last use: until it fades no further, and a little more."""


@struct
class Curve:
    """A line of a plot, and where now is in it."""

    points: str
    """Of an SVG polyline."""
    now: float
    """Horizontal place of now; None if it is beyond the plot."""
    value: float
    """Vertical place of now."""


@struct
class Column:
    """A day of a plot: the heights of its parts, from the bottom."""

    label: str
    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    """(name, top, height)."""
    total: int


def strength_curve(memory: StoredMemory, now: float) -> Curve:
    """Return how the strength of a memory falls after its last use, if it is not used again."""
    last, uses = memory.last_use(), memory.use.uses if memory.use else 0

    def place(day: float) -> tuple[float, float]:
        value = strength(memory.facts.source, uses, last, last + day * DAY_SECONDS)
        return round(day / DAYS_AHEAD * WIDTH, 1), round((1 - value) * HEIGHT, 1)

    elapsed = min(max(0.0, (now - last) / DAY_SECONDS), DAYS_AHEAD)
    corners = [place(day) for day in (0, FADING_DAYS, DAYS_AHEAD)]
    x, y = place(elapsed)
    return Curve(" ".join(f"{left},{top}" for left, top in corners), x, y)


def columns(days: Sequence[str], counts: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> list[Column]:
    """Return a column per day, scaled to the largest.

    `days` are labels, the earliest first; `counts` maps a day to name → number; `names` are the parts of a column, from
    the bottom.
    """
    most = max((sum(counts.get(day, {}).values()) for day in days), default=0) or 1
    step = WIDTH / max(len(days), 1)
    made = []
    for number, day in enumerate(days):
        bottom, parts = HEIGHT, []
        for name in names:
            height = counts.get(day, {}).get(name, 0) / most * HEIGHT
            bottom -= height
            parts.append((name, round(bottom, 2), round(height, 2)))
        total = sum(counts.get(day, {}).values())
        made.append(Column(day, round(number * step, 2), round(step * 0.8, 2), tuple(parts), total))
    return made
