"""Any number of processes may remember and ask at once, nothing is lost, and the death of one costs nothing written."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from kbhub.index.side_files import QueryLog
from kbhub.memory.changes import remember
from kbhub.memory.lists import memories
from kbhub.usage.gaps import maintain, show_log
from kbhub.usage.log import log_path

SOURCE = Path(__file__).parents[2] / "src"
ASKED = 6
"""Queries of an agent for each memory of its own."""

ASK = """
import sys
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
from kbhub.usage.gaps import maintain
from kbhub.usage.log import flush, note_read, record
from kbhub.types import Hit, Query, SearchResult
hit = Hit(ref="a.md", docid="#a", base="project", path="a.md", title="A", start_line=1, end_line=1, excerpt="",
    excerpt_line=1, score=0.9)
hub = Hub(HubOptions())
def note(text):
    result = SearchResult(query=text, mode="hybrid", hits=(hit,), verdict="weak", searched=("project",))
    record(hub, result, Query(text=text), sys.argv[1])
"""
AGENT = """
me, count, asked, shared = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
for number in range(count):
    remember(hub, f"Agent {me} learned thing{number} about part{me}x{number}.", client=me, tags=[f"t{number}"])
    if number % 5 == 0:
        remember(hub, "Everybody knows this one.", tags=[f"by{me}"])
        remember(hub, id=shared)
        maintain(hub)
    for question in range(number * asked, (number + 1) * asked):
        note(f"Question{question} of {me}")
        note_read(hub, "a.md", me)
        if question % 7 == 0:
            flush()
"""
VICTIM = """
number = 0
while True:
    for _ in range(20):
        note(f"Question{number} of {sys.argv[1]}")
        number += 1
    flush()
    print(number, flush=True)
"""


def started(environment, script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", ASK + script, *map(str, arguments)],
        cwd=environment.project,
        env={**environment.env, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("processes", "count"), [(2, 5), pytest.param(8, 50, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_agents_at_once_lose_nothing(environment, processes, count):
    """Memories of their own, one that all write, one that all confirm: every file, tag and use is there.

    And every query, with its own client's reading, though the log is maintained in between.
    """
    hub = environment.hub()
    shared = remember(hub, "One memory that all of them confirm.").memory.id
    agents = [started(environment, AGENT, me, count, ASKED, shared) for me in range(processes)]
    assert [agent.communicate(timeout=540)[1] for agent in agents] == [""] * processes

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


def test_a_killed_process_leaves_a_readable_log(environment):
    """What was written is there after kill -9, the file is sound, and the next process goes on."""
    victim = started(environment, VICTIM, "victim")
    lines = [victim.stdout.readline() for _ in range(3)]
    victim.kill()
    victim.communicate(timeout=100)
    written = int(lines[-1])
    hub = environment.hub()

    log = QueryLog(log_path(hub))
    assert log.count() >= written
    assert len(log.recent(-1)) == log.count()
    connection = apsw.Connection(str(log.path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    assert maintain(hub).ran
