"""How strong a memory is follows the formulas, from its source, its uses and the time since the last one."""

import pytest

from kbhub.search.document_signals import (
    LEAST_FACTOR,
    SUPERSEDED_FACTOR,
    confidence,
    decay,
    strength,
    strength_factor,
)
from kbhub.search.retrieval import RRF_K
from kbhub.values import DAY_SECONDS


@pytest.mark.parametrize(("days", "left"), [(-30, 1), (0, 1), (45, 0.75), (90, 0.5), (162, 0.1), (2000, 0.1)])
def test_a_memory_fades_evenly_over_180_days_down_to_a_tenth(days, left):
    """A use in the future, by another machine's clock, makes it no stronger than it can be."""
    assert decay(days) == pytest.approx(left)


@pytest.mark.parametrize(
    ("source", "uses", "expected"),
    [("user", 0, 0.7), ("agent", 0, 0.5), ("agent", 1, 0.6), ("agent", 3, 0.7), ("agent", 7, 0.8), ("agent", 8, 0.8)],
)
def test_confidence_begins_with_the_source_and_grows_by_doubling_up_to_a_bound(source, uses, expected):
    assert confidence(source, uses) == pytest.approx(expected)


def test_strength_is_decay_times_confidence():
    now = 1_000_000_000.0
    assert strength("user", 3, now - 90 * DAY_SECONDS, now) == pytest.approx(0.5 * 0.9)
    assert strength("user", 7, now, now) == pytest.approx(1)
    assert strength("agent", 0, 0, now) == pytest.approx(0.05)


def test_the_effect_on_ranking_is_bounded():
    """The weakest memory loses seven places at the top of a ranking, and the strongest none."""
    assert strength_factor(1) == 1
    assert strength_factor(0) == strength_factor(-1) == LEAST_FACTOR
    first, places = 1 / (RRF_K + 1), [1 / (RRF_K + rank) for rank in range(1, 20)]
    assert sum(place > first * strength_factor(0) for place in places) == 7


def test_what_is_superseded_ranks_below_its_successor_whatever_their_strength():
    assert strength_factor(1, superseded=True) == SUPERSEDED_FACTOR < strength_factor(0)
