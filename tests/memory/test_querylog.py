"""What is asked is noted on this machine for as long as its owner wants, whatever processes ask, remember and die."""

import os
import random
import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
import numpy as np
import pytest

from conftest import DAY, make_repository, ran, synced
from kbhub.errors import QueryLogUnavailable
from kbhub.extensions.lab.corpus import logged_dataset
from kbhub.index.side_files import JOURNAL_BYTES, Asked, Distinct, QueryLog
from kbhub.memory.changes import remember
from kbhub.memory.lists import memories
from kbhub.types import Query, SearchResult
from kbhub.usage import log
from kbhub.usage.gaps import LEAST, clear_log, clusters, maintain, show_log, summary
from kbhub.usage.log import flush, log_path, note_read, record
from repositories import add_remote

ROLLBACK = "# Rollback\n\nTo roll back a release, run `deploy rollback` with the previous version number.\n"


@pytest.fixture
def hub(environment, clock):
    environment.write("knowledge/rollback.md", ROLLBACK)
    environment.write("knowledge/cache.md", "# Cache\n\nSessions are kept for an hour.\n")
    return synced(environment, clock=clock)


def ask(hub, text, client=None, **fields):
    query = Query(text=text, **fields)
    result = hub.search(query)
    record(hub, result, query, client)
    return result


def test_how_long_a_search_took_is_noted(hub, kbhub):
    """By the command, too; a query whose time nobody measured has none."""
    result = hub.search(Query(text="rollback"))
    record(hub, result, Query(text="rollback"), took=0.0123)
    ask(hub, "cache")
    assert [query.seconds for query in show_log(hub).queries] == [None, 0.0123]
    kbhub("search", "sessions", code=0)
    logged = kbhub("dev", "log", "show", "--json", code=0).json["queries"]
    (asked,) = [one for one in logged if one["text"] == "sessions"]
    assert asked["seconds"] > 0


def test_the_thread_writes_what_waits(hub, monkeypatch):
    monkeypatch.setattr(log, "WRITE_SECONDS", 0.0)
    flush()
    with log._writing:
        ask(hub, "rollback")
        (thread,) = log._writer
    thread.join(60)
    assert QueryLog(log_path(hub)).count() == 1


def test_a_query_is_noted_with_what_it_found_and_pages_and_queries_of_nothing_are_not(hub, environment):
    """A further page is no further question, and where nothing was searched nothing was found out."""
    ask(hub, "rollback", offset=5)
    ask(hub, "  ")
    record(hub, SearchResult(query="x", mode="hybrid"), Query(text="x"))
    assert show_log(hub).total == 0

    # In the data directory, in files of any kind that belong to the current user only.
    result = ask(hub, "how do we roll back a release", client="some-agent")
    ask(hub, "rollback", mode="keyword")

    log = show_log(hub)
    (second, first) = log.queries
    assert (log.total, log.logged, log.days) == (2, True, 90)
    assert (first.text, first.client, first.verdict) == ("how do we roll back a release", "some-agent", "strong")
    assert (first.asked, first.mode, first.bases) == ("2027-01-15T08:00:00+00:00", "hybrid", ("project",))
    assert (first.score, first.hits[0]) == (result.hits[0].score, "rollback.md")
    assert (second.client, second.mode) == ("user", "keyword")
    assert log.path.parent == environment.home.parent / "data" / "queries"
    assert {oct(file.stat().st_mode & 0o777) for file in log.path.parent.iterdir()} == {"0o600"}
    assert oct(log.path.parent.stat().st_mode & 0o777) == "0o700"


def test_a_reading_within_half_an_hour_counts_for_the_query_that_listed_it(hub, clock):
    """The latest query of the same client's that listed it gets the judgement; a late one, nobody."""
    ask(hub, "roll back", client="a")
    clock.now += 60
    ask(hub, "undo a release", client="b")
    clock.now += 60
    note_read(hub, "rollback.md", client="a")
    note_read(hub, "rollback.md:1:3", client="c")
    late = ask(hub, "sessions", client="a")
    clock.now += 1801
    note_read(hub, "cache.md", client="a")

    read = {one.text: one.read for one in show_log(hub).queries}
    assert late.hits
    assert read == {"roll back": ("rollback.md",), "undo a release": ("rollback.md",), "sessions": ()}


