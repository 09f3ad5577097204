"""What was read after a question was asked in vain is found when something similar is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import apsw
import pytest
from mcp import Client, StdioServerParameters

from conftest import DAY
from kbhub.index.lessons import LISTED_FIRST
from kbhub.index.querylog import READ_SECONDS, QueryLog
from kbhub.search.usage import LogSession
from kbhub.types import Query
from kbhub.usage.log import clear_log, flush, log_path, note_read, record

ASKED = "how do I get my money back for the train"
LATER = "get my money back for a train ride"
ANSWER = (
    "# Reimbursements\n\nHand in receipts of a journey with form 27; accounting transfers the money within a month.\n"
)
SOURCE = str(Path(__file__).parents[2] / "src")
SERVE = """
import kbhub.server.tools.calls
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve
kbhub.server.tools.calls.FIRST_ANSWER_SECONDS = kbhub.server.tools.calls.FRESHEN_SECONDS = 60
serve(HubOptions(serve=True, clock=lambda: {}))
"""


def write_documents(environment):
    environment.write("knowledge/reimbursements.md", ANSWER)
    for number in range(12):
        text = f"# Train {number}\n\nHow to get to the train of line {number}, and back with my ticket for money.\n"
        environment.write(f"knowledge/trains/{number}.md", text)


@pytest.fixture
def hub(environment, clock):
    write_documents(environment)
    hub = environment.hub(clock=clock)
    hub.sync()
    return hub


def ask(hub, text=ASKED, session="", **fields):
    hub.state(LogSession).name = session
    query = Query(text=text, explain=True, **fields)
    result = hub.search(query)
    record(hub, result, query, "agent")
    return result


def read(hub, ref="reimbursements.md", *, remembered=False):
    note_read(hub, ref, "agent", remembered=remembered)
    flush()


def occasion(hub, session, ref="reimbursements.md", text=ASKED):
    """Ask and read in a session, a day after the one before."""
    ask(hub, text, session)
    read(hub, ref)
    hub.options.clock.pass_days(1)


def place(result, path="reimbursements.md"):
    """The place of a document among the hits, from 1; None if it is not there."""
    return next((number for number, hit in enumerate(result.hits, 1) if hit.path == path), None)


def reasons(result):
    return {hit.path: signal.reason for hit in result.hits for signal in hit.trace.signals if signal.name == "learned"}


def test_what_was_read_twice_after_a_question_is_found_for_a_similar_one(hub):
    """Among the first hits, with the reason in its trace; before, it was not."""
    assert (place(ask(hub)) or 99) > LISTED_FIRST
    occasion(hub, "one")
    occasion(hub, "two")

    found = ask(hub, LATER)
    assert place(found) <= LISTED_FIRST
    assert reasons(found) == {"reimbursements.md": f"read after a similar question: {ASKED}"}
    assert reasons(ask(hub, "which tickets are there")) == {}


def test_the_trace_adds_up(hub):
    """The sum of what the signals add is the score, also with this one."""
    occasion(hub, "one")
    occasion(hub, "two")
    for hit in ask(hub).hits:
        assert sum(signal.contribution for signal in hit.trace.signals) == pytest.approx(hit.score, abs=1e-3)


def test_one_occasion_is_not_enough(hub):
    """However often it is read in one session, or in two at the same time: a model may have been told to."""
    for _ in range(5):
        occasion(hub, "one")
    assert reasons(ask(hub)) == {}

    clear_log(hub)
    for session in ("one", "two", "three"):
        ask(hub, session=session)
        read(hub)
    assert reasons(ask(hub)) == {}


def test_a_memory_about_the_document_is_enough(hub):
    """Who remembers it has found it worth keeping."""
    ask(hub, session="one")
    read(hub, remembered=True)
    assert list(reasons(ask(hub))) == ["reimbursements.md"]


def test_on_the_command_line_a_day_is_a_session(hub):
    """It has no connections."""
    ask(hub)
    read(hub)
    hub.options.clock.now += READ_SECONDS + 1
    ask(hub)
    read(hub)
    assert reasons(ask(hub)) == {}
    occasion(hub, "")
    occasion(hub, "")
    assert list(reasons(ask(hub))) == ["reimbursements.md"]


def test_other_wordings_in_a_session_teach_too_and_other_questions_do_not(hub):
    """What is asked in vain, then in other words, and then read, answers both."""
    for session in ("one", "two"):
        ask(hub, "which line goes to the lake on sunday", session)
        ask(hub, ASKED, session)
        ask(hub, "reimbursement of money for train tickets", session)
        read(hub)
        hub.options.clock.pass_days(1)
    assert list(reasons(ask(hub))) == ["reimbursements.md"]
    assert reasons(ask(hub, "which line goes to the lake on sunday")) == {}


def test_it_fades(hub):
    """As memories do."""
    occasion(hub, "one")
    occasion(hub, "two")

    def added():
        (hit,) = [hit for hit in ask(hub, limit=20).hits if hit.path == "reimbursements.md"]
        return next(signal.contribution / hit.score for signal in hit.trace.signals if signal.name == "learned")

    now = added()
    hub.options.clock.pass_days(60)
    assert added() < now


def test_what_was_learned_is_forgotten_with_the_log(hub):
    """Cleared or expired."""
    for forget in (
        lambda: clear_log(hub),
        lambda: QueryLog(log_path(hub)).expire(hub.options.clock() + DAY, 100),
    ):
        occasion(hub, "one")
        occasion(hub, "two")
        assert reasons(ask(hub))
        flush()
        forget()
        assert reasons(ask(hub)) == {}
        connection = apsw.Connection(str(log_path(hub)))
        assert connection.execute("SELECT count(*) FROM lesson").get == 0
        connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be renamed there")
def test_a_log_that_was_removed_or_replaced_is_noticed(hub):
    """Searches keep it open, and yet what counts is the file that is there now."""
    occasion(hub, "one")
    occasion(hub, "two")
    flush()
    log = log_path(hub)
    assert list(reasons(ask(hub))) == ["reimbursements.md"]

    flush()
    kept = log.rename(log.with_suffix(".kept"))
    for end in ("-wal", "-shm"):
        log.with_name(f"{log.name}{end}").rename(kept.with_name(f"{kept.name}{end}"))
    assert reasons(hub.search(Query(text=ASKED, explain=True))) == {}
    ask(hub)
    flush()
    assert reasons(hub.search(Query(text=ASKED, explain=True))) == {}


def test_nothing_is_learned_without_the_log(environment, hub, clock):
    """And nothing that was learned counts while it is off."""
    occasion(hub, "one")
    occasion(hub, "two")
    (environment.home / ".kbhub.json").write_text(json.dumps({"log": {"queries": False}}))
    assert reasons(ask(environment.hub(clock=clock))) == {}


def test_only_documents_that_are_there_and_asked_for_are_lifted(environment, hub):
    """Neither deleted ones nor those that a filter leaves out."""
    occasion(hub, "one")
    occasion(hub, "two")
    assert reasons(ask(hub, f"{ASKED} path:trains/")) == {}
    assert reasons(ask(hub, mode="keyword")) == {}
    (environment.project / "knowledge/reimbursements.md").unlink()
    hub.sync()
    assert place(ask(hub)) is None


def test_another_project_does_not_learn_from_it(environment, hub, clock):
    """Although both search the same base of the user's."""
    environment.write(environment.home / "notes/reimbursements.md", ANSWER)
    config = {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}}
    (environment.home / ".kbhub.json").write_text(json.dumps(config))
    here = environment.hub(clock=clock)
    here.sync()
    for session in ("one", "two"):
        occasion(here, session, "notes@reimbursements.md")
    assert list(reasons(ask(here))) == ["reimbursements.md"]

    other = environment.home / "other"
    (other / "knowledge").mkdir(parents=True)
    there = environment.hub(clock=clock, cwd=other)
    there.sync()
    assert place(ask(there)) == 1
    assert reasons(ask(there)) == {}


