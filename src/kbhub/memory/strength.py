"""How much a memory has proved its worth: pure arithmetic, the clock comes from outside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["user", "agent", "promoted"]
"""On whose word a memory rests."""

FADING_DAYS = 180
"""Days without confirmed use after which a memory has faded as far as it will: issue "Memories"."""
LEAST_DECAY = 0.1
"""What is left of a memory that has faded: it is still found, by whoever asks for nothing else. Same source."""

CONFIDENCE: Mapping[Source, float] = {"user": 0.7, "agent": 0.5, "promoted": 0.3}
"""Confidence in a memory that was never used, by its source. Same source."""
PER_DOUBLING, MOST_FROM_USE = 0.1, 0.3
"""Confidence that each doubling of the uses adds, and how much uses can add: seven of them say all. Same source."""

LEAST_FACTOR = 0.9
"""Factor on the score of a hit whose strength is 0. In a fusion of ranks with constant 60 it moves the first of a
ranking behind the seventh, and what is further down by as much in proportion: enough to decide between equals, too
little to bury what answers better."""

SUPERSEDED_FACTOR = 0.8
"""Further factor on a memory that another one supersedes: behind its successor, which answers the same queries, also
where their strengths are at opposite ends."""

DAY_SECONDS = 86_400


def decay(days: float) -> float:
    """Give what the time since the last confirmed use leaves of a memory: falls evenly from 1 to `LEAST_DECAY`.

    Args:
        days: since that use, or since it was written; what lies ahead (another machine's clock) counts as now.
    """
    return max(LEAST_DECAY, 1 - max(0.0, days) / FADING_DAYS)


def confidence(source: Source, uses: int) -> float:
    """Give how far a memory is to be relied on.

    Args:
        source: on whose word it rests.
        uses: how often it was read, cited or confirmed.
    """
    return CONFIDENCE[source] + min(MOST_FROM_USE, PER_DOUBLING * math.log2(1 + max(0, uses)))


def strength(source: Source, uses: int, last_use: float, now: float) -> float:
    """Give the strength of a memory, from 0.03 to 1.

    Args:
        source: on whose word it rests.
        uses: how often it was read, cited or confirmed.
        last_use: when it was last, or when it was written; seconds since the epoch.
        now: seconds since the epoch.
    """
    return decay((now - last_use) / DAY_SECONDS) * confidence(source, uses)


def strength_factor(strength: float, *, superseded: bool = False) -> float:
    """Give the factor on a hit's score: from `LEAST_FACTOR` (less if superseded) to 1.

    Args:
        strength: of the memory, 0 to 1.
        superseded: whether another memory took its place.
    """
    factor = LEAST_FACTOR + (1 - LEAST_FACTOR) * min(1.0, max(0.0, strength))
    return factor * SUPERSEDED_FACTOR if superseded else factor
