"""Other wordings of a query, searched beside it."""

import math

import pytest

from conftest import synced
from kbhub.errors import UsageError
from kbhub.search.search import search_assisted
from kbhub.types import Query


@pytest.fixture
def hub(environment):
    text = "---\ntags: [ops]\n---\n# Reverting\n\nRollback of a release: redeploy the old image.\n"
    environment.write("knowledge/revert.md", text)
    environment.write("knowledge/undo.md", "# Undo in the editor\n\nPress the undo key to undo typing.\n")
    environment.write("knowledge/lunch.md", "# Lunch\n\nThe canteen opens at noon.\n")
    for number in range(8):
        environment.write(f"knowledge/notes/{number}.md", f"# Note {number}\n\nUndo number {number} of the list.\n")
    return synced(environment)


def refs(result):
    return [hit.ref for hit in result.hits]


def test_other_words_find_what_the_query_does_not(hub):
    query = Query(text="undo bad deploy", mode="keyword", limit=10, explain=True)
    assert "revert.md" not in refs(hub.search(query))

    result = hub.search(query.model_copy(update={"queries": ("rollback release", "redeploy the old image")}))

    assert refs(result)[0] == "revert.md"
    assert result.query == "undo bad deploy"
    assert {"undo", "rollback"} <= set(result.terms)
    for hit in result.hits:
        total = sum(signal.contribution for signal in hit.trace.signals) * math.prod(hit.trace.factors.values())
        assert total == pytest.approx(hit.score, abs=1e-4)


def test_a_word_counts_once_for_each_wording_that_has_it_and_wordings_have_limits(hub):
    agreed, alone = ("canteen lunch", "canteen noon"), ("canteen lunch", "undo number noon")

    def keyword(queries):
        result = hub.search(Query(text="undo", mode="keyword", queries=queries, limit=20, explain=True))
        (hit,) = [hit for hit in result.hits if hit.ref == "lunch.md"]
        return next(signal.value for signal in hit.trace.signals if signal.name == "keyword")

    for queries in (alone, agreed):
        assert refs(hub.search(Query(text="canteen undo", mode="keyword", queries=queries)))[0] == "lunch.md"
    assert keyword(agreed) > keyword(agreed[:1])

    with pytest.raises(UsageError, match="the maximum is 5"):
        search_assisted(hub, Query(text="undo", queries=("a",) * 6))

    long = search_assisted(hub, Query(text="rollback", queries=("restore " * 1000,)))
    assert any("first 2,000 characters" in note for note in long.notes)
    assert not any("characters" in note for note in search_assisted(hub, Query(text="a", queries=("b",))).notes)


def test_what_a_model_made_up_ranks_and_proves_little(hub):
    """Its words count as other wordings do, but not as evidence that a hit answers the query."""
    query = Query(text="xyzzy", limit=10)
    result = hub.search(query.model_copy(update={"passage": "The canteen opens at noon for lunch."}))

    assert refs(result)[0] == "lunch.md"
    assert result.verdict != "strong"
    assert hub.search(query.model_copy(update={"queries": ("canteen opens at noon for lunch",)})).verdict == "strong"


def test_spelling_filters_and_exclusions_are_of_the_query_alone(hub):
    """Other wordings bring nothing in that the user left out, and no note of their own."""
    narrow = Query(text="undo deploy tag:ops", limit=10, queries=("lunch tag:food", "zzzzyx"), passage="At noon.")
    result = hub.search(narrow)

    assert refs(result) == ["revert.md"]
    assert not {"zzzzyx", "lunch"} & set(result.unmatched)
    assert not result.corrections
    excluded = Query(text='undo -"redeploy"', limit=20, queries=("rollback release -undo",))
    assert "revert.md" not in refs(hub.search(excluded))
    assert "undo.md" in refs(hub.search(excluded))


@pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
def test_without_other_words_nothing_changes(hub, mode):
    query = Query(text="undo typing", mode=mode, limit=10)

    assert hub.search(query.model_copy(update={"queries": ("", " ")})) == hub.search(query)
