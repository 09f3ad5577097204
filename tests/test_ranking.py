"""Rank arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbhub.ranking import Candidate, bm25, fuse, inverse_document_frequency, ranked


def candidate(number: int, value: float, base: int = 0) -> Candidate:
    return Candidate((base, number), value, (f"{number:03}.md", 1, str(base)))


rankings = st.dictionaries(
    st.sampled_from(["keyword", "semantic"]),
    st.lists(st.integers(0, 30), unique=True, max_size=20).map(
        lambda numbers: [candidate(number, 1.0 - place / 100) for place, number in enumerate(numbers)]
    ),
    min_size=1,
)


@given(rankings)
def test_scores_lie_between_0_and_1_and_add_up(rankings):
    """Every score is in 0..1, and is the sum of what its signals contributed."""
    for one in fuse(rankings):
        assert 0 < one.score <= 1
        assert abs(one.score - sum(part.amount for part in one.contributions)) < 1e-12


@given(rankings, st.randoms())
def test_fusion_ignores_the_order_of_its_input(rankings, random):
    """The same rankings in another order of signals give the same result."""
    shuffled = list(rankings.items())
    random.shuffle(shuffled)

    assert fuse(rankings) == fuse(dict(shuffled))


def test_first_in_every_signal_scores_1():
    """A chunk that leads every ranking that ran has the full score."""
    lead = [candidate(1, 9.0), candidate(2, 8.0)]

    assert fuse({"keyword": lead, "semantic": lead})[0].score == 1.0
    assert fuse({"keyword": lead})[0].score == 1.0


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


def test_a_heavier_base_goes_first():
    """The weight of a base moves its hits, and scores stay within 0..1."""
    fused = fuse({"keyword": [candidate(1, 2.0, base=0), candidate(2, 1.0, base=1)]}, base_weights=[1.0, 3.0])

    assert [one.key for one in fused] == [(1, 2), (0, 1)]
    assert fused[0].score <= 1


def test_bm25_prefers_more_occurrences_and_shorter_chunks():
    """The formula behaves as its name promises."""
    weight = [inverse_document_frequency(100, 3)]

    assert bm25([2], weight, 100, 100.0) > bm25([1], weight, 100, 100.0)
    assert bm25([1], weight, 50, 100.0) > bm25([1], weight, 100, 100.0)
    assert bm25([0], weight, 100, 100.0) == 0


def test_a_term_in_most_chunks_weighs_next_to_nothing_but_never_negative():
    """Common terms order chunks only where nothing else does."""
    assert 0 < inverse_document_frequency(10, 9) < 0.001