def test_a_broken_configuration_notes_nothing(environment, hub):
    """Nobody can say then whether its owner wants it."""
    query = Query(text="rollback")
    result = hub.search(query)
    path = log_path(hub)
    (environment.home / ".kbhub.json").write_text("{")
    hub._discovered = None  # a moment has passed
    record(hub, result, query)
    flush()
    assert not path.exists()


def test_clones_of_one_project_share_a_log(environment, hub, tmp_path):
    make_repository(tmp_path / "clone")
    add_remote(environment.project, "https://example.com/acme/shop.git")
    add_remote(tmp_path / "clone", "git@example.com:acme/shop")
    assert log_path(environment.hub(cwd=tmp_path / "clone")) == log_path(environment.hub())
    assert log_path(environment.hub(cwd=tmp_path)) != log_path(environment.hub())


def test_switched_off_nothing_is_noted(environment, hub):
    environment.configure(log={"queries": False})
    hub.rediscover()
    ask(hub, "rollback")
    other = environment.hub(env={**environment.env, "KBHUB_LOG__QUERIES": "off"})
    ask(other, "rollback")
    flush()
    assert not log_path(hub).exists()
    assert show_log(hub).logged is False


def test_old_queries_are_forgotten(environment, hub, clock):
    environment.configure(log={"days": 10})
    hub.rediscover()
    ask(hub, "the old one")
    clock.now += 9 * DAY
    ask(hub, "the new one")
    assert maintain(hub).expired == 0
    clock.now += 2 * DAY
    assert maintain(hub).expired == 1
    assert [one.text for one in show_log(hub).queries] == ["the new one"]


def test_the_journal_stays_short_however_many_processes_write(tmp_path):
    """Each opens the log anew, and reads the journal whole: it must not grow with what was ever written."""
    log, choose = QueryLog(tmp_path / "data" / "log.db"), random.Random(0)
    journal = log.path.with_name("log.db-wal")
    longest = 0
    for burst in range(60):
        refs = tuple(f"{choose.random()}.md" for _ in range(10))
        asked = Asked(float(burst), "text", "subject", str(burst), "hybrid", ("project",), "strong", 0.9, "user", refs)
        log.write([asked] * 10)
        longest = max(longest, journal.stat().st_size)
    assert log.count() == 600
    assert longest < 2 * JOURNAL_BYTES


