"""Rank arithmetic."""

import numpy as np
import pytest

from corpus import ranking_of
from kbhub.index.engine import inverse_document_frequency
from kbhub.index.matches import scores, spread
from kbhub.index.signatures import Postings


def test_equal_scores_go_by_path_then_line_then_base():
    """Ties are decided the same way on every run and for every cut of a corpus."""
    places = {
        (0, 7): ("z.md", 1, "y"), (1, 1): ("b.md", 1, "x"), (0, 2): ("a.md", 9, "y"), (0, 1): ("a.md", 2, "y"),
        (1, 2): ("a.md", 2, "x"),
    }  # fmt: skip
    found = ranking_of([(key, 1, 2.0 if key == (0, 7) else 1.0) for key in places])
    asked = []

    def where(keys):
        asked.extend(keys)
        return places

    assert found.best(4, where).as_keys() == [(0, 7), (1, 2), (0, 1), (0, 2)]
    assert (0, 7) not in asked


def test_bm25_prefers_more_occurrences_and_shorter_chunks():
    weight = inverse_document_frequency(100, 3)
    term = Postings(np.array([0, 1, 2]), np.array([2.0, 1.0, 1.0]))
    positions, (often, once, short), covered = scores([(term, weight)], np.array([100, 100, 50, 100]), 100.0)

    assert positions.tolist() == [0, 1, 2]
    assert covered.tolist() == [weight] * 3
    assert often > once
    assert short > once


def test_the_best_are_kept_with_those_that_are_as_good_as_the_last():
    """Which of equals is kept is decided by their places, not by where they lie in an index."""
    values = np.array([1.0, 3.0, 2.0, 2.0, 0.5, 2.0])

    assert sorted(spread(np.arange(6), values, 2, None)) == [1, 2, 3, 5]


@pytest.mark.parametrize(("each", "chosen"), [(1, [0, 4, 5]), (2, [0, 1, 4, 5]), (None, [0, 1, 2])])
def test_a_long_document_leaves_room_for_others(each, chosen):
    documents, values = np.array([7, 7, 7, 7, 8, 9]), np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])

    assert sorted(spread(documents, values, 3, each)) == chosen


def test_a_term_in_most_chunks_weighs_next_to_nothing_but_never_negative():
    assert 0 < inverse_document_frequency(10, 9) < 0.001
