"""Joining signals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import ranking_of
from kbhub.search.plan import Candidate, SignalPart
from kbhub.search.retrieval import MOST_SEMANTIC_SHARE, SEMANTIC_SHARE, semantic_share
from kbhub.search.retrieval import fuse as fuse_rankings


def candidate(number: int, value: float, base: int = 0) -> tuple[tuple[int, int], int, float]:
    """A chunk, its document, and the value that a signal gives it."""
    return (base, number), number, value


def fuse(rankings, similar, fusion="convex", coverage=1.0):
    """Join rankings, given as candidates, and cosines by chunk; every chunk is the first of its file."""
    compared = ranking_of([(key, 0, similar[key]) for key in sorted(similar)])
    made = {signal: ranking_of(found) for signal, found in rankings.items()}

    def places(keys):
        return {(base, number): (f"{number:03}.md", 1, str(base)) for base, number in keys}

    return fuse_rankings(made, compared.chunks, compared.values, places, fusion, coverage)


rankings = st.dictionaries(
    st.sampled_from(["keyword", "semantic"]),
    st.lists(st.integers(0, 30), unique=True, max_size=20).map(
        lambda numbers: [candidate(number, 1.0 - place / 100) for place, number in enumerate(numbers)]
    ),
    min_size=1,
)
fusions = st.sampled_from(["convex", "rrf"])


@given(rankings, fusions)
def test_scores_lie_between_0_and_1_and_are_the_sum_of_their_parts(rankings, fusion):
    similar = {key: value for key, _, value in rankings.get("semantic", ())}
    fused = fuse(rankings, similar, fusion)

    assert {one.key for one in fused} == {key for ranking in rankings.values() for key, _, _ in ranking}
    assert len({one.key for one in fused}) == len(fused)
    for one in fused:
        assert 0 < one.score <= 1 + 1e-12
        assert one.score == pytest.approx(sum(part.amount for part in one.parts))


@given(rankings, st.randoms(), fusions)
def test_fusion_ignores_the_order_of_its_input(rankings, random, fusion):
    shuffled = list(rankings.items())
    random.shuffle(shuffled)

    one, other = (fuse(some, {}, fusion) for some in (rankings, dict(shuffled)))
    assert [(each.key, each.parts, each.score) for each in one] == [
        (each.key, each.parts, each.score) for each in other
    ]


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
def test_first_in_every_signal_scores_1(fusion):
    lead = [candidate(1, 9.0), candidate(2, 8.0)]

    for signals in ({"keyword": lead, "semantic": lead}, {"keyword": lead}):
        assert fuse(signals, {}, fusion)[0].score == pytest.approx(1.0)


def test_how_much_better_counts_and_not_only_that_it_is():
    """A wide lead by words outweighs a narrow one by meaning; a narrow lead does not outweigh a wide one."""
    wide, narrow = [candidate(1, 9.0), candidate(2, 3.0)], [candidate(2, 0.70), candidate(1, 0.68)]

    assert [one.key[1] for one in fuse({"keyword": wide, "semantic": narrow}, {})] == [1, 2]
    close, clear = [candidate(1, 9.0), candidate(2, 8.9)], [candidate(2, 0.7), candidate(1, 0.3)]
    assert [one.key[1] for one in fuse({"keyword": close, "semantic": clear}, {})] == [2, 1]


def test_a_chunk_without_a_vector_is_judged_by_its_words():
    """A base that another embedder indexed is neither favoured nor buried."""
    keyword = [candidate(1, 8.0, base=1), candidate(2, 8.0)]
    fused = {one.key: one.score for one in fuse({"keyword": keyword, "semantic": [candidate(2, 0.9)]}, {})}

    assert fused[1, 1] == pytest.approx(1.0)
    assert fused[0, 2] == pytest.approx(1.0)


def test_factors_multiply_and_a_factor_of_one_is_not_told():
    one = Candidate((0, 1), 1, (SignalPart("keyword", 3.0, 0.5, 1),))
    one.multiply("recency", 1.0)
    one.multiply("weight", 0.5)

    assert (one.factors, one.score) == ((("weight", 0.5),), 0.25)


def test_meaning_decides_where_no_chunk_has_the_words():
    """Its share falls with what the best chunk covers, evenly and within its limits."""
    shares = [semantic_share(coverage / 100) for coverage in range(101)]

    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[20], shares[50], shares[100]) == pytest.approx(
        (MOST_SEMANTIC_SHARE, MOST_SEMANTIC_SHARE, SEMANTIC_SHARE, SEMANTIC_SHARE)
    )
    assert semantic_share(0.35) == pytest.approx((MOST_SEMANTIC_SHARE + SEMANTIC_SHARE) / 2)
    words, meaning = [candidate(1, 9.0), candidate(2, 5.0)], [candidate(2, 0.8), candidate(1, 0.5)]
    assert fuse({"keyword": words, "semantic": meaning}, {}, coverage=0.6)[0].key[1] == 1
    assert fuse({"keyword": words, "semantic": meaning}, {}, coverage=0.1)[0].key[1] == 2
