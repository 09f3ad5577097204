"""One ranking per signal over all bases, the same however a corpus is cut, and both joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import make_index, ranking_of, rankings, sentences
from kbhub.index.matches import keys_of
from kbhub.index.query.parser import parse_query
from kbhub.search import retrieval
from kbhub.search.plan import Candidate
from kbhub.search.retrieval import MOST_SEMANTIC_SHARE, SEMANTIC_SHARE, falling, keyword_ranking
from kbhub.search.retrieval import fuse as fuse_rankings


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """An index of 300 documents."""
    return make_index(tmp_path_factory.mktemp("one") / "one.db", sentences(300), "b0")


def test_scores_are_those_of_sqlite(index, monkeypatch):
    """In one base the pooled score is FTS5's own bm25(), but for how rare a word is in the language."""
    monkeypatch.setattr(retrieval, "FEW_CHUNKS", 0)
    terms = parse_query("restore database backup").terms
    with index.snapshot():
        ranking = keyword_ranking([index], terms).ranking
        found = dict(zip((chunk for _, chunk in keys_of(ranking.chunks)), ranking.values.tolist(), strict=True))
        ranked = "SELECT rowid, -bm25(fts, 2.0, 2.0, 1.0, 1.0, 1.0) FROM fts WHERE fts MATCH ?"
        words = " OR ".join(term.match for term in terms)
        expected = dict(index._local.seen.connection.execute(ranked, (words,)))
    assert found
    assert all(abs(expected[chunk] - score) < 1e-9 for chunk, score in found.items())


def test_a_phrase_that_occurs_nowhere_gives_way_to_its_words_also_beside_an_empty_base(index, tmp_path):
    with index.snapshot():
        found = keyword_ranking([index], parse_query("release-password").terms)
        none = keyword_ranking([index], parse_query("?!").terms)
    assert (found.unmatched, len(found.ranking.chunks) > 0, len(none.ranking.chunks)) == ((), True, 0)
    empty = make_index(tmp_path / "empty.db", {}, "empty")
    assert rankings([empty, index], "refund") == rankings([index], "refund")


def test_a_long_phrase_gives_way_to_some_of_its_words_and_half_the_pairs_of_a_chinese_question_are_enough(tmp_path):
    """A pasted page in quotes is answered, though SQLite takes only so many terms at a time."""
    index = make_index(tmp_path / "a.db", {"a.md": " ".join(f"w{number}" for number in range(3000))}, vectors=False)
    backwards = " ".join(f"w{number}" for number in range(2999, -1, -1))
    joined = " ".join("-".join(f"w{number * 40 + part}" for part in range(39, -1, -1)) for number in range(60))
    with index.snapshot():
        for query in (f'"{backwards}"', joined):
            found = keyword_ranking([index], parse_query(query).terms)
            assert (1, ()) == (len(found.ranking.chunks), found.unmatched)

    # Pairs across two words are chance, so they count for less than missing words do.
    index = make_index(tmp_path / "zh.db", {"a.md": "数据库备份每天运行", "b.md": "deploy the database every day"})
    with index.snapshot():
        (chinese, english) = (
            keyword_ranking([index], parse_query(text).terms).coverage
            for text in ("数据库怎么备份", "database zebra deploy quagga")
        )
    assert english == pytest.approx(0.5, abs=0.05)
    assert chinese > english + 0.1


def test_in_a_few_notes_a_word_that_is_common_in_the_language_counts_for_less(tmp_path):
    """With a thousand notes, they tell themselves how rare a word is."""
    few = {"a.md": "# Branches\n\nThis takes long.", "b.md": "# Canary\n\nIt waits.", "c.md": "# Other\n\nNothing."}
    many = {**few, **{f"{number}.md": f"# Note {number}\n\nSome text." for number in range(1000)}}
    weights = []
    for name, documents in (("few", few), ("many", many)):
        index = make_index(tmp_path / f"{name}.db", documents)
        with index.snapshot():
            long, canary = keyword_ranking([index], parse_query("long canary").terms).terms
            weights.append(long.weight / canary.weight)
    assert weights[0] < 0.8
    assert weights[1] == pytest.approx(1, abs=0.1)


def candidate(number: int, value: float, base: int = 0) -> tuple[tuple[int, int], int, float]:
    """A chunk, its document, and the value that a signal gives it."""
    return (base, number), number, value