def test_a_reader_does_not_hold_up_who_writes(tmp_path, monkeypatch):
    """The journal is taken in another time then, and nothing is lost; to wait for the reader would be to hang."""
    monkeypatch.setattr(QueryLog, "busy_ms", 3_600_000)
    log = QueryLog(tmp_path / "data" / "log.db")
    asked = Asked(0.0, "text", "subject", "key", "hybrid", ("project",), "strong", 0.9, "user", ("a.md",))
    log.write([asked])
    reader = apsw.Connection(str(log.path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN; SELECT count(*) FROM asked").fetchall()
    log.write([asked] * 20_000)
    reader.close()
    assert log.path.with_name("log.db-wal").stat().st_size > JOURNAL_BYTES
    assert log.count() == 20_001


def test_all_projects_are_cleared_at_once(environment, hub, there):
    there = environment.hub(cwd=there.options.cwd, bases={"notes": environment.project / "knowledge"})
    ask(hub, "rollback")
    ask(there, "rollback")
    assert clear_log(hub, every_project=True).queries == 2
    assert show_log(there).total == 0


def test_a_damaged_log_is_set_aside_and_goes_on_and_one_of_another_version_is_left_alone(hub):
    """What was in it is lost, what is asked from now on is not."""
    ask(hub, "rollback")
    path = show_log(hub).path
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(b"no database at all" * 1000)
    ask(hub, "rollback")
    assert show_log(hub).total == 1
    assert path.with_suffix(".aside.db").exists()

    # It is an error for who asks for it, and none for a search.
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=99")
    connection.close()
    ask(hub, "rollback")
    with pytest.raises(QueryLogUnavailable, match="format 99"):
        show_log(hub)
    assert summary(hub).asked == 0
    log._waiting.clear()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_log_that_cannot_be_written_waits(hub):
    ask(hub, "rollback")
    folder = show_log(hub).path.parent
    folder.chmod(0o500)
    try:
        ask(hub, "rollback")
        flush()
    finally:
        folder.chmod(0o700)
    assert show_log(hub).total == 2


def test_the_last_hour_is_summed_up(hub, clock):
    ask(hub, "how do we roll back a release")
    clock.now += 3601
    ask(hub, "how do we roll back a release")
    ask(hub, "quantum chromodynamics of gluons")
    told = summary(hub)
    assert (told.asked, told.strong, told.none, told.logged) == (2, 1, 1, True)


def test_logged_queries_are_a_data_set(environment, hub):
    """What was read after a query answers it; equal queries are one, and memories are no documents."""
    ask(hub, "how do we roll back a release")
    note_read(hub, "rollback.md")
    ask(hub, "How do we roll back a release?")
    note_read(hub, "rollback.md")
    ask(hub, "sessions")
    note_read(hub, "cache.md")
    ask(hub, "rollback")
    environment.project.joinpath("knowledge/cache.md").unlink()

    dataset = logged_dataset(hub)
    assert [(one.text, dict(one.gold)) for one in dataset.queries] == [
        ("How do we roll back a release?", {"rollback.md": 1})
    ]
    assert [(one.id, one.path, one.data) for one in dataset.documents] == [
        ("rollback.md", "0/rollback.md", ROLLBACK.encode())
    ]
    assert dataset.notes


def distinct(key, count=1, **verdicts):
    return Distinct(key, key, count, 0.0, ("user",), **{"strong": 0, "weak": 0, "none": 0, **verdicts})


def turned(*degrees):
    angles = np.radians(np.array(degrees, np.float64))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


grouped = partial(clusters, least=LEAST)


def test_a_cluster_has_five_queries_at_least_that_are_near_above_a_cosine_of_085():
    """31 degrees are near, 32 are not, nearness is no chain, and queries without a vector are near to none."""
    assert grouped([distinct("a", 4)], turned(0)) == []
    (one,) = grouped([distinct("a", 2), distinct("b", 2), distinct("c", 1)], turned(0, 10, 20))
    assert (one.count, one.keys, one.leader.key) == (5, ("a", "b", "c"), "a")
    assert len(grouped([distinct("a", 3), distinct("b", 3)], turned(0, 31))) == 1
    assert grouped([distinct("a", 3), distinct("b", 3)], turned(0, 32)) == []
    (one,) = grouped([distinct("a", 5), distinct("b", 2), distinct("c", 2)], turned(0, 25, 50))
    assert one.keys == ("a", "b")
    assert grouped([distinct("a", 4), distinct("b", 4)], np.zeros((2, 2), np.float32)) == []


SOURCE = str(Path(__file__).parents[2] / "src")
ASKED = 6
"""Queries of an agent for each memory of its own."""

AGENT = """
import sys
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
from kbhub.usage.gaps import maintain
from kbhub.usage.log import flush, note_read, record
from kbhub.types import Hit, Query, SearchResult
hit = Hit(ref="a.md", docid="#a", base="project", path="a.md", title="A", start_line=1, end_line=1, excerpt="",
    excerpt_line=1, score=0.9)
hub, me, count, asked, shared = Hub(HubOptions()), sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
for number in range(count):
    remember(hub, f"Agent {me} learned thing{number} about part{me}x{number}.", client=me, tags=[f"t{number}"])
    if number % 5 == 0:
        remember(hub, "Everybody knows this one.", tags=[f"by{me}"])
        remember(hub, id=shared)
        maintain(hub)
    for question in range(number * asked, (number + 1) * asked):
        text = f"Question{question} of {me}"
        result = SearchResult(query=text, mode="hybrid", hits=(hit,), verdict="weak", searched=("project",))
        record(hub, result, Query(text=text), me)
        note_read(hub, "a.md", me)
        if question % 7 == 0:
            flush()
"""


@pytest.mark.parametrize(
    ("processes", "count"), [(2, 5), pytest.param(8, 50, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_agents_at_once_lose_nothing(environment, processes, count):
    """Memories of their own, one that all write, one that all confirm: every file, tag and use is there.

    And every query, with its own client's reading, though the log is maintained in between.
    """
    hub = environment.hub()
    shared = remember(hub, "One memory that all of them confirm.").memory.id
    options = {"cwd": environment.project, "env": {**environment.env, "PYTHONPATH": SOURCE}, "timeout": 540}
    with ThreadPoolExecutor(processes) as pool:
        lines = [(sys.executable, "-c", AGENT, me, count, ASKED, shared) for me in range(processes)]
        assert list(pool.map(lambda line: ran(*line, **options), lines)) == [(0, "", "")] * processes

    found = {memory.text: memory for memory in memories(hub, limit=100_000).memories}
    assert len(found) == processes * count + 2
    for me in range(processes):
        for number in range(count):
            one = found[f"Agent {me} learned thing{number} about part{me}x{number}."]
            assert (one.by, one.tags) == (str(me), (f"t{number}",))
    everybody = found["Everybody knows this one."]
    assert set(everybody.tags) == {f"by{me}" for me in range(processes)}
    assert everybody.uses == processes * count // 5 - 1
    assert found["One memory that all of them confirm."].uses == processes * count // 5
    folder = environment.home.parent / "data" / "memories"
    assert [path.name for path in folder.rglob("*") if path.name.endswith((".tmp", ".new"))] == []
    logged = show_log(hub, 100_000).queries
    assert sorted((one.client, one.text, one.read) for one in logged) == sorted(
        (str(me), f"Question{n} of {me}", ("a.md",)) for me in range(processes) for n in range(count * ASKED)
    )


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
@pytest.mark.parametrize("moment", ["fsync", "link"])
def test_what_a_killed_process_left_is_swept_in_an_hour(environment, children, moment):
    """Not earlier, as it may be written just now; and nothing else that lies there is touched."""
    places = {"project": environment.project, "home": environment.home, "env": environment.env}
    children.start("remember_until", places, moment)
    assert children.ended() == -signal.SIGKILL
    folder = environment.memories()[0].parent
    (file,) = [path for path in folder.iterdir() if re.fullmatch(r"\.kbhub-\w{16}\.tmp", path.name)]
    mine = [folder / name for name in (".notes.md.tmp", ".notes.md.new", ".a.md.swp", "notes.tmp", ".b.tmp")]
    hub = environment.hub()
    remember(hub, "A third one comes at once.")
    assert file.exists()

    for path in (file, *mine):
        path.touch()
        os.utime(path, (time.time() - 3700,) * 2)
    remember(hub, "A fourth one comes later.")
    assert not file.exists()
    assert all(path.exists() for path in mine)
    assert memories(hub).total == 3


def test_a_killed_process_leaves_a_readable_log(environment, children):
    """What was written is there after kill -9, the file is sound, and the next process goes on."""
    places = {"project": environment.project, "home": environment.home, "env": environment.env}
    victim = children.start("note_until_killed", places)
    *_, written = (int(children.line()) for _ in range(3))
    os.kill(victim, signal.SIGKILL)
    assert children.ended() == -signal.SIGKILL
    hub = environment.hub()

    log = QueryLog(log_path(hub))
    assert log.count() >= written
    assert len(log.recent(-1)) == log.count()
    connection = apsw.Connection(str(log.path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    assert maintain(hub).ran
