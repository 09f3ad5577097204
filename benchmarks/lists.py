"""What it takes to turn all pages of a long list: `python benchmarks/lists.py [documents] [hits a page]`."""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from bench.common import environment
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.types import Query

DOCUMENTS = 10_000
PAGE = 100
WORDS = 4_000
"""Words that the texts are made of, besides the one that all of them have."""


def prepare(top: Path, count: int) -> Hub:
    """A project with so many documents that all have the word `zebra`, indexed."""
    project = top / "shop"
    folder = project / "knowledge"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    choose = random.Random(1)
    for number in range(count):
        words = " ".join(f"w{choose.randrange(WORDS)}" for _ in range(choose.randrange(20, 120)))
        (folder / f"{number:05}.md").write_text(f"# Note {number}\n\n{words}{' zebra' * choose.randrange(1, 5)}\n")
    hub = Hub(HubOptions(cwd=project, home=top, env=environment(top, top)))
    hub.sync()
    return hub


def walk(hub: Hub, **asked: object) -> tuple[int, list[float]]:
    """Turn all pages; the number of hits and the milliseconds of each page."""
    seen, times, more = 0, list[float](), True
    while more:
        started = time.perf_counter()
        page = hub.search(Query(text="zebra", offset=seen, **asked))  # type: ignore[arg-type]
        times.append((time.perf_counter() - started) * 1000)
        seen += len(page.hits)
        more = bool(page.hits) and seen < page.total
    return seen, times


def main() -> None:
    """Print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENTS
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else PAGE
    ways: dict[str, dict[str, Any]] = {
        "keyword": {"mode": "keyword"},
        "hybrid": {},
        "hybrid, by chunk": {"granularity": "chunk"},
        "hybrid, recency 1": {"recency": 1.0},
        "keyword, least score": {"mode": "keyword", "min_score": 0.05},
    }
    with tempfile.TemporaryDirectory() as name:
        hub = prepare(Path(name).resolve(), count)
        hub.search(Query(text="zebra"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            "| list | hits | pages | seconds | first page ms | median ms | slowest ms |\n|---|---|---|---|---|---|---|"
        )
        for what, asked in ways.items():
            seen, times = walk(hub, limit=limit, **asked)
            figures = f"{sum(times) / 1000:.1f} | {times[0]:.0f} | {statistics.median(times):.0f} | {max(times):.0f}"
            print(f"| {what} | {seen:,} | {len(times)} | {figures} |")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"\nPeak memory grew by {grown:.0f} MiB over that of the first search.")
        tracemalloc.start()
        hub.search(Query(text="zebra", offset=count - limit, limit=limit))
        print(f"One page at the end allocates {tracemalloc.get_traced_memory()[1] / 2**20:.1f} MiB at most.")


if __name__ == "__main__":
    main()
