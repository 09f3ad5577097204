"""What `--check` holds the figures to: generous ratios, for machines differ and are noisy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.figures import middle, ratio


@dataclass(frozen=True)
class Bound:
    """The most (or least) that a figure may be."""

    what: str
    figure: Callable[[dict[str, Any]], float]
    """Results → the figure; a missing part raises KeyError or IndexError, and the bound is passed over."""
    limit: float
    reason: str
    least: bool = False


def _largest(results: dict[str, Any]) -> int:
    return max(int(name.split()[0]) for name in results["query"])


def _query(results: dict[str, Any], one: str, other: str) -> float:
    size = _largest(results)
    return ratio(results["query"][f"{size} {one}"], results["query"][f"{size} {other}"])[0]


def _tail(results: dict[str, Any]) -> float:
    cases = [case for name, case in results["query"].items() if name.endswith(" hybrid")]
    return max(case["cpu_p99"] / case["cpu_p50"] for case in cases)


def _growth_with_size(results: dict[str, Any]) -> float:
    """Time per query at the largest size over that at the smallest, less than in proportion to the chunks."""
    sizes = sorted({int(name.split()[0]) for name in results["query"]})
    small, large = (results["query"][f"{size} hybrid"]["cpu_p50"] for size in (sizes[0], sizes[-1]))
    return large / small / (sizes[-1] / sizes[0])


def _start(results: dict[str, Any], one: str, other: str) -> float:
    cases = results["start"]["cases"]
    return ratio(cases[one], cases[other], "wall")[0]


def _build(results: dict[str, Any]) -> float:
    cases = results["index"]["builds"][0]["cases"]
    return middle(cases["model2vec alone, one core"]["cpu"]) / middle(cases["build, one core"]["cpu"])


def _rate(results: dict[str, Any]) -> float:
    """CPU of parsing and embedding alone over that of a first build, least of all bases."""
    cases = [build["cases"] for build in results["index"]["builds"]]
    alone, build = "parsing and embedding alone, all cores", "build, all cores"
    return min(middle(case[alone]["cpu"]) / middle(case[build]["cpu"]) for case in cases)


def _weight(results: dict[str, Any]) -> float:
    return max(build["memory"]["all"] for build in results["index"]["builds"])


def _rival(results: dict[str, Any], how: str) -> float:
    tools = results["rivals"]["tools"]
    shares = [
        tools[tool["like"]][how]["wall_p50"] / tool[how]["wall_p50"]
        for name, tool in tools.items()
        # To find nothing is quick: a tool that does so for most queries does not do the same.
        if how in tool and name != tool["like"] and tool["server"]["empty"] <= tool["server"]["n"] / 2
    ]
    return max(shares)  # ValueError if none could be started


BOUNDS = (
    Bound("hybrid query / bare FTS5 OR query, CPU, largest size", lambda r: _query(r, "hybrid", "FTS5 OR"), 12,
          "both grow with the postings; the rest of a hybrid query does not"),
    Bound("semantic query / reading the int8 vectors, CPU, largest size",
          lambda r: _query(r, "semantic", "memory, int8 vectors"), 20,
          "candidates come from an eighth of the bytes; a scan of everything in SQLite takes more"),
    Bound("hybrid query p99 / p50, CPU, worst size", _tail, 8, "the goal is 4; other processes cause outliers"),
    Bound("growth of a hybrid query / growth of the base", _growth_with_size, 1,
          "growing faster than the base would mean a scan within a scan"),
    Bound("several bases / one of the same documents, hybrid, CPU",
          lambda r: ratio(r["bases"]["cases"][f"{r['bases']['parts']} hybrid"], r["bases"]["cases"]["1 hybrid"])[0], 5,
          "the goal is 2; with small bases, the cost per base weighs more"),
    Bound("recall@10 of the candidates", lambda r: min(row["recall"] for row in r["recall"]), 0.95,
          "the goal is 0.97; 100 questions are accurate to about 0.01", least=True),
    Bound("share of embedding in a first build, CPU, one core", _build, 0.4,
          "the goal is 0.9; embedding cannot be avoided", least=True),
    Bound("share of parsing and embedding alone in a first build, CPU, all cores, worst base", _rate, 0.4,
          "the goal is 0.85; tiny files have most beside it", least=True),
    Bound("memory of a first build with its workers, MiB, largest base", _weight, 400, "the goal is 250"),
    Bound("unchanged files / reading their times alone",
          lambda r: ratio(*(r["index"]["changes"][-1]["cases"][one] for one in
                            ("unchanged, as a search looks", "look at all files' times alone")))[0], 3,
          "the goal is 1.3; paths are compared as well"),
    Bound("bytes of index per chunk", lambda r: max(one["bytes"] / one["chunks"] for one in r["index"]["sizes"]), 3500,
          "the goal is 3,000; small bases have a larger share of empty pages"),
    Bound("kbhub serve / bare server, to the handshake", lambda r: _start(r, "kbhub serve, handshake", "bare server, handshake"), 1.8,
          "the SDK takes most of it"),
    Bound("kbhub serve, first search a second after the list of tools / the second search",
          lambda r: _start(r, "kbhub serve, first search a second after the list", "kbhub serve, second search"), 15,
          "it loads numpy and opens the index; the rest is loaded by then"),
    Bound("kbhub --help / python -c pass", lambda r: _start(r, "kbhub --help", "python -c pass"), 25,
          "an interpreter starts in about 10 ms"),
    Bound("kbhub search / a process that imports numpy and apsw",
          lambda r: _start(r, "kbhub search", "python, numpy and apsw"), 12, "the command line, the model, the index"),
    Bound("idle server / bare server, resident", lambda r: r["memory"]["rows"][0]["idle_rss"] / r["memory"]["bare_rss"],
          1.4, "the goal is 1.3; the SDK takes most of it"),
    Bound("growth over many queries, resident", lambda r: r["memory"]["growth"]["times"], 1.15, "the goal is no growth"),
    Bound("a search by command / that of the fastest tool that does the same", lambda r: _rival(r, "command"), 2, "a command in Python with numpy beside one in Node; a tool that finds nothing for most queries does not count"),
    Bound("a search by server / that of the fastest tool that does the same", lambda r: _rival(r, "server"), 1.5, "users wait no longer"),
)  # fmt: skip
"""What → the limit, and why it is where it is."""


@dataclass(frozen=True)
class Judged:
    """A bound and the figure that it was held against."""

    bound: Bound
    figure: float

    @property
    def holds(self) -> bool:
        """Whether the figure is within the bound; one that is no number is not."""
        return self.figure >= self.bound.limit if self.bound.least else self.figure <= self.bound.limit

    @property
    def limit(self) -> str:
        """The bound in words."""
        return f"at {'least' if self.bound.least else 'most'} {self.bound.limit:,g}"


def judged(results: dict[str, Any]) -> list[Judged]:
    """Hold the results to the bounds; those about parts that were not run are left out."""
    found = []
    for bound in BOUNDS:
        try:
            found.append(Judged(bound, bound.figure(results)))
        except (KeyError, IndexError, ValueError, ZeroDivisionError):
            continue
    return found


def broken(results: dict[str, Any]) -> tuple[list[str], int]:
    """Give a line for each bound that is broken, and how many could be looked at."""
    every = judged(results)
    lines = [
        f"BROKEN {one.bound.what}: {one.figure:.3g}, {one.limit} ({one.bound.reason})" for one in every if not one.holds
    ]
    return lines, len(every)
