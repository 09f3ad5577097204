"""Rank arithmetic."""

from __future__ import annotations

from kbhub.ranking import Candidate, bm25, inverse_document_frequency, ranked


def test_equal_scores_go_by_path_then_line_then_base():
    """Ties are decided the same way on every run and for every cut of a corpus."""
    tied = [
        Candidate((1, 1), 1.0, ("b.md", 1, "x")),
        Candidate((0, 2), 1.0, ("a.md", 9, "y")),
        Candidate((0, 1), 1.0, ("a.md", 2, "y")),
        Candidate((1, 2), 1.0, ("a.md", 2, "x")),
    ]

    assert [one.order for one in ranked(tied)] == [
        ("a.md", 2, "x"),
        ("a.md", 2, "y"),
        ("a.md", 9, "y"),
        ("b.md", 1, "x"),
    ]


def test_bm25_prefers_more_occurrences_and_shorter_chunks():
    """The formula behaves as its name promises."""
    weight = [inverse_document_frequency(100, 3)]

    assert bm25([2], weight, 100, 100.0) > bm25([1], weight, 100, 100.0)
    assert bm25([1], weight, 50, 100.0) > bm25([1], weight, 100, 100.0)
    assert bm25([0], weight, 100, 100.0) == 0


def test_a_term_in_most_chunks_weighs_next_to_nothing_but_never_negative():
    """Common terms order chunks only where nothing else does."""
    assert 0 < inverse_document_frequency(10, 9) < 0.001
