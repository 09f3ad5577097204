"""A memory is a file that a person reads and edits; its strength moves it in the ranking, by a bounded amount."""

import json
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbhub.errors import UsageError, WriteRefused
from kbhub.memory.catalog import NEAR_SUBJECT, count_refs
from kbhub.memory.changes import remember
from kbhub.memory.files import (
    MAX_FILE_BYTES,
    MAX_TEXT_BYTES,
    _forms,
    changed_file,
    checked_namespace,
    checked_tags,
    checked_text,
    new_file,
    parse_memory,
    repeats,
    slug,
    title_of,
    wording,
)
from kbhub.memory.lists import memories
from kbhub.search.conversations import SAME_SUBJECT, Statement, closest, likeness, statements
from kbhub.search.document_signals import strength
from kbhub.types import Base, Query
from kbhub.values import DAY_SECONDS
from kbhub.workspace.discovery import MemoryFolder

HAND = """---
# what I know
title: "Mine"   # quoted
tags: [a, b]
other:
  deep: 1
superseded_by:
- old
---

Text of mine.
"""

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def pairs(kind):
    """Pairs of sentences by which likeness is judged; what the docstrings say of it was measured with these."""
    rows = map(json.loads, (BENCHMARKS / "pairs.jsonl").read_text("utf-8").splitlines())
    return [(row["one"], row["other"]) for row in rows if row["kind"] == kind]


SAME_MEANING, *OTHERS = PAIRS = pairs("same meaning"), pairs("contradiction"), pairs("other respect")

FOLDER = MemoryFolder("project", Base(id="memory", path=Path("/memories"), origin="memory"))
parsed = partial(parse_memory, FOLDER, written=0)


@pytest.mark.parametrize(
    ("checked", "given"),
    [
        (checked_text, ("", " \n\t", "a\0b", "\x1b[2J", "a\ud800", "x" * (MAX_TEXT_BYTES + 1), "é" * 50_001)),
        (checked_tags, (["two words"], ["a,b"], ["a\nb"], ["-a"], ["x" * 65], ["[a]"], [""])),
        (checked_namespace, ("a//b", "..", "a/../b", "a b", "%", "*", "/", "a/*", "x" * 129)),
    ],
    ids=["text", "tags", "namespace"],
)
def test_what_cannot_be_a_text_a_tag_or_a_namespace_is_refused(checked, given):
    """Patterns are no namespaces, so nobody deletes by one."""
    for one in given:
        with pytest.raises(UsageError):
            checked(one)


def test_texts_tags_and_namespaces_are_written_in_one_way_and_a_title_is_the_first_line_cut_at_a_word():
    assert checked_text("x" * MAX_TEXT_BYTES) == "x" * MAX_TEXT_BYTES
    assert checked_tags(["#ops", "ops", "api/v1", "größe"]) == ("ops", "api/v1", "größe")
    assert checked_namespace("/Ops/Deploy/") == "ops/deploy"
    assert parsed("a.md", "---\nnamespace: /Ops/\ufb01les/\n---\n".encode()).facts.namespace == "ops/files"
    assert title_of("\n## Why we tag\nmore") == "Why we tag"
    assert len(title_of("word " * 40)) < 80
    assert title_of("Why\u2028we  tag\x85now") == "Why we tag now"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# Releases need the VPN!", "releases-need-the-vpn"), ("../../etc/passwd", "etc-passwd"),
        (".hidden", "hidden"), ("--all", "all"), ("リリースには", "リリースには"), ("!!!", "memory"),
        ("x" * 300, "x" * 48), ("CON", "con"),
    ],
)  # fmt: skip
def test_a_file_is_called_by_the_first_words(text, name):
    assert slug(text) == name


@given(st.text(max_size=200))
def test_any_text_gives_a_name_that_stays_in_its_folder(text):
    name = slug(text)
    assert name
    assert not set(name) & set("/\\\0\n.:")
    assert len(name.encode()) <= 200


