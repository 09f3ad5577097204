"""Any number of agents may remember at once, and nothing is lost."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbhub.memory.changes import remember
from kbhub.memory.lists import memories

SOURCE = Path(__file__).parents[2] / "src"

AGENT = """
import sys
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.memory.changes import remember
me, count, shared = sys.argv[1], int(sys.argv[2]), sys.argv[3]
hub = Hub(HubOptions())
for number in range(count):
    remember(hub, f"Agent {me} learned thing{number} about part{me}x{number}.", client=me, tags=[f"t{number}"])
    if number % 5 == 0:
        remember(hub, "Everybody knows this one.", tags=[f"by{me}"])
        remember(hub, id=shared)
"""


@pytest.mark.parametrize(
    ("processes", "count"), [(2, 5), pytest.param(8, 50, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_agents_at_once_lose_nothing(environment, processes, count):
    """Memories of their own, one that all write, one that all confirm: every file, tag and use is there."""
    hub = environment.hub()
    shared = remember(hub, "One memory that all of them confirm.").memory.id
    env = {**environment.env, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", AGENT, str(me), str(count), shared],
            cwd=environment.project,
            env=env,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(processes)
    ]
    errors = [process.communicate(timeout=540)[1] for process in started]
    assert errors == [""] * processes

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
