"""Any number of processes note queries at once, and the death of one costs nothing that was written."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kbhub.index.side_files import QueryLog
from kbhub.usage.gaps import maintain, show_log
from kbhub.usage.log import log_path

SOURCE = Path(__file__).parents[2] / "src"
KILLED = 2
"""Processes that are killed, one after the other."""

ANSWER = """
import sys
from kbhub.api import Hub
from kbhub.hub import HubOptions
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
for number in range(int(sys.argv[2])):
    note(f"Question{number} of {sys.argv[1]}")
    note_read(hub, "a.md", sys.argv[1])
    if number % 7 == 0:
        flush()
    if number % 25 == 0:
        maintain(hub)
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
    env = {**environment.env, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", ANSWER + script, *map(str, arguments)],
        cwd=environment.project,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("processes", "count"), [(2, 30), pytest.param(8, 300, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_processes_at_once_lose_nothing(environment, processes, count):
    """Queries and readings, with maintenance in between: every one is there, with its own client's reading."""
    agents = [started(environment, AGENT, me, count) for me in range(processes)]
    assert [agent.communicate(timeout=540)[1] for agent in agents] == [""] * processes

    found = show_log(environment.hub(), 100_000)
    asked = {(one.client, one.text) for one in found.queries}
    assert found.total == processes * count
    assert asked == {(str(me), f"Question{n} of {me}") for me in range(processes) for n in range(count)}
    assert all(one.read == ("a.md",) for one in found.queries)


def test_a_killed_process_leaves_a_readable_log(environment):
    """What was written is there after kill -9, the file is sound, and the next process goes on."""
    written = 0
    for number in range(KILLED):
        victim = started(environment, VICTIM, number)
        lines = [victim.stdout.readline() for _ in range(number + 2)]
        victim.kill()
        victim.communicate(timeout=100)
        written += int(lines[-1])
    hub = environment.hub()

    log = QueryLog(log_path(hub))
    assert log.count() >= written
    assert len(log.recent(-1)) == log.count()
    connection = apsw.Connection(str(log.path))
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
    assert maintain(hub).ran
