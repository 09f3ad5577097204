"""Hits are graded by a model, under a deadline, and what they were ranked by still counts."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import synced
from kbhub.errors import ModelUnavailable
from kbhub.extensions.models import llm
from kbhub.extensions.models.llm import NONSENSE_ALLOWED, blended, grade, rerank, search_reranked
from kbhub.extensions.models.server import Ollama, StoredAnswers
from kbhub.types import Query
from kbhub.workspace.settings import RerankSettings

SETTINGS = RerankSettings(seconds=20)


@pytest.fixture
def hub(environment, ollama):
    """A hub over documents that all have the word of the query."""
    for number in range(12):
        text = f"# Note {number}\n\n{'Backup. ' * (12 - number)}Item {number}.\n"
        environment.write(f"knowledge/{number:02}.md", text)
    environment.env.update(ollama.env)
    return synced(environment)


def grades_by(ollama, judge):
    """Let the server grade by what it sees."""
    ollama.say = lambda body: f'{{"grade": {judge(body["messages"][1]["content"])}}}'


def refs(result):
    return [hit.ref for hit in result.hits]


def graded(ollama, tmp_path, passages, settings=SETTINGS, query="backup"):
    return grade(query, passages, settings, Ollama(ollama.env), StoredAnswers(tmp_path))


def test_each_passage_is_graded_by_itself(ollama, tmp_path):
    """One request each, of a form that allows four grades, thinking off."""
    grades_by(ollama, lambda content: 3 if "good" in content else 0)

    assert graded(ollama, tmp_path, ["bad one", "good one"]) == ({0: 0, 1: 3}, None)
    body, _ = ollama.asked("/api/chat")
    assert body["think"] is False
    assert body["format"]["properties"]["grade"]["enum"] == [0, 1, 2, 3]
    assert [message["role"] for message in body["messages"]] == ["system", "user"]

    ollama.models.clear()
    assert graded(ollama, tmp_path, ["good one", "bad one"]) == ({0: 3, 1: 0}, None)
    assert len(ollama.requests) == 2, "grades are kept"


def test_grades_that_are_there_at_the_deadline_count(ollama, tmp_path):
    grades_by(ollama, lambda content: 3)
    graded(ollama, tmp_path, ["known"])

    def slow(body):
        ollama.released.wait(0.25)
        return '{"grade": 1}'

    ollama.say = slow
    started = time.monotonic()
    grades, fault = graded(
        ollama, tmp_path, [*(f"passage {n}" for n in range(30)), "known"], RerankSettings(seconds=0.6)
    )

    assert time.monotonic() - started < 5
    assert 0 < len(grades) < 10
    assert grades[30] == 3, "what is known costs no time"
    assert "took longer than 0.6 s" in str(fault)
    assert "Raise `rerank.seconds`" in str(fault)


def test_a_note_says_what_was_not_graded(hub, monkeypatch):
    plain, fault = hub.search(Query(text="backup", mode="keyword", limit=12)), ModelUnavailable("late", "Late.")
    for grades, note in (({}, "Not reranked: Late."), ({0: 1}, "Reranked by the grades of 1 of 12 passages: Late.")):
        monkeypatch.setattr(llm, "grade", lambda *_, found=(grades, fault): found)
        assert rerank(hub, Query(text="backup"), plain, SETTINGS).notes == (*plain.notes, note)


def test_nonsense_about_one_passage_leaves_the_others(ollama, tmp_path):
    """A grade that is none is no grade; a model that gives none again and again is asked no more."""
    grades_by(ollama, lambda content: "7" if "odd" in content else "1")
    assert graded(ollama, tmp_path, ["odd", "even"])[0] == {1: 1}

    before = len(ollama.requests)
    assert graded(ollama, tmp_path, [f"odd {n}" for n in range(20)])[0] == {}
    assert len(ollama.requests) - before == NONSENSE_ALLOWED + 1


def test_the_shares_are_those_of_the_rank_and_what_was_not_graded_counts_as_the_mean():
    """Three quarters for the first three, three fifths up to ten, two fifths after."""
    values = blended([1.0] * 12, dict.fromkeys(range(12), 0))
    assert values == pytest.approx([0.75] * 3 + [0.6] * 7 + [0.4] * 2)

    best, worst, ungraded = blended([0.5, 0.5, 0.5], {0: 3, 1: 0})
    assert best > ungraded > worst


relevances = st.lists(st.floats(0, 1), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))


@given(relevances, st.data())
def test_a_strong_match_cannot_be_lost(relevance, data):
    """What the retrieval is sure of falls behind at most those that it finds at least a third as good."""
    relevance = [1.0, *relevance]
    grades = {0: 0} | data.draw(st.dictionaries(st.integers(1, len(relevance) - 1), st.integers(0, 3)))

    values = blended(relevance, grades)

    assert all(0 <= value <= 1 for value in values)
    before = [relevance[number] for number in range(1, len(values)) if values[number] > values[0]]
    assert all(value > 0.33 for value in before)


def test_graded_hits_come_in_another_order(hub, ollama):
    query = Query(text="backup", mode="keyword", limit=12, explain=True)
    plain = hub.search(query)
    favourite = refs(plain)[2]
    title = plain.hits[2].title
    grades_by(ollama, lambda content: 3 if f"{title}\n" in content else 0)

    result = rerank(hub, query, plain, SETTINGS)

    assert refs(result).index(favourite) < 2
    assert sorted(refs(result)) == sorted(refs(plain))
    assert max(hit.score for hit in result.hits) == max(hit.score for hit in plain.hits)
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    for hit in result.hits:
        assert hit.trace.signals[-1].name == "rerank"
        total = sum(signal.contribution for signal in hit.trace.signals) * math.prod(hit.trace.factors.values())
        assert total == pytest.approx(hit.score)
    assert result.notes == plain.notes


def test_hits_beyond_the_candidates_stay_where_they_are(hub, ollama):
    query = Query(text="backup", mode="keyword", limit=12)
    plain = hub.search(query)
    nothing = hub.search(Query(text="xyzzy", mode="keyword"))
    grades_by(ollama, lambda content: 1)
    assert rerank(hub, Query(text="xyzzy"), nothing, SETTINGS).hits == ()
    assert ollama.requests == [], "what has no order is not graded"

    result = rerank(hub, query, plain, RerankSettings(seconds=20, candidates=4))

    assert refs(result)[4:] == refs(plain)[4:]
    assert len(ollama.requests) == 4


def test_pages_are_cut_from_one_ranking(hub, ollama):
    grades_by(ollama, lambda content: int("Note 6\n" in content) * 3)
    query = Query(text="backup", mode="keyword", limit=12)
    whole = search_reranked(hub.search, hub, SETTINGS, query)
    halves = [query.model_copy(update={"limit": 6, "offset": offset}) for offset in (0, 6)]
    pages = [search_reranked(hub.search, hub, SETTINGS, half) for half in halves]

    assert [ref for page in pages for ref in refs(page)] == refs(whole)
    assert {page.total for page in pages} == {whole.total}
    assert refs(whole) != refs(hub.search(query))
