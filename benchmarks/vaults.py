"""Index real vaults as global bases beside a project base, search them, and start servers on them.

    python benchmarks/vaults.py VAULT… [--write FILE]

VAULT is a folder of Markdown or a .tar.xz of one. Everything is measured in one run on one machine: compare ratios.
`run.py` measures more, by size; this is a quick look at vaults as they are, through clients of both eras.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

from bench.common import environment, parser, unpack
from bench.figures import quantile
from bench.processes import BARE, KBHUB, Server, memory_of
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.types import Mode, Query

QUERIES = 100
STARTS = 9


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("vaults", nargs="+", type=Path)
    reading.add_argument("--write", type=Path, help="also write the tables to this file")
    arguments = reading.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), arguments.vaults)
    print(report)
    if arguments.write:
        arguments.write.write_text(report, "utf-8")


def run(folder: Path, vaults: list[Path]) -> str:
    home, project = folder / "home", folder / "home" / "project"
    (project / ".git").mkdir(parents=True)
    (project / "knowledge").mkdir()
    (project / "knowledge" / "deploy.md").write_text("# Deploy\n\nPush a tag; the pipeline does the rest.\n")
    bases = {vault.name.split(".")[0]: unpack(vault, folder) for vault in vaults}
    (home / ".kbhub.json").write_text(
        json.dumps({"bases": {k: str(v) for k, v in bases.items()}, "repos": {"*": list(bases)}})
    )
    env = environment(folder, home)
    hub = Hub(HubOptions(env=env, home=home, cwd=project))
    rows, queries = [], {}
    for base in ("project", *bases):
        hub.embedder().embed(["warm"])
        started, cpu = time.perf_counter(), time.process_time()
        report = hub.sync([base])[0]
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        started = time.perf_counter()
        hub.sync([base])
        again = time.perf_counter() - started
        size = hub.index(hub.select([base])[0]).path.stat().st_size
        queries[base] = sample(hub, base)
        rows.append(
            (
                base,
                report.added,
                report.chunks,
                report.added / wall,
                report.chunks / wall,
                report.chunks / cpu,
                size,
                again * 1000,
            )
        )
    lines = [
        "# Benchmarks", "",
        f"Measured with `python benchmarks/vaults.py` on {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}. Machines differ and are noisy: compare within a table.", "",
        "## Index", "",
        "| base | files | chunks | files/s | chunks/s | chunks per CPU second | index, kB per chunk | unchanged base checked, ms |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {b} | {f:,} | {c:,} | {fs:,.0f} | {cs:,.0f} | {cc:,.0f} | {s / 1000 / max(c, 1):.1f} | {a:.0f} |" for b, f, c, fs, cs, cc, s, a in rows),
        "", "## Search, warm, in one process", "",
        "| bases searched | mode | p50 ms | p95 ms | CPU p50 ms |", "|---|---|---|---|---|",
    ]  # fmt: skip
    every = [query for some in queries.values() for query in some]
    for names, asked in [*(([base], queries[base]) for base in bases), (["project", *bases], every)]:
        for mode in ("keyword", "semantic", "hybrid"):
            wall, cpu = timed(hub, names, asked, mode)
            label = names[0] if len(names) == 1 else f"all {len(names)}"
            lines.append(f"| {label} | {mode} | {wall[0]:.1f} | {wall[1]:.1f} | {cpu[0]:.1f} |")
    lines += ["", *servers(env, project), "", *anyio.run(clients, env, project, every)]
    lines += [
        "",
        "## Discovery",
        "",
        "`python benchmarks/discovery.py`, a working directory 40 folders deep:",
        "",
        "```",
    ]
    lines += [
        subprocess.run(
            [sys.executable, Path(__file__).with_name("discovery.py")], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def sample(hub: Hub, base: str) -> list[str]:
    """Queries of the kind people type: titles, and four words from somewhere in a document."""
    choose = random.Random(7)
    index = hub.index(hub.select([base])[0])
    with index.snapshot():
        chunks = index.chunks(choose.sample(range(1, index.counts()[1] + 1), min(QUERIES, index.counts()[1])))
        titles = [document.title for document in index.documents([chunk.document_id for chunk in chunks])]
    spans = []
    for chunk in chunks:
        words = chunk.text.split()
        at = choose.randrange(max(1, len(words) - 4))
        spans.append(" ".join(words[at : at + 4]))
    return (titles[: QUERIES // 2] + spans[: QUERIES // 2]) or ["deploy"]


def timed(
    hub: Hub, names: list[str], queries: list[str], mode: Mode
) -> tuple[tuple[float, float], tuple[float, float]]:
    wall, cpu = [], []
    for text in queries[:3] + queries:
        a, b = time.perf_counter(), time.process_time()
        hub.search(Query(text=text, bases=tuple(names), mode=mode))
        wall.append((time.perf_counter() - a) * 1000)
        cpu.append((time.process_time() - b) * 1000)
    return spread(wall[3:]), spread(cpu[3:])


def spread(values: list[float]) -> tuple[float, float]:
    return quantile(values, 0.5), quantile(values, 0.95)


def servers(env: dict[str, str], project: Path) -> list[str]:
    commands = {
        "a bare server of the SDK": BARE,
        "`kbhub serve`": [*KBHUB, "serve"],
    }
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(STARTS):
        for name, command in commands.items():
            seen[name].append(start(command, env, project))
    bare = statistics.median(moment for moment, _ in seen["a bare server of the SDK"])
    lines = ["## Server", "", f"Process start to the answer to `initialize`, median of {STARTS} starts, in turn; resident memory then.", "",
             "| server | ms | ratio | memory, MiB |", "|---|---|---|---|"]  # fmt: skip
    for name, values in seen.items():
        moment = statistics.median(value for value, _ in values)
        resident = statistics.median(mib for _, mib in values)
        lines.append(f"| {name} | {moment * 1000:.0f} | {moment / bare:.2f} | {resident:.0f} |")
    return lines


async def clients(env: dict[str, str], project: Path, queries: list[str]) -> list[str]:
    """Search all bases through a real client of each era over a real pipe."""
    lines = ["## Search through a client", "", "The SDK's `Client` over stdio, all bases, hybrid; resident memory of the server before and after.", "",
             "| era | first search, ms | p50 ms | p95 ms | memory before, MiB | after |", "|---|---|---|---|---|---|"]  # fmt: skip
    for mode in ("auto", "legacy"):
        server = StdioServerParameters(command=sys.executable, args=["-m", "kbhub", "serve"], env=env, cwd=project)
        async with Client(server, mode=mode, read_timeout_seconds=60) as client:
            before = memory(project)
            moments = []
            for text in queries[:QUERIES]:
                started = time.perf_counter()
                answer = await client.call_tool("search", {"query": text})
                assert not answer.is_error, answer
                moments.append((time.perf_counter() - started) * 1000)
            p50, p95 = spread(moments[1:])
            lines.append(
                f"| {client.protocol_version} | {moments[0]:.0f} | {p50:.1f} | {p95:.1f} | {before:.0f} | {memory(project):.0f} |"
            )
    return lines


def memory(cwd: Path) -> float:
    """Resident MiB of the server that was started in a folder (Linux)."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == cwd.resolve() and b"serve" in (process / "cmdline").read_bytes():
                return memory_of(int(process.name))["rss"]
        except OSError:
            continue
    return float("nan")


def start(command: list[str], env: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Seconds to the handshake, and MiB then."""
    with Server(command, env, cwd) as server:
        return server.handshake(), server.memory()["rss"]


if __name__ == "__main__":
    main()
