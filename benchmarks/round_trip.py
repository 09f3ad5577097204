"""What a search over MCP costs beside the search itself: `python benchmarks/round_trip.py FOLDER…`.

Every query goes to a process that only searches, to `kbhub serve` over standard input and output, and to a server of
the SDK that only answers, in turn; which of them comes first alternates. Processor time is that of the process alone,
from the kernel (Linux only). Then several clients ask at once, each a process of its own, beside as many processes that
only search. Last, one server is asked while it indexes a copy of a folder for the first time. Queries are headings of
the folders, and what `--queries` adds. `--check` exits with 1 where a ratio is out of all proportion.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
WARM_UP = 20
"""Queries that are not counted."""

SETTLING = 5
"""Seconds after which a server has done what follows its start."""

MOST_OF_SEARCH, LEAST_RATE, MOST_DURING = 3.0, 0.4, 6.0
"""Bounds of `--check`, with room for noise: CPU of a search over MCP, as a multiple of the search itself (the goal is
1.5); the rate of several clients, as a share of bare searches (the goal is .8); p95 during a first index, as a multiple
of quiet (the goal is 3)."""

SEARCHES_ONLY = """
import json, os, sys
from pathlib import Path
from kbhub.hub import Hub, HubOptions
from kbhub.search.search import search_assisted
from kbhub.types import Query
from kbhub.workspace.child_processes import serve_frugally

serve_frugally()
hub = Hub(HubOptions(env=dict(os.environ), home=Path(os.environ["HOME"]), cwd=Path.cwd()))
for line in sys.stdin:
    found = search_assisted(hub, Query(text=json.loads(line)))
    print(json.dumps(len(found.hits)), flush=True)
