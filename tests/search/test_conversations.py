"""Sessions, conversations and memories: dates that are asked for, newer before older, words of one turn."""

import json
from datetime import UTC, datetime

import pytest

from conftest import DAY, Clock, synced
from kbhub.index.engine import ChunkRow, DocumentRow
from kbhub.memory.changes import remember
from kbhub.search.conversations import AMOUNTS, is_conversation
from kbhub.search.document_signals import asked_time, written_day
from kbhub.types import Query

NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)  # a Monday


def chunk(text):
    return ChunkRow(1, 1, (), 1, 1 + text.count("\n"), 0, text)


def document(path="a.md", kind="document"):
    return DocumentRow(1, path, "0" * 16, "A", kind, (), (), 1, 1, None, None, b"")


@pytest.mark.parametrize(
    ("question", "start", "days"),
    [
        ("what did we say on 8 May, 2023?", "2023-05-08", 1), ("what did we say on May 8th, 2023?", "2023-05-08", 1),
        ("notes of 2023-05-08", "2023-05-08", 1), ("who came in May 2023?", "2023-05-01", 31),
        ("who came in December 2023?", "2023-12-01", 31), ("who came in May?", "2026-05-01", 31),
        ("who came in December?", "2025-12-01", 31), ("who came on 8 May?", "2026-05-08", 1),
        ("which cities in 2023", "2023-01-01", 365), ("what did we decide yesterday?", "2026-11-22", 1),
        ("Yesterday, what did we decide?", "2026-11-22", 1), ("what did we decide last week?", "2026-11-16", 7),
        ("what did we decide this week?", "2026-11-23", 7), ("what did we decide last month?", "2026-10-01", 31),
        ("what did we decide last year?", "2025-01-01", 365), ("what did we decide two weeks ago?", "2026-11-06", 7),
        ("what did we decide 3 days ago?", "2026-11-20", 1), ("what did we decide on Friday?", "2026-11-20", 1),
        ("what did we decide on Monday?", "2026-11-16", 1),
        ("what did we decide in the past three days?", "2026-11-20", 4),
    ],
)  # fmt: skip
def test_a_question_may_ask_for_a_time(question, start, days):
    asked = asked_time(question, NOW.timestamp())
    assert datetime.fromtimestamp(asked.start, UTC).date().isoformat() == start
    assert (asked.end - asked.start) / DAY == days
    assert asked.span in question


@pytest.mark.parametrize(
    "question",
    [
        *('the report "last week in numbers"', "the song Yesterday", "may I march in step", "journal/2023-05-08.md"),
        *("release v2023-05-08", "the port in 8080", "a plan for in 2049", "on 31 June", "the may-june edition", ""),
    ],
)
def test_other_words_ask_for_no_time(question):
    """What is quoted, a name, a verb or no day of the calendar."""
    assert asked_time(question, NOW.timestamp()) is None


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("4:04 pm on 20 January, 2023", "2023-01-20"), ("2024-05-01.md", "2024-05-01"),
        ("Call of May 1st, 2024", "2024-05-01"), ("2024-13-01", None), ("30 February 2024", None),
        ("Release 2024", None),
    ],
)  # fmt: skip
def test_titles_and_file_names_have_days(text, day):
    """Daily notes and exported chats have their date there."""
    when = written_day(text)
    assert (None if when is None else datetime.fromtimestamp(when, UTC).date().isoformat()) == day


def test_conversations_are_told_by_their_speakers():
    """Whoever exports a chat writes a name before each turn; a glossary has a new one on each line."""
    assert is_conversation(chunk("Ann: Hi!\nBen: Hello.\nAnn: Any news?"), document())
    assert is_conversation(chunk("**Ann** (10:02): Hi!\n\n> Ben: Hello.\n\n**Ann** (10:05): News?"), document())
    assert is_conversation(chunk("How do I roll back?"), document("a.jsonl", kind="session"))
    assert not is_conversation(chunk("Alpha: the first.\nBeta: the second.\nGamma: the third."), document())
    steps = "Steps:\n\nRun it.\nNote: it is slow.\nNote: it is old.\nThen go on.\nAnd on."
    assert not is_conversation(chunk(steps), document())


class Logs:
    """A base of session logs."""

    def __init__(self, environment):
        self.environment = environment
        environment.configure(bases={"logs": {"knowledge": "~/logs", "kind": "session"}}, repos={"*": "logs"})

    def session(self, day, *said):
        rows = [{"role": "user", "timestamp": f"{day}T09:0{at}:00Z", "content": text} for at, text in enumerate(said)]
        data = "".join(json.dumps(row) + "\n" for row in rows)
        self.environment.write(self.environment.home / f"logs/{day}.jsonl", data)

    def search(self, text, **options):
        hub = synced(self.environment, clock=Clock(NOW.timestamp()))
        return hub.search(Query(text=text, explain=True, **options))


@pytest.fixture
def logs(environment):
    return Logs(environment)


def names(hit):
    return [signal.name for signal in hit.trace.signals]


