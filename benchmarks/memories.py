"""What memories cost when there are many of them: `python benchmarks/memories.py [memories] [rounds]`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.common import environment
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.memory.changes import forget, ids_of, remember
from kbhub.memory.files import new_file, slug
from kbhub.memory.lists import memories
from kbhub.search.document_signals import timestamp
from kbhub.types import Query

MEMORIES = 10_000
ROUNDS = 20
PARTS = ("gateway", "parser", "cache", "login", "billing", "search", "upload", "report", "queue", "mailer")
FACTS = ("times out after", "needs a flag since", "was rewritten in release", "fails on machine", "belongs to team")
NOW = 1_800_000_000.0


def text(number: int) -> str:
    part, fact = PARTS[number % len(PARTS)], FACTS[number // 7 % len(FACTS)]
    return f"The {part} of service{number % 997} {fact} {number}; ask node{number * 31 % 4099} before a change."


def prepare(top: Path, count: int) -> tuple[Hub, float, float]:
    """A project with so many memories, written as files; seconds to write and to index them."""
    project = top / "shop"
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    hub = Hub(HubOptions(cwd=project, home=top, env=environment(top, top)))
    remember(hub, "The first one makes the folder.")
    folder = next(base.path for base in hub.discovery().bases if base.id == "memory")
    started = time.perf_counter()
    for number in range(count - 1):
        body = text(number)
        name = next(ids_of(body))
        fields = {
            "id": name,
            "title": body[:60],
            "created": timestamp(NOW - number * 1000),
            "tags": [f"t{number % 50}"],
            "source": "agent",
        }
        (folder / f"{slug(body)}-{name}.md").write_text(new_file(fields, body))
    written = time.perf_counter() - started
    time.sleep(2.1)  # the times of files that were just written are not trusted
    started = time.perf_counter()
    hub.sync()
    return hub, written, time.perf_counter() - started


def timed(rounds: int, call: Callable[[int], object]) -> str:
    times = []
    for number in range(rounds):
        started = time.perf_counter()
        call(number)
        times.append((time.perf_counter() - started) * 1000)
    return f"{statistics.median(times):.0f} | {max(times):.0f}"


def main() -> None:
    """Print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MEMORIES
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        hub, _, indexing = prepare(Path(name).resolve(), count)
        ids: list[str] = []
        rows = {
            "remember, new": timed(
                rounds, lambda number: ids.append(remember(hub, f"Fresh{number} thing about topic{number}.").memory.id)
            ),
            "remember, already known": timed(rounds, lambda number: remember(hub, text(number))),
            "confirm": timed(rounds, lambda number: remember(hub, id=ids[number])),
            "change the text": timed(rounds, lambda number: remember(hub, f"Changed{number} thing.", id=ids[number])),
            "list the strongest 20": timed(rounds, lambda _: memories(hub)),
            "list by tag": timed(rounds, lambda number: memories(hub, tags=[f"t{number}"])),
            "search among memories": timed(
                rounds, lambda number: memories(hub, f"{PARTS[number % 10]} service{number}")
            ),
            "ordinary search": timed(
                rounds, lambda number: hub.search(Query(text=f"{PARTS[number % 10]} service{number}"))
            ),
            "forget one": timed(rounds, lambda number: forget(hub, [ids[number]])),
        }
        print(f"{count:,} memories; first index {indexing:.1f} s ({count / indexing:,.0f} per second)\n")
        print("| what | median ms | slowest ms |\n|---|---|---|")
        for what, figures in rows.items():
            print(f"| {what} | {figures} |")


if __name__ == "__main__":
    main()