"""


class Searcher:
    """A process that answers queries, one at a time, and only searches."""

    arguments = ("-c", SEARCHES_ONLY)

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=env
        )
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def ask(self, query: str) -> None:
        self._send(query)
        self.process.stdout.readline()

    def timed(self, query: str) -> None:
        cpu, wall = self._cpu(), time.perf_counter()
        self.ask(query)
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.cpu.append(self._cpu() - cpu)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)

    def _send(self, value: object) -> None:
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def _cpu(self) -> float:
        """Milliseconds of processor time of all threads so far, also of those that have ended."""
        # The clock that clock_getcpuclockid(3) of the C library returns, which Python lacks.
        return time.clock_gettime_ns(~self.process.pid << 3 | 2) / 1e6


class Server(Searcher):
    """`kbhub serve`, and a client of it."""

    arguments = ("-m", "kbhub", "serve")

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        super().__init__(folder, env)
        self._calls = 0
        client = {"name": "bench", "version": "1"}
        self.call("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.call("tools/list", {})

    bases: tuple[str, ...] = ()
    """Ids of the bases to search; none for all."""

    def ask(self, query: str) -> None:
        self.call("tools/call", {"name": "search", "arguments": {"query": query, "bases": list(self.bases)}})

    def is_indexed(self, base: str) -> bool:
        """Whether a base has its first index."""
        status = self.call("tools/call", {"name": "status", "arguments": {}})["content"][0]["text"]
        (line,) = [line for line in status.splitlines() if line.startswith(f"- {base}:")]
        return "synced" in line

    def call(self, method: str, params: dict) -> dict:
        self._calls += 1
        self._send({"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._calls:
                return answer["result"]


class Floor(Server):
    """A server of the SDK with a tool that does nothing."""

    arguments = (str(Path(__file__).parent / "bench" / "bare_server.py"),)

    def ask(self, query: str) -> None:  # noqa: ARG002 - it asks nothing
        self.call("tools/call", {"name": "nothing", "arguments": {}})


class Window(Server):
    """`kbhub serve --connect`: one of several windows of the shared daemon."""

    arguments = ("-m", "kbhub", "serve", "--connect")


def headings(folders: list[Path], count: int) -> list[str]:
    found = set()
    for folder in folders:
        for file in sorted(folder.rglob("*.md")):
            for line in file.read_text("utf-8", "replace").splitlines():
                if line.startswith("#") and 8 < len(text := line.strip("# ")) < 80:
                    found.add(text)
    return random.Random(7).sample(sorted(found), min(count, len(found)))


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def row(name: str, values: list[float]) -> str:
    return "  ".join(
        [f"{name:32}", *(f"p{share:.0%}"[:-1] + f" {quantile(values, share):7.2f}" for share in (0.5, 0.95, 0.99))]
    )


def at_once(kind: type[Searcher], count: int, folder: Path, env: dict[str, str], queries: list[str]) -> float:
    """Return searches a second of several clients that ask at once."""
    processes = [kind(folder, env) for _ in range(count)]
    for process in processes:
        for query in queries[:WARM_UP]:
            process.ask(query)
    time.sleep(SETTLING)

    def work(process: Searcher) -> None:
        for query in queries:
            process.ask(query)

    threads = [threading.Thread(target=work, args=(process,)) for process in processes]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    for process in processes:
        process.end()
    return count * len(queries) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of Markdown")
    parser.add_argument("--queries", type=Path, nargs="*", default=[], help="JSON Lines with `text` or `query`")
    parser.add_argument("--searches", type=int, default=400)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--source", type=Path, default=SOURCE, help="`src` of another version, to compare with it")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a ratio is out of all proportion")
    options = parser.parse_args()
    asked = [json.loads(line) for file in options.queries for line in file.read_text("utf-8").splitlines()]
    queries = [value.get("text") or value["query"] for value in asked]
    queries += headings(options.folders, options.searches)
    queries = queries[: options.searches]

    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        bases = {f"b{number}": str(folder.resolve()) for number, folder in enumerate(options.folders)}
        (home / ".kbhub.json").write_text(json.dumps({"bases": bases, "repos": {"*": list(bases)}}), "utf-8")
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(options.source)}
        subprocess.run([sys.executable, "-m", "kbhub", "admin", "index"], cwd=home, env=env, check=True)

        three = [Searcher(home, env), Server(home, env), Floor(home, env)]
        for query in queries[:WARM_UP]:
            for process in three:
                process.ask(query)
        time.sleep(SETTLING)
        for number, query in enumerate(queries):
            for process in three if number % 2 else three[::-1]:
                process.timed(query)
        bare, server, floor = three
        for unit, name in (("wall", "ms"), ("cpu", "ms of processor time")):
            print(f"\n{len(queries)} searches, one after the other, {name}")
            print(row("the search itself", getattr(bare, unit)))
            print(row("over MCP", getattr(server, unit)))
            print(row("the SDK, doing nothing", getattr(floor, unit)))
            ratios = [one / other for one, other in zip(getattr(server, unit), getattr(bare, unit), strict=True)]
            print(f"{'ratio, median of pairs':32}      {statistics.median(ratios):7.2f}")
            print(f"{'ratio of all together':32}      {sum(getattr(server, unit)) / sum(getattr(bare, unit)):7.2f}")
        of_search = statistics.median(one / other for one, other in zip(server.cpu, bare.cpu, strict=True))
        for process in three:
            process.end()

        print(f"\n{options.clients} clients at once, searches a second")
        some = queries[:100]
        rates = {}
        for name, kind in (("the search itself", Searcher), ("over MCP", Server), ("over MCP, shared daemon", Window)):
            rates[name] = at_once(kind, options.clients, home, env, some)
            print(f"{name:32}  {rates[name]:7.1f}  {rates[name] / rates['the search itself']:.2f}")
        subprocess.run(
            [sys.executable, "-m", "kbhub", "admin", "stop"], cwd=home, env=env, check=False, capture_output=True
        )

        server = Server(home, env)
        for query in queries[:WARM_UP]:
            server.ask(query)
        time.sleep(SETTLING)
        for query in queries[:100]:
            server.timed(query)
        quiet, server.wall = server.wall, []
        copy = home / "copy"
        shutil.copytree(options.folders[0], copy)
        # A search of all bases would wait two seconds for the first index.
        server.bases = tuple(bases)
        (home / ".kbhub.json").write_text(
            json.dumps({"bases": {**bases, "copy": str(copy)}, "repos": {"*": [*bases, "copy"]}}), "utf-8"
        )
        time.sleep(1.5)  # until the config counts
        for query in queries:
            if server.is_indexed("copy"):
                break
            server.timed(query)
        server.end()
        print(f"\nduring a first index of {options.folders[0].name}, ms")
        print(row("quiet", quiet))
        print(row(f"beside it ({len(server.wall)} searches)", server.wall))
        during = quantile(server.wall, 0.95) / quantile(quiet, 0.95)
        print(f"{'p95, ratio':32}      {during:7.2f}")
    rate = rates["over MCP"] / rates["the search itself"]
    within = of_search <= MOST_OF_SEARCH and rate >= LEAST_RATE and during <= MOST_DURING
    return 1 if options.check and not within else 0


if __name__ == "__main__":
    sys.exit(main())
