"""Memory of servers: idle, after the first search by meaning, by size, shared between servers, over many queries."""

from __future__ import annotations

from itertools import cycle, islice
from statistics import linear_regression
from typing import TYPE_CHECKING, Any

from bench.common import report_step
from bench.processes import BARE, KBHUB, Server

if TYPE_CHECKING:
    from bench.stand import Stand

SHARING = 10
"""Servers that run at once to see what they share."""

WARM_QUERIES = 500
"""After so many, whatever is remembered of queries is remembered; growth is counted from here."""

READINGS = 20
"""Readings of the memory over the many queries."""

KIB = 1024

LEAST_DIFFERENCE = 50_000
"""Chunks between two bases from which on their memory tells what a chunk takes; below, buffers decide."""


def measure_memory(stand: Stand, sizes: list[int], queries: list[str], many: int, rounds: int = 3) -> dict[str, Any]:
    """Start servers on bases of some sizes and read their memory."""
    rows = []
    for size in sizes:
        stand.indexed(stand.sized(size))
        project = stand.project(f"n{size}", f"n{size}")
        found = [_one(stand, project, queries) for _ in range(rounds)]
        rows.append({"size": size} | {name: sorted(one[name] for one in found)[rounds // 2] for name in found[0]})
        report_step(f"memory at {size:,}: {rows[-1]['idle_rss']:.0f} MiB idle, {rows[-1]['after_rss']:.0f} after")
    bare = []
    for _ in range(rounds):
        with Server(BARE, stand.env(), stand.work) as server:
            server.handshake()
            bare.append(server.memory())
    small, large = rows[0], rows[-1]
    per_chunk = (large["after_private"] - small["after_private"]) * KIB * KIB / max(large["size"] - small["size"], 1)
    return {
        "bare_rss": sorted(one["rss"] for one in bare)[rounds // 2],
        "bare_pss": sorted(one["pss"] for one in bare)[rounds // 2],
        "rows": rows,
        "bytes_per_chunk": per_chunk if large["size"] - small["size"] >= LEAST_DIFFERENCE else None,
        "sharing": _sharing(stand, sizes[0], queries),
        "growth": _growth(stand, sizes[min(1, len(sizes) - 1)], queries, many),
    }


def _one(stand: Stand, project, queries: list[str]) -> dict[str, float]:
    with Server([*KBHUB, "serve"], stand.env(), project) as server:
        server.handshake()
        server.ask("tools/list", {})
        server.rest()  # it loads what calls need, and compares the base with its files
        idle = server.memory()
        server.call("status", {})
        server.call("search", {"query": queries[0], "mode": "keyword"})
        words = server.memory()
        server.call("search", {"query": queries[1]})
        first = server.memory()
        for query in queries[2:22]:
            server.call("search", {"query": query})
        after = server.memory()
    return {
        f"{when}_{name}": value
        for when, one in (("idle", idle), ("words", words), ("first", first), ("after", after))
        for name, value in one.items()
    }


def _sharing(stand: Stand, size: int, queries: list[str]) -> dict[str, float]:
    """Read what a server weighs when several have answered a query by meaning."""
    project = stand.project(f"n{size}", f"n{size}")
    servers = [Server([*KBHUB, "serve"], stand.env(), project) for _ in range(SHARING)]
    try:
        for server in servers:
            server.handshake()
            server.call("search", {"query": queries[0]})
        found = [server.memory() for server in servers]
    finally:
        for server in servers:
            server.end()
    return {"servers": SHARING} | {name: sum(one[name] for one in found) / SHARING for name in found[0]}


def _growth(stand: Stand, size: int, queries: list[str], many: int) -> dict[str, Any]:
    project = stand.project(f"n{size}", f"n{size}")
    step = max(1, (many - WARM_QUERIES) // READINGS)
    readings = []
    with Server([*KBHUB, "serve"], stand.env(), project) as server:
        server.handshake()
        for number, query in enumerate(islice(cycle(queries), many), 1):
            server.call("search", {"query": query})
            if number >= WARM_QUERIES and (number - WARM_QUERIES) % step == 0:
                readings.append((number, server.memory()["rss"]))
    report_step(f"memory over {many:,} queries: {readings[0][1]:.0f} to {readings[-1][1]:.0f} MiB")
    slope = linear_regression(*zip(*readings, strict=True)).slope if len(readings) > 1 else 0.0
    return {
        "size": size,
        "queries": many,
        "readings": readings,
        "times": readings[-1][1] / readings[0][1],
        "bytes_per_query": slope * KIB * KIB,
    }