UNLEARNED = "DROP TRIGGER forget; DROP TABLE question; DROP TABLE lesson;"


@pytest.mark.parametrize(("version", "without"), [(1, UNLEARNED), (2, "")])
def test_a_log_of_a_version_before_goes_on(hub, version, without):
    """Its queries are kept, and learning begins."""
    ask(hub)
    flush()
    connection = apsw.Connection(str(log_path(hub)))
    statements = f"{without} ALTER TABLE asked DROP COLUMN took; PRAGMA user_version={version}"
    connection.execute(statements).fetchall()
    connection.close()
    assert reasons(ask(hub)) == {}
    occasion(hub, "one")
    occasion(hub, "two")
    assert list(reasons(ask(hub))) == ["reimbursements.md"]
    flush()
    assert QueryLog(log_path(hub)).count() == 5


@pytest.mark.timeout(180)
def test_over_stdio(environment):
    """Two connections ask in vain and read; the third one asks something similar."""
    write_documents(environment)
    start = 1_800_000_000.0

    def talk(day, *calls):
        env = {**environment.env, "PYTHONPATH": SOURCE}
        code = SERVE.format(start + day * DAY)
        server = StdioServerParameters(command=sys.executable, args=["-c", code], env=env, cwd=environment.project)

        async def conversation():
            async with Client(server, read_timeout_seconds=60) as client:
                return [(await client.call_tool(tool, arguments)).content[0].text for tool, arguments in calls]

        return anyio.run(conversation)

    reading = ("read", {"refs": "reimbursements.md"})
    later = ("search", {"query": LATER, "limit": LISTED_FIRST, "options": {"explain": True}})
    (before,) = talk(0, later)
    assert "reimbursements.md" not in before
    for day in (1, 2):
        talk(day, ("search", {"query": ASKED}), reading)
    (after,) = talk(3, later)
    assert "reimbursements.md" in after
    assert f"read after a similar question: {ASKED}" in after