def fuse(rankings, similar, coverage=1.0):
    """Join rankings, given as candidates, and cosines by chunk; every chunk is the first of its file."""
    compared = ranking_of([(key, 0, similar[key]) for key in sorted(similar)])
    made = {signal: ranking_of(found) for signal, found in rankings.items()}

    def places(keys):
        return {(base, number): (f"{number:03}.md", 1, str(base)) for base, number in keys}

    return fuse_rankings(made, compared.chunks, compared.values, places, coverage)


RANKINGS = st.dictionaries(
    st.sampled_from(["keyword", "semantic"]),
    st.lists(st.integers(0, 30), unique=True, max_size=20).map(
        lambda numbers: [candidate(number, 1.0 - place / 100) for place, number in enumerate(numbers)]
    ),
    min_size=1,
)


@given(RANKINGS)
def test_scores_lie_between_0_and_1_and_are_the_sum_of_their_parts(rankings):
    similar = {key: value for key, _, value in rankings.get("semantic", ())}
    fused = fuse(rankings, similar)
    assert {one.key for one in fused} == {key for ranking in rankings.values() for key, _, _ in ranking}
    assert len({one.key for one in fused}) == len(fused)
    for one in fused:
        assert 0 < one.score <= 1 + 1e-12
        assert one.score == pytest.approx(sum(part.amount for part in one.parts))


@given(RANKINGS, st.randoms())
def test_fusion_ignores_the_order_of_its_input(rankings, random):
    shuffled = list(rankings.items())
    random.shuffle(shuffled)
    one, other = (fuse(some, {}) for some in (rankings, dict(shuffled)))
    assert [(hit.key, hit.parts, hit.score) for hit in one] == [(hit.key, hit.parts, hit.score) for hit in other]


def test_first_in_every_signal_scores_1():
    lead = [candidate(1, 9.0), candidate(2, 8.0)]
    for signals in ({"keyword": lead, "semantic": lead}, {"keyword": lead}):
        assert fuse(signals, {})[0].score == pytest.approx(1.0)


def test_how_much_better_counts_and_not_only_that_it_is_and_a_chunk_without_a_vector_is_judged_by_its_words():
    """A wide lead by words outweighs a narrow one by meaning; a narrow lead does not outweigh a wide one.

    A base that another embedder indexed is neither favoured nor buried.
    """
    wide, narrow = [candidate(1, 9.0), candidate(2, 3.0)], [candidate(2, 0.70), candidate(1, 0.68)]
    assert [one.key[1] for one in fuse({"keyword": wide, "semantic": narrow}, {})] == [1, 2]
    close, clear = [candidate(1, 9.0), candidate(2, 8.9)], [candidate(2, 0.7), candidate(1, 0.3)]
    assert [one.key[1] for one in fuse({"keyword": close, "semantic": clear}, {})] == [2, 1]
    keyword = [candidate(1, 8.0, base=1), candidate(2, 8.0)]
    fused = {one.key: one.score for one in fuse({"keyword": keyword, "semantic": [candidate(2, 0.9)]}, {})}
    assert fused[1, 1] == pytest.approx(1.0)
    assert fused[0, 2] == pytest.approx(1.0)


def test_factors_multiply_and_a_factor_of_one_is_not_told_and_meaning_decides_where_no_chunk_has_the_words():
    """The share of meaning falls with what the best chunk covers, evenly and within its limits."""
    one = Candidate((0, 1), (0, 1), score=0.5)
    one.multiply("recency", 1.0)
    one.multiply("weight", 0.5)

    assert (one.factors, one.score) == ((("weight", 0.5),), 0.25)

    limits = retrieval.LOW_COVERAGE, retrieval.HIGH_COVERAGE, MOST_SEMANTIC_SHARE, SEMANTIC_SHARE
    shares = [falling(coverage / 100, *limits) for coverage in range(101)]

    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[20], shares[50], shares[100]) == pytest.approx(
        (MOST_SEMANTIC_SHARE, MOST_SEMANTIC_SHARE, SEMANTIC_SHARE, SEMANTIC_SHARE)
    )
    assert falling(0.35, *limits) == pytest.approx((MOST_SEMANTIC_SHARE + SEMANTIC_SHARE) / 2)
    words, meaning = [candidate(1, 9.0), candidate(2, 5.0)], [candidate(2, 0.8), candidate(1, 0.5)]
    assert fuse({"keyword": words, "semantic": meaning}, {}, coverage=0.6)[0].key[1] == 1
    assert fuse({"keyword": words, "semantic": meaning}, {}, coverage=0.1)[0].key[1] == 2
