"""Starting: servers to their handshake, the first search after it, commands beside the least they could be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kbhub
from bench.common import report_step
from bench.figures import Series
from bench.processes import BARE, KBHUB, Server, run

if TYPE_CHECKING:
    from bench.stand import Stand

PAUSE_SECONDS = 1.0
"""How long the later of two first searches comes after the list of tools: no model has read that list sooner."""

FLOOR_OF_SEARCH = "import numpy, apsw"
"""What a search by meaning cannot do without."""


def measure_start(stand: Stand, size: int, rounds: int, queries: list[str]) -> dict[str, Any]:
    """Start everything in turn.

    Args:
        stand: where.
        size: chunks of the base that is searched.
        rounds: starts of each.
        queries: what the first search asks, another each time.
    """
    stand.indexed(stand.sized(size))
    project, env = stand.project(f"n{size}", f"n{size}"), stand.env()
    compile_source()
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "kbhub --help": [*KBHUB, "--help"],
        "python, numpy and apsw": [sys.executable, "-c", FLOOR_OF_SEARCH],
        "kbhub search": [*KBHUB, "search", "--limit", "5"],
        "kbhub search --mode keyword": [*KBHUB, "search", "--mode", "keyword", "--limit", "5"],
    }
    names = [
        *commands,
        *("bare server, handshake", "bare server, list of tools"),
        *("kbhub serve, handshake", "kbhub serve, list of tools"),
        *("kbhub serve, first search at once", "kbhub serve, first search a second after the list"),
        "kbhub serve, second search",
    ]
    series = {name: Series() for name in names}
    report_step(f"start: {len(commands) + 3} commands, {rounds} rounds")
    for number in range(rounds + 1):
        kept = series if number else {name: Series() for name in names}  # the first round warms the disk's cache
        query = queries[number % len(queries)]
        parts = [*commands, "bare", "at once", "later"]
        for name in parts if number % 2 else reversed(parts):
            if name in commands:
                searched = [query.replace("-", " ")] if "search" in name else []
                kept[name].round()
                done = kept[name].time(lambda c=[*commands[name], *searched]: run(c, env, project))
                assert done.returncode in (0, 1), done.stderr
            else:
                _serve(name, kept, query, env, project)
    return {"size": size, "cases": {name: one.summary() for name, one in series.items()}}


def compile_source() -> None:
    """Byte-compile kbhub, as an installed package is."""
    run([sys.executable, "-m", "compileall", "-q", str(Path(kbhub.__file__).parent)], {}, Path.cwd())


def _serve(name: str, kept: dict[str, Series], query: str, env: dict[str, str], project: Path) -> None:
    """Start a server: a bare one, or ours to be asked at once, or as clients do, after the list of tools."""
    what = "bare server" if name == "bare" else "kbhub serve"
    with Server(BARE if name == "bare" else [*KBHUB, "serve"], env, project) as server:
        moment = server.handshake()
        if name != "at once":
            kept[f"{what}, handshake"].round()
            kept[f"{what}, handshake"].add(moment * 1000, server.cpu() * 1000)
            _timed(server, kept[f"{what}, list of tools"], lambda: server.ask("tools/list", {}))
        if name == "at once":
            _timed(server, kept[f"{what}, first search at once"], lambda: server.call("search", {"query": query}))
        if name == "later":
            time.sleep(PAUSE_SECONDS)
            first = kept[f"{what}, first search a second after the list"]
            _timed(server, first, lambda: server.call("search", {"query": query}))
            again = {"query": f"{query} again"}
            _timed(server, kept[f"{what}, second search"], lambda: server.call("search", again))


def _timed(server: Server, series: Series, call: Callable[[], object]) -> None:
    series.round()
    cpu, started = server.cpu(), time.perf_counter()
    call()
    series.add((time.perf_counter() - started) * 1000, (server.cpu() - cpu) * 1000)
