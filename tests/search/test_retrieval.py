"""One ranking per signal over all bases, the same however a corpus is cut."""

from contextlib import ExitStack

import pytest

from corpus import EMBEDDER, make_index, sentences
from kbhub.index.query.parser import parse_query
from kbhub.search import retrieval
from kbhub.search.retrieval import keyword_ranking, places_in, semantic_ranking


def rankings(indexes, query):
    """Both rankings of a query, as (path, rounded value)."""
    with ExitStack() as stack:
        for index in indexes:
            stack.enter_context(index.snapshot())
        keyword = keyword_ranking(indexes, parse_query(query).terms).ranking
        semantic = semantic_ranking(indexes, EMBEDDER.embed([query])[0]).ranking
        places = places_in(indexes)([*keyword.as_keys(), *semantic.as_keys()])
        return [
            [(places[key][0], round(value, 9)) for key, value in zip(one.as_keys(), one.values.tolist(), strict=True)]
            for one in (keyword, semantic)
        ]


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
        found = dict(zip((chunk for _, chunk in ranking.as_keys()), ranking.values.tolist(), strict=True))
        expected = dict(
            index._local.seen.connection.execute(
                "SELECT rowid, -bm25(fts, 2.0, 2.0, 1.0, 1.0, 1.0) FROM fts WHERE fts MATCH ?",
                (" OR ".join(term.match for term in terms),),
            )
        )

    assert found
    assert all(abs(expected[chunk] - score) < 1e-9 for chunk, score in found.items())


def test_a_phrase_that_occurs_nowhere_gives_way_to_its_words(index):
    with index.snapshot():
        found = keyword_ranking([index], parse_query("release-password").terms)
        none = keyword_ranking([index], parse_query("?!").terms)

    assert (found.unmatched, len(found.ranking) > 0, len(none.ranking)) == ((), True, 0)


def test_a_long_phrase_gives_way_to_some_of_its_words(tmp_path):
    """A pasted page in quotes is answered, though SQLite takes only so many terms at a time."""
    index = make_index(tmp_path / "a.db", {"a.md": " ".join(f"w{number}" for number in range(3000))}, vectors=False)
    backwards = " ".join(f"w{number}" for number in range(2999, -1, -1))
    joined = " ".join("-".join(f"w{number * 40 + part}" for part in range(39, -1, -1)) for number in range(60))
    with index.snapshot():
        for query in (f'"{backwards}"', joined):
            found = keyword_ranking([index], parse_query(query).terms)

            assert (1, ()) == (len(found.ranking), found.unmatched)


def test_an_empty_base_among_others_is_harmless(tmp_path, index):
    empty = make_index(tmp_path / "empty.db", {}, "empty")

    assert rankings([empty, index], "refund") == rankings([index], "refund")


def test_half_the_pairs_of_a_question_in_chinese_are_enough_for_its_words(tmp_path):
    """Pairs across two words are chance, so they count for less than missing words do."""
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