def test_what_was_said_at_the_asked_time_comes_first(logs):
    """The words of the question that say so are in the trace."""
    for day, place in (("2026-11-04", "museum"), ("2026-11-18", "harbour"), ("2023-05-08", "castle")):
        logs.session(day, f"We went on the outing with Kim to the {place}.", "Tell me a joke.")
    assert [
        logs.search(f"where did we go on the outing with Kim {when}").hits[0].path
        for when in ("last week", "3 weeks ago", "in May 2023", "on 8 May, 2023")
    ] == ["2026-11-18.jsonl", "2026-11-04.jsonl", "2023-05-08.jsonl", "2023-05-08.jsonl"]
    assert 'date "last week"' in names(logs.search("where did we go on the outing with Kim last week").hits[0])
    quoted = logs.search('where did we go on the outing with Kim "last week"')
    assert not [name for hit in quoted.hits for name in names(hit) if name.startswith("date")]
    off = logs.search("where did we go on the outing with Kim last week", without=("date",))
    assert not [name for hit in off.hits for name in names(hit) if name.startswith("date")]


def test_words_that_count_from_now_are_not_looked_for_and_a_turn_is_not_found_for_the_words_of_the_title(logs):
    """What was said last week does not say so, and what was said before may.

    The title of a session is its first sentence: every turn had its words, and they hid the other sessions.
    """
    logs.session("2026-11-02", "The museum was closed last week, says Kim.")
    logs.session("2026-11-18", "The museum is closed for repairs, says Kim.")

    found = logs.search("what did Kim say of the museum last week")
    assert found.hits[0].path == "2026-11-18.jsonl"
    assert "last" not in found.terms
    assert "last" in logs.search('what did Kim say of the museum "last" week').terms

    logs.session("2026-03-02", "How is the stand-up of the gateway team?", *(f"Tell me joke {n}." for n in range(9)))
    logs.session("2026-03-09", "Hello.", "The gateway team has its stand-up at 9:30.")
    hits = logs.search("stand-up of the gateway team", granularity="chunk", mode="keyword").hits

    assert {(hit.path[:10], hit.start_line == 1) for hit in hits} == {("2026-03-02", True), ("2026-03-09", False)}


def test_the_title_may_have_the_date(environment):
    """As that of a daily note, or of an exported chat."""
    for day, place in (("4 May, 2023", "museum"), ("11 July, 2023", "harbour")):
        environment.write(f"knowledge/{place}.md", f"# 9:30 am on {day}\n\nThe outing with Kim went to the {place}.\n")
    hub = synced(environment, clock=Clock(NOW.timestamp()))
    paths = [hub.search(f"the outing with Kim in {month} 2023").hits[0].path for month in ("May", "July")]
    assert paths == ["museum.md", "harbour.md"]


def test_the_newer_statement_is_above_the_older_one_and_a_remark_about_something_else_replaces_nothing(logs):
    """Each names the other, unless the question is about how it was."""
    said = "From now on we meet for the stand-up at 10:15, as many of us come late by train."
    logs.session("2026-03-02", "Our stand-up is at 9:30.", "Tell me a joke.")
    logs.session("2026-06-01", said, "Write a mail to the landlord.")
    before = logs.search("when is the stand-up", granularity="chunk", without=("newer",)).hits
    newer, older = logs.search("when is the stand-up", granularity="chunk").hits[:2]
    assert before[0].path == "2026-03-02.jsonl"
    assert (newer.path, newer.replaces) == ("2026-06-01.jsonl", (f"{older.ref}:{older.start_line}",))
    assert older.path == "2026-03-02.jsonl"
    assert older.outdated == f"apparently replaced by {newer.ref}:{newer.start_line}"
    was = logs.search("when was the stand-up originally", granularity="chunk").hits
    assert not any(hit.replaces or hit.outdated for hit in was)

    # It shares a word of the question, and not what it is about.
    logs.session("2026-03-02", "The summer party of the team is at the lake house.")
    logs.session("2026-06-01", "I am baking two cakes for the party of my nephew.")
    hits = logs.search("where is the summer party of the team", granularity="chunk").hits
    assert hits[0].path == "2026-03-02.jsonl"
    assert not any(hit.replaces or hit.outdated for hit in hits)


def test_the_newer_memory_is_above_the_older_one(environment):
    """Also where whoever wrote it did not say that it supersedes another."""
    clock = Clock(NOW.timestamp() - 90 * DAY)
    hub = environment.hub(clock=clock)
    remember(hub, "The staging cluster restarts on Monday at noon.")
    clock.now = NOW.timestamp()
    remember(hub, "Restarts of the staging cluster moved to Thursday, at four in the afternoon.")
    hub.rediscover()
    hub.sync()
    newer, older = hub.search("when does the staging cluster restart").hits[:2]
    assert "Thursday" in newer.excerpt
    assert newer.replaces == (f"{older.ref}:{older.start_line}",)


def test_signals_of_conversations_are_for_conversations(environment):
    """An answer of other documents is ranked as if there were none."""
    environment.write("knowledge/a.md", "# Rollback\n\nRun the rollback of the release.\n\nThen tell the team.\n")
    environment.write("knowledge/b.md", "# Release\n\nA release is cut on Friday.\n")
    hub = synced(environment)
    hits = hub.search(Query(text="rollback of a release", explain=True)).hits
    assert not [name for hit in hits for name in names(hit) if name in AMOUNTS]
    environment.write("knowledge/a.md", "# Chat\n\nAnn: Is it out?\nBen: The rollback of the release is.\nAnn: Good.\n")
    environment.write("knowledge/b.md", "# Chat\n\nAnn: When is the release?\nBen: On Friday.\nAnn: Good.\n")
    hub.sync()
    hits = hub.search(Query(text="rollback of a release", explain=True)).hits
    assert hits[0].path == "a.md"
    assert "together" in names(hits[0])
