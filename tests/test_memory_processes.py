"""Any number of agents may remember at once, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbhub.memory.listing import memories
from kbhub.memory.remember import remember

SOURCE = Path(__file__).parent.parent / "src"

AGENT = """
import sys
from kbhub.hub import Hub
from kbhub.options import HubOptions
from kbhub.memory.remember import remember
me, count, shared = sys.argv[1], int(sys.argv[2]), sys.argv[3]
hub = Hub(HubOptions())
for number in range(count):
    remember(hub, f"Agent {me} learned thing{number} about part{me}x{number}.", client=me, tags=[f"t{number}"])
    if number % 5 == 0:
        remember(hub, "Everybody knows this one.", tags=[f"by{me}"])
        remember(hub, id=shared)
"""


def run_agents(environment, processes, count):
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


def test_four_agents_at_once_lose_nothing(environment):
    """15 memories each, one that all write, one that all confirm: every file, tag and use is there."""
    run_agents(environment, 4, 15)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_eight_agents_at_once_lose_nothing(environment):
    """50 memories each."""
    run_agents(environment, 8, 50)
