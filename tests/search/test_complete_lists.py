"""Lists are complete: pages, totals and `--all` have every match of the words, the ranked ones first."""

import csv
import io
import random

import pytest

from conftest import make_environment, synced
from kbhub.search.judge import ENDS_WITH_NEAREST
from kbhub.search.plan import RANKED
from kbhub.types import Query

MATCHING, OTHERS = 260, 40
"""Documents with the word, many more than are ranked; documents without it."""

WANTED = {f"{number // 50}/{number:03}.md" for number in range(MATCHING)}
WORDS = ("deploy", "release", "index", "query", "cache", "token", "invoice", "payment", "latency", "schema", "replica")


def text_of(number: int) -> str:
    """Make a text of some words, the same for a number on every run, that has `zebra` once to four times."""
    choose = random.Random(number)
    words = [choose.choice(WORDS) for _ in range(choose.randrange(8, 60))]
    return f"# Note {number}\n\n{' '.join(words)}{' zebra' * (number < MATCHING) * choose.randrange(1, 5)}\n"


def write_notes(environment, folder="knowledge"):
    """Write the documents in folders of fifty."""
    for number in range(MATCHING + OTHERS):
        environment.write(f"{folder}/{number // 50}/{number:03}.md", text_of(number))


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A hub with 260 documents that have the word `zebra`, and 40 that have not."""
    made = make_environment(tmp_path_factory.mktemp("notes"))
    write_notes(made)
    return synced(made)


def walk(hub, **asked):
    """Give the hits of all pages, which all name the same number."""
    hits, totals = [], set()
    for _ in range(1000):
        page = hub.search(Query(**{"text": "zebra", "limit": 37, **asked, "offset": len(hits)}))
        totals.add((page.total, page.total_exact))
        hits += page.hits
        if len(hits) >= page.total:
            break
    assert {total for total, _ in totals} == {len(hits)}
    return hits, page


def names(hits):
    return [(hit.ref, hit.start_line) for hit in hits]


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_pages_have_every_document_with_the_word_once_and_are_cut_from_one_list(hub, mode):
    hits, last = walk(hub, mode=mode)
    every, found, offsets = names(hits), {hit.ref for hit in hits}, (0, 1, 2, 98, 99, 100, 101, 250)
    ones = [hub.search(Query(text="zebra", mode=mode, limit=1, offset=offset)).hits[0] for offset in offsets]
    assert last.total_exact
    assert len(set(every)) == len(hits)
    assert found == WANTED if mode == "keyword" else found >= WANTED
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len({hit.score for hit in hits[-30:]}) > 1, "what is further down is told apart, too"
    assert every == names(walk(hub, mode=mode, limit=100)[0]) == names(walk(hub, mode=mode, limit=13)[0])
    assert names(ones) == [every[offset] for offset in offsets]


def test_every_chunk_is_listed_where_a_hit_is_a_chunk(environment):
    """A long document gives all of its sections, in both kinds of hits only once."""
    part = "zebra and what is to be said of it. " * 20
    for name, parts in (("log", 150), ("guide", 40), ("short", 1)):
        text = "\n\n".join(f"## {name} {number}\n\n{part}{number}" for number in range(parts))
        environment.write(f"knowledge/{name}.md", f"# The {name}\n\n{text}\n")
    hub = synced(environment)
    assert {hit.ref for hit in walk(hub)[0]} == {"log.md", "guide.md", "short.md"}
    chunks, last = walk(hub, granularity="chunk")
    assert len(set(names(chunks))) == len(chunks) >= 191
    assert last.total_exact


def test_a_least_score_cuts_the_list_where_the_score_is_lower_and_by_meaning_alone_it_is_said_where_it_ends(hub):
    every, _ = walk(hub)
    for place in (5, 200):  # among those that are ranked, and behind them
        least = every[place].score + 0.00006  # between two that are told
        hits, last = walk(hub, min_score=least)
        assert (names(hits), last.total_exact) == (names(one for one in every if one.score >= least), True)

    # Everything is near, more or less: the number is the least there are, and the last page says why.
    first = hub.search(Query(text="zebra deploy", mode="semantic"))
    hits, last = walk(hub, text="zebra deploy", mode="semantic")
    assert (first.total_exact, last.total_exact) == (False, False)
    assert ENDS_WITH_NEAREST in last.notes
    assert ENDS_WITH_NEAREST not in first.notes
    assert len(hits) <= RANKED
    small = hub.search(Query(text="zebra path:0/00", mode="semantic"))
    assert (small.total, small.total_exact, small.notes) == (10, True, ())


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_recency_and_weights_count_to_the_end(environment, weight):
    write_notes(environment)
    other = environment.home / "other"
    write_notes(environment, other)
    environment.configure(bases={"other": {"knowledge": str(other), "weight": weight}}, repos={"*": ["other"]})
    hub = synced(environment)
    hits, last = walk(hub, recency=1.0, explain=True)
    assert len(hits) == last.total
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(("weight" in hit.trace.factors) == (hit.base == "other" and weight < 1) for hit in hits)
    plain, _ = walk(hub, recency=1.0, explain=True, without=("weight", "recency"))
    assert not any(hit.trace.factors for hit in plain)
    assert WANTED <= {ref.removeprefix("other@") for hit in hits for ref in (hit.ref, *hit.duplicates)}


def test_a_copy_that_is_told_with_its_twin_is_not_listed_again(environment):
    """Each document is named once, as a hit or as what has the same text, however many of its sections match."""
    write_notes(environment)
    lines = ("zebra zebra zebra", *(f"the zebra of month {month} {'eats grass ' * 200}" for month in range(1, 13)))
    text = "# The zebra\n\n" + "\n\n".join(f"## Part {number}\n\n{line}" for number, line in enumerate(lines))
    for number in range(8):
        environment.write(f"knowledge/copies/{number}.md", text)
    hub = synced(environment)
    hits, _ = walk(hub, mode="keyword")
    named = [ref for hit in hits for ref in (hit.ref, *hit.duplicates)]

    assert len(named) == len(set(named)) == MATCHING + 8
    assert len(hits[0].duplicates) == 7
    (hit,) = hub.search(Query(text="eats grass", mode="keyword")).hits
    assert len(set(hit.duplicates)) == len(hit.duplicates) == 7


def test_all_lists_every_file(environment, kbhub):
    write_notes(environment)
    hub = synced(environment)
    asked = ("search", "zebra", "--mode", "keyword")
    listed = kbhub(*asked, "--all", "--files", code=0).out.splitlines()
    assert [line.split(",")[2] for line in listed] == [hit.ref for hit in walk(hub, mode="keyword")[0]]
    assert MATCHING + 1 == len(list(csv.reader(io.StringIO(kbhub(*asked, "--all", "--csv").out))))
    assert MATCHING == len(kbhub(*asked, "--all", "--json").json["hits"])
    assert f"hits 204 to 210 of {MATCHING};" in kbhub(*asked, "--files", "--limit", "7", "--page", "30").err
    near = kbhub("search", "zebra deploy", "--mode", "semantic", "--all", "--files")
    assert ENDS_WITH_NEAREST in near.err
    few = kbhub("search", "zebra deploy", "--mode", "semantic", "--files")
    assert " of at least " in few.err
