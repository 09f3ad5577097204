"""Strength moves memories in the ranking, by a bounded amount, and follows the formulas."""

from itertools import product

import pytest

from kbhub.memory.catalog import count_refs
from kbhub.memory.changes import remember
from kbhub.search.document_signals import LEAST_FACTOR, SUPERSEDED_FACTOR, strength, strength_factor
from kbhub.search.retrieval import RRF_K
from kbhub.types import Query
from kbhub.values import DAY_SECONDS


def search(hub, text):
    hub.rediscover()
    hub.freshen(max_age=0)
    hub.sync()
    return hub.search(Query(text=text, explain=True, limit=10))


def place(result, part):
    return next(number for number, hit in enumerate(result.hits) if part in hit.excerpt)


def test_a_faded_memory_ranks_below_a_fresh_equal(hub, clock):
    remember(hub, "The staging cluster of team alpha restarts on Monday at noon.")
    clock.pass_days(300)
    remember(hub, "The staging cluster of team gamma restarts on Monday at noon.")
    result = search(hub, "when does the staging cluster restart")

    assert place(result, "gamma") < place(result, "alpha")
    faded = result.hits[place(result, "alpha")]
    assert faded.kind == "memory"
    assert 0.9 <= faded.trace.factors["strength"] < 1


def test_a_strong_old_memory_does_not_bury_a_better_document(environment, hub):
    environment.write(
        "knowledge/rollback.md",
        "# Rolling back a release\n\nTo roll back a release run `orchard rollback production` and tell the team.\n",
    )
    made = remember(hub, "Releases are announced in the channel of the team.", scope="project")
    search(hub, "release")
    for _ in range(30):
        count_refs(hub, [made.memory.ref])
    result = search(hub, "how do I roll back a release")

    assert result.hits[0].path == "rollback.md"


def test_use_lifts_a_memory_above_its_equal(hub, clock):
    first = remember(hub, "The staging cluster of team alpha restarts on Monday at noon.")
    remember(hub, "The staging cluster of team gamma restarts on Monday at noon.")
    clock.now += 60
    remember(hub, id=first.memory.id)  # both hold
    search(hub, "staging")
    for _ in range(7):
        count_refs(hub, [first.memory.ref])
    result = search(hub, "when does the staging cluster restart")

    assert place(result, "alpha") < place(result, "gamma")


OLD = "The cleanup job runs at 2 am."
NEW = "Cleanup runs at 4 am to stay clear of the backup."
QUESTION = "when does the job run?"


def pair(hub, clock):
    """An older memory that has the words of the question, and a newer one that has not."""
    old = remember(hub, OLD)
    clock.now += 60
    return old.memory, remember(hub, NEW)


def test_a_similar_memory_goes_below_the_newer_one_until_it_is_confirmed(hub, clock):
    old, new = pair(hub, clock)

    assert [one.id for one in new.near] == [old.id]
    assert new.memory.may_supersede == (old.id,)
    first, second = search(hub, QUESTION).hits
    assert (first.ref, second.ref) == (new.memory.ref, old.ref)
    assert second.outdated.startswith(f"a newer memory may replace this: {first.ref}:")

    clock.now += 60
    remember(hub, id=old.id)
    first, second = search(hub, QUESTION).hits
    assert (first.ref, first.outdated, second.outdated) == (old.ref, None, None)


def test_one_call_supersedes_without_a_new_text(hub, clock):
    old, new = pair(hub, clock)
    settled = remember(hub, id=new.memory.id, supersedes=[old.id]).memory

    assert (settled.supersedes, settled.may_supersede) == ((old.id,), ())
    assert [hit.outdated for hit in search(hub, QUESTION).hits] == [None, f"superseded by {settled.id}"]


def test_a_successor_that_the_words_do_not_find_takes_the_place_of_what_it_supersedes(environment, hub):
    old = remember(hub, "The mascot of the team is a heron, mascot_id 7.").memory
    new = remember(hub, "Ahab, the whale.", supersedes=[old.id]).memory
    last = remember(hub, "Qubert.", supersedes=[new.id]).memory
    other = remember(hub, "The team of station0 has no mascot.").memory
    (file,) = environment.home.parent.rglob(other.ref.partition("@")[2])
    for number in range(1, 120):
        text = file.read_text().replace("station0", f"station{number}").replace(other.id, f"s{number:07}")
        environment.write(file.with_name(f"station{number}.md"), text)

    for text, mode in product(("mascot heron", "mascot_id"), ("keyword", "hybrid", "semantic")):
        hub.sync()
        hits = hub.search(Query(text=text, mode=mode)).hits
        refs = [hit.ref for hit in hits if hit.ref in (old.ref, new.ref, last.ref)]
        assert refs == [last.ref, new.ref, old.ref]
        assert hits[0].ref == last.ref


def test_strength_is_decay_times_confidence():
    """A memory fades evenly over 180 days down to a tenth; confidence starts with the source, and grows by doubling.

    A use in the future, by another machine's clock, makes it no stronger than it can be.
    """
    now = 1_000_000_000.0
    fading = {-30: 1, 0: 1, 45: 0.75, 90: 0.5, 162: 0.1, 2000: 0.1}
    assert {days: strength("user", 7, now - days * DAY_SECONDS, now) for days in fading} == pytest.approx(fading)
    confidence = [strength("agent", uses, now, now) for uses in (0, 1, 3, 7, 8)]
    assert confidence == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.8])
    assert strength("user", 0, now, now) == pytest.approx(0.7)
    assert strength("user", 3, now - 90 * DAY_SECONDS, now) == pytest.approx(0.5 * 0.9)
    assert strength("user", 7, now, now) == pytest.approx(1)
    assert strength("agent", 0, 0, now) == pytest.approx(0.05)


def test_the_effect_on_ranking_is_bounded():
    """The weakest memory loses seven places at the top of a ranking, and the strongest none, unless superseded."""
    assert strength_factor(1) == 1
    assert strength_factor(0) == strength_factor(-1) == LEAST_FACTOR
    first, places = 1 / (RRF_K + 1), [1 / (RRF_K + rank) for rank in range(1, 20)]
    assert sum(place > first * strength_factor(0) for place in places) == 7
    assert strength_factor(1, superseded=True) == SUPERSEDED_FACTOR < strength_factor(0)