@given(st.text(max_size=300).filter(str.strip))
def test_what_is_written_is_read(text):
    """Whatever the text looks like, front matter too, it stays the text."""
    try:
        body = checked_text(text)
    except UsageError:
        return
    again = parsed("x-abcdefgh.md", new_file({"id": "abcdefgh", "tags": ("a",)}, body).encode())
    assert again.body == body
    assert again.facts.id == "abcdefgh"
    assert again.facts.tags == ("a",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            HAND,
            '---\n# what I know\ntitle: "Mine"   # quoted\ntags: [c]\nother:\n  deep: 1\n'
            "updated: 2026-01-01\n---\n\nText of mine.\n",
        ),
        (
            '---\nupdated: 2024-01-01\n"quoted key": keep\nübersicht: keep\n2024: keep\na/b: keep\n---\n\nText.\n',
            '---\nupdated: 2026-01-01\n"quoted key": keep\nübersicht: keep\n2024: keep\na/b: keep\ntags: [c]\n'
            "---\n\nText.\n",
        ),
        (
            "---\nUpdated: 2024-01-01\nTAGS: [b]\nSuperseded_by: x\n---\nText.\n",
            "---\nUpdated: 2026-01-01\nTAGS: [c]\n---\nText.\n",
        ),
        ("---\n  id: a\n---\nText.", "---\n  id: a\n  tags: [c]\n  updated: 2026-01-01\n---\nText."),
        (
            "\ufeff---\r\nid: a\r\n---\r\n\r\nText.\r\n\r\n\r\n",
            "\ufeff---\r\nid: a\r\ntags: [c]\r\nupdated: 2026-01-01\r\n---\r\n\r\nText.\r\n\r\n\r\n",
        ),
    ],
)
def test_a_change_leaves_everything_else_as_somebody_wrote_it(before, after):
    memory = parsed("mine.md", before.encode())
    changed = changed_file("mine.md", memory, {"tags": ("c",), "superseded_by": (), "updated": "2026-01-01"})
    assert changed.decode() == after
    facts = parsed("mine.md", changed).facts
    assert (facts.tags, facts.updated, facts.superseded_by) == (("c",), 1_767_225_600.0, ())


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (b"---\n{id: a, tags: [x]}\n---\nText.\n", "braces"), (b"---\nid: a\n---\nCaf\xe9\n", "lose bytes"),
        (b"Text\0.\n", "lose bytes"), (b"---\nid: [\n---\nText.\n", "YAML"),
        ("---\nid: 'a\u2028b'\n---\nText.\n".encode(), "line breaks"), (b"x" * (MAX_FILE_BYTES + 1), "shorten"),
    ],
)  # fmt: skip
def test_a_file_that_a_change_would_harm_is_refused(before, reason):
    with pytest.raises(WriteRefused, match=reason):
        changed_file("mine.md", parsed("mine.md", before), {"tags": ("c",)})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"---\r\nid: a\r\n---\r\n\r\nOld.\r\n", b"---\r\nid: a\r\n---\r\n\r\nOne.\r\nTwo.\r\n"),
        (b"---\nid: a\n---", b"---\nid: a\n---\nOne.\nTwo.\n"),
    ],
)
def test_a_new_text_has_the_line_ends_of_its_file(before, after):
    assert changed_file("mine.md", parsed("mine.md", before), {}, "One.\nTwo.") == after
    changed = parsed("mine.md", changed_file("mine.md", parsed("mine.md", b"Just text"), {"tags": ("a",)}))
    assert (changed.body, changed.facts.tags) == ("Just text", ("a",))


@pytest.mark.parametrize(
    "front",
    [
        "source: root", "about: 1", "supersedes: {a: b}", "id: [1]", "about_hash: x", "created: 99999-01-01",
        "created: 0001-01-01T00:00:00+05:00", "created: 9999-12-31T23:59:59.999999+00:00",
    ],
)  # fmt: skip
def test_front_matter_that_makes_no_sense_counts_as_missing(front):
    facts = parsed("some-name.md", f"---\n{front}\n---\ntext".encode()).facts
    assert facts.id == "some-name"
    assert facts.source == "agent"
    assert facts.created is None


def test_the_same_words_are_the_same_memory_and_statements_are_near_as_measured():
    """Case, articles, inflection and punctuation at the end of words make no two memories; marks and order may."""
    one = "Releases need the VPN; without it, uploads hang."
    for other in ("releases need VPN: without it uploads hang", "- **Releases** need the VPN. Without it upload hangs"):
        assert wording(one) == wording(other)
    marks = (("use `a == b`", "use `a != b`"), ("v1.2", "v12"), ("set -e", "set +e"), ("a<b", "a>b"))
    for one, other in (*marks, ("Anna asks Bo", "Bo asks Anna")):
        assert wording(one) != wording(other)
    found = [[likeness(*map(Statement, pair)) >= NEAR_SUBJECT for pair in pairs] for pairs in PAIRS]
    assert list(map(sum, found)) == [20, 20, 0]
    old = statements("Notes are in Markdown. The nightly backup starts at 02:00. For example, ask the team.")
    far, near = [closest(old, statements(one)) for one in ("Ask the team, e.g.", "The backup starts nightly at 4.")]
    team = likeness(Statement("Jenkins is run by the team."), Statement("The team no longer uses Docker."))
    assert max(far, team) < NEAR_SUBJECT < SAME_SUBJECT <= near


