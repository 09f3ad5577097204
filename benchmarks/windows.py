"""What the shared daemon saves: memory of several windows, and the time until a window has its first answer.

    python benchmarks/windows.py [--windows 5] [--projects 3] [--chunks 20000] [--rounds 7]

Each window is a process as an editor starts it. Memory is what the kernel says of all processes together after a hybrid
search in each: resident, and proportional (a page that several share counts once), beside one `kbhub serve`. Times are
from exec to the answer, beside `python -c "import mcp.server.mcpserver"` in the same run. Linux only.
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
RARE = 20_000
"""Further words, which make up half of the text."""
SECTIONS = 20
"""Of a document; each is a chunk."""
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
FIRST = {
    "server/discover": {"method": "server/discover", "params": {"_meta": META}},
    "initialize": {"method": "initialize", "params": CLIENT},
}
SCRIPT = Path(sys.executable).with_name("kbhub")
KBHUB = [str(SCRIPT)] if SCRIPT.is_file() else [sys.executable, "-m", "kbhub"]
OWN, SHARED = ["serve"], ["serve", "--connect"]
SDK = [sys.executable, "-c", "import mcp.server.mcpserver"]


class Window:
    """A client's process."""

    def __init__(self, arguments: list[str], project: Path, env: dict[str, str], first: str = "initialize") -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [*KBHUB, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project, env=env
        )
        self.answer = self.ask(FIRST[first])
        self.seconds = time.perf_counter() - started
        if first == "initialize":
            self.tell({"method": "notifications/initialized"})

    def tell(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, message: dict) -> dict:
        self.tell({**message, "id": 1})
        while "result" not in (answer := json.loads(self.process.stdout.readline())):
            assert "error" not in answer, answer
        return answer["result"]

    def search(self) -> None:
        call = {"name": "search", "arguments": {"query": "rollback of a release"}}
        assert "1. " in self.ask({"method": "tools/call", "params": call})["content"][0]["text"]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("windows", 5), ("projects", 3), ("chunks", 20_000), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        env = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(Path(__file__).parent.parent / "src"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "KBHUB_DATA_DIR": str(folder / "data"),
            "KBHUB_CACHE_DIR": str(folder / "cache"),
        }
        projects = [folder / f"project{number}" for number in range(given.projects)]
        for number, project in enumerate(projects):
            furnish(project, given.chunks, number, env)
        print(f"{given.windows} windows in {given.projects} projects of {given.chunks:,} chunks\n")
        print(memory_table(projects, given.windows, env))
        print(first_answers(projects[0], given.rounds, env))


def furnish(project: Path, chunks: int, seed: int, env: dict[str, str]) -> None:
    """Make a project with an index of about so many chunks."""
    chance = random.Random(seed)
    knowledge = project / "knowledge"
    knowledge.mkdir(parents=True)
    for number in range(chunks // SECTIONS):
        sections = []
        for _ in range(SECTIONS):
            words = [
                chance.choice(WORDS) if chance.random() < 0.5 else f"w{chance.randrange(RARE)}" for _ in range(150)
            ]
            sections.append(f"## On the {words[0]} of {words[1]}\n\n{' '.join(words)}.\n")
        (knowledge / f"n{number}.md").write_text(f"# Note {number}\n\n" + "\n".join(sections))
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (report,) = Hub(HubOptions(cwd=project, home=Path(env["HOME"]), env=env)).sync()
    print(f"{project.name}: {report.chunks:,} chunks", file=sys.stderr)


def memory_table(projects: list[Path], windows: int, env: dict[str, str]) -> str:
    places = [projects[number % len(projects)] for number in range(windows)]
    one, own, shared = (measure(way, there, env) for way, there in ((OWN, places[:1]), (OWN, places), (SHARED, places)))
    rows = [
        "| | one `kbhub serve` | one for each window | `kbhub serve --connect` | ratio to one |",
        "|---|---|---|---|---|",
    ]
    for name, number in (("all, MiB resident", 0), ("all, MiB proportional", 1), ("a window, MiB resident", 2)):
        a, b, c = one[number], own[number], shared[number]
        rows.append(f"| {name} | {a:,.0f} | {b:,.0f} | {c:,.0f} | {c / a:.2f} |")
    return "\n".join([*rows, ""])


def measure(arguments: list[str], places: list[Path], env: dict[str, str]) -> tuple[float, float, float]:
    """Open windows, search in each, and look at the memory of all processes and of the largest window, in MiB."""
    opened = [Window(arguments, project, env) for project in places]
    for window in opened:
        window.search()
    folder = DaemonFolder(Path(env["KBHUB_DATA_DIR"]))
    daemon = [read_record(folder).pid] if arguments == SHARED else []
    each = [memory(window.process.pid) for window in opened]
    total = [*each, *map(memory, daemon)]
    for window in opened:
        window.end()
    stop(folder)
    return sum(rss for rss, _ in total), sum(pss for _, pss in total), max(rss for rss, _ in each)


def memory(process: int) -> tuple[float, float]:
    """Resident and proportional memory of a process, in MiB."""
    facts = {}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        facts[name] = int(rest.split()[0]) / 1024
    return facts["Rss"], facts["Pss"]


def first_answers(project: Path, rounds: int, env: dict[str, str]) -> str:
    found: dict[str, list[float]] = {}
    folder = DaemonFolder(Path(env["KBHUB_DATA_DIR"]))
    for number in range(rounds + 1):
        started = time.perf_counter()
        subprocess.run(SDK, check=True)
        times = {'`python -c "import mcp.server.mcpserver"`': time.perf_counter() - started}
        for first in FIRST:
            answers = []
            for name, way in (("`kbhub serve`", OWN), ("no daemon yet", SHARED), ("with a daemon", SHARED)):
                answers.append(Window(way, project, env, first))
                times[f"{name}, `{first}`"] = answers[-1].seconds
                if name == "no daemon yet":
                    Window(SHARED, project, env, first).end()  # waits until the daemon is there
                    answers[-1].ask(FIRST[first]) if first == "server/discover" else answers[-1].search()
            assert [one.answer for one in answers] == [answers[0].answer] * len(answers)
            for window in answers:
                window.end()
            stop(folder)
        if number:  # the first one compiles, and leaves the notes
            for name, seconds in times.items():
                found.setdefault(name, []).append(seconds)
    base = statistics.median(next(iter(found.values())))
    rows = [f"| median of {rounds}, from exec to the answer | ms | ratio |", "|---|---|---|"]
    for name, every in found.items():
        rows.append(f"| {name} | {1000 * statistics.median(every):,.0f} | {statistics.median(every) / base:.3f} |")
    return "\n".join([*rows, "", f"load average {os.getloadavg()[0]:.1f}"])


if __name__ == "__main__":
    main()
