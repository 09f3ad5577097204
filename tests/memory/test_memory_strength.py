"""How strong a memory is follows the formulas, from its source, its uses and the time since the last one."""

import pytest

from kbhub.search.memory_boost import (
    LEAST_FACTOR,
    SUPERSEDED_FACTOR,
    confidence,
    decay,
    strength,
    strength_factor,
)
from kbhub.search.retrieval import RRF_K
from kbhub.values import DAY_SECONDS


@pytest.mark.parametrize(("days", "left"), [(0, 1), (45, 0.75), (90, 0.5), (162, 0.1), (180, 0.1), (2000, 0.1)])
def test_a_memory_fades_evenly_over_180_days_down_to_a_tenth(days, left):
    assert decay(days) == pytest.approx(left)


def test_a_use_in_the_future_counts_as_now():
    """Another machine's clock makes a memory no stronger than it can be."""
    assert decay(-30) == 1


@pytest.mark.parametrize(("source", "base"), [("user", 0.7), ("agent", 0.5)])
def test_confidence_begins_with_the_source(source, base):
    assert confidence(source, 0) == pytest.approx(base)


@pytest.mark.parametrize(("uses", "more"), [(1, 0.1), (3, 0.2), (7, 0.3), (8, 0.3), (10**9, 0.3)])
def test_uses_add_confidence_by_doubling_up_to_a_bound(uses, more):
    assert confidence("agent", uses) == pytest.approx(0.5 + more)


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
