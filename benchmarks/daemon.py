"""What the shared daemon saves: memory of several windows, and the time until a window is answered.

    python benchmarks/daemon.py [--windows 5] [--documents 2000] [--rounds 5] [--write docs/reference/daemon.md]

Each window is a process as an editor starts it, in a project of its own, with one base in common. Compared, in turn and
in one run: windows that serve themselves, and windows of `kbhub serve --connect` with their daemon. Memory is what the
kernel says of the processes together: resident, and proportional (a page that several share counts once). Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.server.daemon.launch import stop
from kbhub.server.daemon.protocol import DaemonFolder, read_record

WORDS = [
    "deploy",
    "release",
    "rollback",
    "cache",
    "token",
    "session",
    "index",
    "query",
    "schema",
    "lock",
    "backup",
    "queue",
    "batch",
    "order",
    "refund",
]
INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
SOURCE = Path(__file__).parent.parent / "src"


class Window:
    """A client's process."""

    def __init__(self, arguments: list[str], project: Path, env: dict[str, str]) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kbhub", "serve", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=project,
            env=env,
        )
        self.ask(INITIALIZE)
        self.handshake = time.perf_counter() - started
        self.tell({"method": "notifications/initialized"})

    def tell(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, message: dict) -> dict:
        self.tell({**message, "id": 1})
        while "result" not in (answer := json.loads(self.process.stdout.readline())):
            pass
        return answer

    def search(self, query: str) -> float:
        started = time.perf_counter()
        call = {"name": "search", "arguments": {"query": query}}
        assert "1. " in self.ask({"method": "tools/call", "params": call})["result"]["content"][0]["text"]
        return time.perf_counter() - started

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder).resolve(), arguments.windows, arguments.documents, arguments.rounds)
    print(report)
    if arguments.write:
        arguments.write.write_text(report, "utf-8")


def run(folder: Path, windows: int, documents: int, rounds: int) -> str:
    home, projects = folder / "home", [folder / f"project{number}" for number in range(windows)]
    env = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(home),
        "PYTHONPATH": str(SOURCE),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "KBHUB_DATA_DIR": str(folder / "data"),
        "KBHUB_CACHE_DIR": str(folder / "cache"),
    }
    furnish(home, projects, documents, env)
    ways: dict[str, list[str]] = {"`kbhub serve`": [], "`kbhub serve --connect`": ["--connect"]}
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, options in ways.items():
            figures = measure(options, projects, env, folder)
            if number:  # the first one compiles
                found[name].append(figures)
    return table(found, windows, documents, rounds)


def furnish(home: Path, projects: list[Path], documents: int, env: dict[str, str]) -> None:
    """Make a base that is active everywhere and a small one for each project, with their indexes."""
    chance = random.Random(7)
    notes = home / "notes"
    for place, count in ((notes, documents), *((project / "knowledge", 20) for project in projects)):
        place.mkdir(parents=True)
        for number in range(count):
            text = " ".join(chance.choices(WORDS, k=180))
            (place / f"n{number}.md").write_text(f"# Note {number} on {chance.choice(WORDS)}\n\n{text}.\n")
    (home / ".kbhub.json").write_text(json.dumps({"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}}))
    for project in projects:
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        Hub(HubOptions(cwd=project, home=home, env=env)).sync()


def measure(options: list[str], projects: list[Path], env: dict[str, str], folder: Path) -> tuple[float, ...]:
    """Open the windows one after the other, search in each, and look at their memory; MiB and milliseconds."""
    opened = [Window(options, project, env) for project in projects]
    daemon = [read_record(DaemonFolder(folder / "data")).pid] if options else []
    processes = [window.process.pid for window in opened] + daemon
    idle = memory(processes)
    first = [window.search("rollback of a release") for window in opened]
    busy = memory(processes)
    one = memory([opened[-1].process.pid])
    again = [window.search("refund of an order") for window in opened for _ in range(5)]
    for window in opened:
        window.end()
    stop(DaemonFolder(folder / "data"))
    later = statistics.median(window.handshake for window in opened[1:])
    times = (opened[0].handshake, later, first[0], statistics.median(first[1:]), statistics.median(again))
    return (*idle, *busy, one[0], *(1000 * seconds for seconds in times))


def memory(processes: list[int]) -> tuple[float, float]:
    """Resident and proportional memory of processes together, in MiB."""
    sums = {"Rss": 0, "Pss": 0}
    for process in processes:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0])
    return sums["Rss"] / 1024, sums["Pss"] / 1024


ROWS = (
    "memory of all, after the handshake, MiB resident",
    "the same, MiB proportional",
    "memory of all, after a hybrid search in each, MiB resident",
    "the same, MiB proportional",
    "of these, one window's process, MiB resident",
    "first window answered after, ms",
    "each further window answered after, ms",
    "first search of the first window, ms",
    "first search of each further window, ms",
    "later searches, ms",
)


def table(found: dict[str, list[tuple[float, ...]]], windows: int, documents: int, rounds: int) -> str:
    alone, shared = ([statistics.median(column) for column in zip(*rows, strict=True)] for rows in found.values())
    lines = [
        f"`python benchmarks/daemon.py`: {windows} windows, each in a project of its own (20 documents), with one base of",
        f"{documents:,} documents in common; median of {rounds} rounds, the two ways in turn.",
        "",
        f"| | {' | '.join(found)} | ratio |",
        "|---|---|---|---|",
        *(f"| {row} | {a:,.0f} | {b:,.0f} | {b / a:.2f} |" for row, a, b in zip(ROWS, alone, shared, strict=True)),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
