"""How sure an answer is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbhub.confidence import hybrid_confidence, keyword_confidence, semantic_confidence, verdict

shares = st.floats(0, 1)


@given(shares, shares, st.integers(0, 100))
def test_confidence_is_a_probability(similarity, coverage, terms):
    """Any evidence gives a number between 0 and 1."""
    assert 0 <= hybrid_confidence(similarity, coverage, terms) <= 1
    assert 0 <= keyword_confidence(coverage, similarity, terms) <= 1
    assert 0 <= semantic_confidence(similarity) <= 1


@given(shares, shares, shares, st.integers(1, 12))
def test_more_evidence_is_never_less_sure(coverage, low, high, terms):
    """Confidence grows with similarity."""
    low, high = sorted((low, high))
    assert hybrid_confidence(low, coverage, terms) <= hybrid_confidence(high, coverage, terms)


def test_verdicts_follow_the_confidence():
    """A clear answer is strong, a question from elsewhere is covered by nothing."""
    assert verdict(hybrid_confidence(0.7, 0.9, 5)) == "strong"
    assert verdict(hybrid_confidence(0.3, 0.1, 8)) == "none"
    assert verdict(hybrid_confidence(0.45, 0.6, 3)) == "weak"
