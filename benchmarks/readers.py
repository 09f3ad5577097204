"""What a reader waits for a writer: queries while another process writes the same index all the time.

    python benchmarks/readers.py [--files 3000] [--queries 400] [--write docs/reference/readers.md]

Alternates between a writer and none, in one run. On two cores a writer takes CPU from the readers, so the same queries
are also timed beside a process that only burns CPU: the difference between the two is what waiting for locks costs.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import environment, parser
from bench.figures import quantile
from bench.words import WORDS
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.types import Query

ROUNDS = 3
WRITER = "from kbhub.hub import Hub\nhub = Hub()\nprint('writing', flush=True)\nwhile True: hub.sync(full=True)"
BURNER = "print('burning', flush=True)\nwhile True: sum(range(10000))"


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("--files", type=int, default=3000)
    reading.add_argument("--queries", type=int, default=400)
    reading.add_argument("--write", type=Path)
    arguments = reading.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), arguments.files, arguments.queries)
    print(report)
    if arguments.write:
        arguments.write.write_text(report, "utf-8")


def run(folder: Path, files: int, queries: int) -> str:
    home, root = folder / "home", folder / "home" / "shop"
    (root / ".git").mkdir(parents=True)
    choose = random.Random(1)
    for number in range(files):
        path = root / "knowledge" / f"{number % 50}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n{' '.join(choose.choices(WORDS, k=150))}\n")
    env = environment(folder, home)
    hub = Hub(HubOptions(env=env, home=home, cwd=root))
    hub.sync()
    asked = [" ".join(choose.sample(WORDS, 2)) for _ in range(queries)]
    timed(hub, asked[:20])
    seen: dict[str, list[float]] = {
        "nothing": [],
        "a process that burns CPU": [],
        "a process that writes all the time": [],
    }
    for _ in range(ROUNDS):
        for name, code in zip(seen, (None, BURNER, WRITER), strict=True):
            seen[name] += beside(code, env, root, lambda: timed(hub, asked))
    lines = [
        "# Readers during writes", "", "Measured with `python benchmarks/readers.py`: "
        f"{files:,} documents, {ROUNDS} × {queries} hybrid queries during each, in turn, on {os.cpu_count()} cores.", "",
        "| during | p50 ms | p99 ms | max ms |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, values in seen.items():
        p50, p99 = quantile(values, 0.5), quantile(values, 0.99)
        lines.append(f"| {name} | {p50:.1f} | {p99:.1f} | {max(values):.1f} |")
    return "\n".join(lines) + "\n"


def timed(hub: Hub, queries: list[str]) -> list[float]:
    moments = []
    for text in queries:
        started = time.perf_counter()
        result = hub.search(Query(text=text))
        moments.append((time.perf_counter() - started) * 1000)
        assert result.hits
        assert not result.skipped
    return moments


def beside(code: str | None, env: dict[str, str], cwd: Path, work) -> list[float]:
    if code is None:
        return work()
    process = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=cwd, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    try:
        return work()
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


if __name__ == "__main__":
    main()
