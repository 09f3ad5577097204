"""Strength of a memory: pure arithmetic, the clock is injected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["user", "agent", "promoted"]
"""Who vouches for a memory."""

FADING_DAYS = 180
"""Days without confirmed use after which a memory has fully faded: issue "Memories"."""
LEAST_DECAY = 0.1
"""Decay of a fully faded memory, which can still be found. Same source."""

CONFIDENCE: Mapping[Source, float] = {"user": 0.7, "agent": 0.5, "promoted": 0.3}
"""Confidence in a memory that was never used. Same source."""
PER_DOUBLING, MOST_FROM_USE = 0.1, 0.3
"""Confidence added by each doubling of the uses, and its maximum, reached with seven uses. Same source."""

LEAST_FACTOR = 0.9
"""Factor on the score of a hit of strength 0. In rank fusion with constant 60 it moves the first hit behind the
seventh, and lower ones in proportion: enough to decide between equals, too little to bury a better answer."""

SUPERSEDED_FACTOR = 0.8
"""Additional factor on a superseded memory: ranks it behind its successor, which answers the same queries, even if
their strengths are at opposite ends."""

DAY_SECONDS = 86_400


def decay(days: float) -> float:
    """Return the decay since the last confirmed use, falling linearly from 1 to `LEAST_DECAY`.

    Args:
        days: since that use, or since it was written; negative values (another machine's clock) count as 0.
    """
    return max(LEAST_DECAY, 1 - max(0.0, days) / FADING_DAYS)


def confidence(source: Source, uses: int) -> float:
    """Return the confidence in a memory.

    Args:
        source: who vouches for it.
        uses: how often it was read, cited or confirmed.
    """
    return CONFIDENCE[source] + min(MOST_FROM_USE, PER_DOUBLING * math.log2(1 + max(0, uses)))


def strength(source: Source, uses: int, last_use: float, now: float) -> float:
    """Return the strength of a memory, from 0.03 to 1.

    Args:
        source: who vouches for it.
        uses: how often it was read, cited or confirmed.
        last_use: time of the last use, or of writing; seconds since the epoch.
        now: seconds since the epoch.
    """
    return decay((now - last_use) / DAY_SECONDS) * confidence(source, uses)


def strength_factor(strength: float, *, superseded: bool = False) -> float:
    """Return the factor on a hit's score: from `LEAST_FACTOR` (less if superseded) to 1.

    Args:
        strength: of the memory, 0 to 1.
        superseded: whether another memory replaced it.
    """
    factor = LEAST_FACTOR + (1 - LEAST_FACTOR) * min(1.0, max(0.0, strength))
    return factor * SUPERSEDED_FACTOR if superseded else factor