def test_what_is_said_again_in_another_order_is_the_same_and_another_point_is_not(monkeypatch):
    monkeypatch.setattr("kbhub.memory.files._forms", cache(_forms))
    words = cache(wording)

    def same(pairs):
        return [pair for pair in pairs if words(pair[0]) == words(pair[1]) or repeats(*pair)]

    lines = (BENCHMARKS / "corrections.jsonl").read_text("utf-8").splitlines()
    facts = [fact[part] for fact in map(json.loads, lines) for part in ("old", "new", "beside") if part in fact]
    repeated, near = pairs("repeat"), pairs("another point")
    assert (len(same(repeated)), len(repeated), len(near)) == (53, 60, 109)
    assert len(same(SAME_MEANING)) == 8
    for others in (near, *OTHERS, combinations(facts, 2)):
        assert same(others) == []


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_can_be_compared(one, other):
    assert repeats(one, other) == repeats(other, one)


def search(hub, text):
    hub.rediscover()
    hub.freshen(max_age=0)
    hub.sync()
    return hub.search(Query(text=text, explain=True, limit=10))


def place(result, part):
    return next(number for number, hit in enumerate(result.hits) if part in hit.excerpt)


def test_a_faded_memory_ranks_below_a_fresh_equal_and_use_lifts_it_above(hub, clock):
    first = remember(hub, "The staging cluster of team alpha restarts on Monday at noon.")
    clock.pass_days(300)
    remember(hub, "The staging cluster of team gamma restarts on Monday at noon.")
    result = search(hub, "when does the staging cluster restart")
    assert place(result, "gamma") < place(result, "alpha")
    assert 0.9 <= result.hits[place(result, "alpha")].trace.factors["strength"] < 1
    clock.now += 60
    remember(hub, id=first.memory.id)  # both hold
    search(hub, "staging")
    for _ in range(7):
        count_refs(hub, [f"{first.memory.ref}:1-3"])
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


def test_what_ends_something_replaces_what_names_it_and_an_excerpt_is_the_text(hub, clock):
    old = remember(hub, "Messages between services travel over RabbitMQ.").memory
    clock.now += 60
    new = remember(hub, "We moved from RabbitMQ to NATS last week.").memory
    assert new.may_supersede == (old.id,)
    for question in ("how do messages travel", "id and title"):  # the latter are words of the front matter
        assert [hit.excerpt.strip() for hit in search(hub, question).hits] == [new.text, old.text]
    said = ["Bob no longer travels.", "RabbitMQ is too slow at noon.", "A RabbitMQ course ended.", "RabbitMQ is gone."]
    said += ["We closed our in-house RabbitMQ.", "We removed the last RabbitMQ."]
    assert [old.id in remember(hub, text).memory.may_supersede for text in said] == [False] * 3 + [True] * 3


def test_a_similar_memory_goes_below_the_newer_one_until_it_is_confirmed_and_one_call_supersedes_it(hub, clock):
    old, new = pair(hub, clock)
    assert [one.id for one in new.near] == [old.id]
    assert new.memory.may_supersede == (old.id,)
    first, second = search(hub, QUESTION).hits
    assert (first.ref, second.ref) == (new.memory.ref, old.ref)
    assert second.outdated.startswith(f"a newer memory may replace this: {first.ref}:")
    assert [one.outdated for one in memories(hub, QUESTION).memories] == [None, second.outdated]
    assert memories(hub, "claenup").notes == ("Searched for 'cleanup' instead of 'claenup'.",)
    clock.now += 60
    remember(hub, id=old.id)
    first, second = search(hub, QUESTION).hits
    assert (first.ref, first.outdated, second.outdated) == (old.ref, None, None)
    settled = remember(hub, id=new.memory.id, supersedes=[old.id]).memory
    assert (settled.supersedes, settled.may_supersede) == ((old.id,), ())
    assert [hit.outdated for hit in search(hub, QUESTION).hits] == [None, f"superseded by {settled.id}"]
    remember(hub, "We deploy on Tuesdays after the standup.")  # in hardly any of the same words
    remember(hub, "Deploys happen on Thursdays now.")
    assert ["Thursdays" in hit.excerpt for hit in search(hub, "when do we deploy").hits[:2]] == [True, False]
    for name in ("Stripe", "SendGrid"):
        remember(hub, f"API keys for {name} are stored in Vault.")
    firsts = [search(hub, f"where are API keys {one}").hits[0].excerpt for one in ("for Stripe", "stored")]
    assert ["Stripe" in one for one in firsts] == [True, False]
    for when in ("dev database is reset every night", "demo database is reset every week"):
        remember(hub, f"The {when}.")
    asked = ("how often is the dev database reset", "how often is a database reset")
    assert ["night" in search(hub, one).hits[0].excerpt for one in asked] == [True, False]


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
