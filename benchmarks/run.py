"""Measure kbhub beside what the machine allows and beside other tools, in one run.

    python benchmarks/run.py VAULT… [--quick | --full] [--only query,index,start,memory,rivals] [--check] [--write]

VAULT is a folder of Markdown or a .tar.xz of one; bases of every size are made of them, kept with their indexes in
`--work`, and used again. Results are kept there, too, so that parts can be run one by one. `--write` makes
docs/reference/benchmarks.md, docs/reference/rivals.md and their plots of all that is there (plots need the dependency
group `bench`).
"""

# ruff: noqa: E402 - before numpy is imported
from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from kbhub.workspace.child_processes import be_frugal

be_frugal(os.environ)  # as every process of kbhub does first

import argparse
import datetime
import json
import random
import shlex
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.bounds import broken
from bench.common import load, machine, parser, read_json, report_step
from bench.data import SEED
from bench.index import measure_index
from bench.memory import measure_memory
from bench.queries import made_queries, read_queries, rounds_of
from bench.query import measure_bases, measure_queries, measure_recall
from bench.report import write_report
from bench.rival_report import write_rivals
from bench.rivals import STEPS, Asking, measure_rivals
from bench.stand import Stand, open_stand
from bench.start import measure_start

ROOT = Path(__file__).parents[1]

PARTS = ("query", "index", "start", "memory", "rivals")


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    sizes: tuple[int, ...]
    rounds: int
    queries: int
    """Of a round."""
    bases: int
    """Chunks of the base that is held against eight."""
    builds: int
    """Rounds of first builds."""
    every_vault: bool
    starts: int
    many: int
    """Queries over which memory is watched."""
    rival_queries: int
    rival_commands: int
    """Of those queries, asked by a cold command, too."""
    rival_seconds: float
    """For the first index of another tool."""


QUICK = Extent((20_000, 100_000), 4, 40, 20_000, 2, False, 7, 2_000, 60, 10, 600)
ORDINARY = Extent((1_000, 10_000, 20_000, 100_000), 5, 80, 160_000, 3, True, 15, 20_000, 60, 20, 4_500)
FULL = Extent(
    (1_000, 10_000, 20_000, 100_000, 500_000, 1_000_000), 5, 100, 160_000, 3, True, 21, 100_000, 200, 20, 9_000
)

PARTS_OF_A_BASE = 8

ASKED_OF = 10_000
"""Chunks that queries are made of: every base of at least so many has them."""

SEARCHED = 20_000
"""Chunks of the base for starting and for memory, if none of the sizes asked for is as large: the largest of those."""

RECALL_QUERIES = 300


def main() -> int:
    """Run what was asked for; 1 if a bound is broken."""
    arguments = _arguments()
    extent = QUICK if arguments.quick else FULL if arguments.full else ORDINARY
    if arguments.sizes:
        extent = replace(extent, sizes=tuple(arguments.sizes))
    with tempfile.TemporaryDirectory(prefix="kbhub-bench-") as name:
        work = arguments.work or Path(name)
        stand = open_stand(work, arguments.vaults)
        results = measure(stand, extent, arguments)
    page, assets = arguments.page, arguments.page.parent / "../assets/bench"
    if arguments.write:
        write_report(results, page, assets.resolve())
        write_rivals(results, page.with_name("rivals.md"), assets.resolve())
    else:
        with tempfile.TemporaryDirectory() as name:
            write_report(results, Path(name) / "benchmarks.md", Path(name) / "plots")
            write_rivals(results, Path(name) / "rivals.md", Path(name) / "plots")
            print("\n".join(file.read_text("utf-8") for file in sorted(Path(name).glob("*.md"))))
    if not arguments.check:
        return 0
    lines, seen = broken(results)
    print("\n".join([*lines, f"{seen - len(lines)} of {seen} bounds hold."]))
    return 1 if lines or not seen else 0


def measure(stand: Stand, extent: Extent, arguments: Any) -> dict[str, Any]:
    """Run the parts and keep what they give beside what is known of the others."""
    kept = stand.work / "results.json"
    results = read_json(kept)
    asked = made_queries(stand.corpus, ASKED_OF, extent.rounds * extent.queries) + read_queries(arguments.queries)
    random.Random(SEED).shuffle(asked)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "query": lambda: _queries(stand, extent, asked),
        "index": lambda: {"index": _index(stand, extent)},
        "start": lambda: {"start": measure_start(stand, _searched(extent), extent.starts, asked)},
        "memory": lambda: {"memory": measure_memory(stand, _memory_sizes(extent), asked, extent.many)},
        "rivals": lambda: {
            "rivals": measure_rivals(
                stand, _asking(extent, arguments, asked), read_json(kept).get("rivals", {}), arguments.steps
            )
        },
    }
    for name in arguments.only:
        report_step(f"== {name}")
        before, found = load(), parts[name]()
        results = read_json(kept) | found  # another run may have written other parts meanwhile
        results.setdefault("load", {})[name] = before
        results.setdefault("commands", {})[name] = _command()
        results |= {"machine": machine(), "date": arguments.date}
        kept.write_text(json.dumps(results, indent=1), "utf-8")
    return results


def _asking(extent: Extent, arguments: Any, asked: list[str]) -> Asking:
    return Asking(
        asked[: extent.rival_queries], extent.rival_commands, arguments.datasets, extent.rival_seconds,
        arguments.install, arguments.python,
    )  # fmt: skip


def _queries(stand: Stand, extent: Extent, asked: list[str]) -> dict[str, Any]:
    rounds = rounds_of(asked, extent.rounds, extent.queries)
    real = sum(source.chunks for source in stand.corpus.sources)
    return {
        "query": measure_queries(stand, list(extent.sizes), rounds),
        "bases": measure_bases(stand, extent.bases, PARTS_OF_A_BASE, rounds),
        "recall": measure_recall(stand, [real, *extent.sizes], asked[:RECALL_QUERIES]),
    }


def _index(stand: Stand, extent: Extent) -> dict[str, Any]:
    vaults = sorted(stand.vaults) if extent.every_vault else [_vault_of_most_files(stand)]
    first = _main_vault(stand)
    return measure_index(stand, [first, *(one for one in vaults if one != first)], extent.builds, list(extent.sizes))


def _vault_of_most_files(stand: Stand) -> str:
    """Give the vault whose files are most, and tiny: of the three in the data, the cheat sheets."""
    return max(stand.vaults, key=lambda vault: sum(1 for _ in stand.vaults[vault].rglob("*.md")))


def _main_vault(stand: Stand) -> str:
    """Give the vault of the longest documents: of the three in the data, the design documents."""
    chunks: dict[str, list[int]] = {}
    for source in stand.corpus.sources:
        chunks.setdefault(source.vault, []).append(source.chunks)
    return max(chunks, key=lambda vault: sum(chunks[vault]) / len(chunks[vault]))


def _memory_sizes(extent: Extent) -> list[int]:
    return sorted({min(extent.sizes), _searched(extent), max(extent.sizes)})


def _searched(extent: Extent) -> int:
    return min(SEARCHED, max(extent.sizes))


def _command() -> str:
    """Give the command as somebody else would type it: files without their folders, and all parts in one."""
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    for option in ("--only", "--steps"):
        while option in words:
            at = words.index(option)
            del words[at : at + 2]
    return shlex.join(["python", "benchmarks/run.py", *words])


def _arguments() -> Any:
    reading = parser(__doc__)
    reading.add_argument("vaults", nargs="+", type=Path, help="folders or .tar.xz archives of Markdown")
    extent = reading.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="20,000 and 100,000 chunks, a few minutes")
    extent.add_argument("--full", action="store_true", help="up to 1,000,000 chunks, an hour or more")
    reading.add_argument(
        "--only",
        type=lambda text: _some(text, PARTS),
        default=list(PARTS),
        help=f"some of {','.join(PARTS)}; '' for none: the page again",
    )
    reading.add_argument("--sizes", type=lambda text: [int(one) for one in text.split(",")], help="chunks, with commas")
    reading.add_argument("--queries", nargs="*", type=Path, default=[], help="JSON Lines with questions to ask, too")
    reading.add_argument(
        "--steps",
        type=lambda text: _some(text, STEPS),
        default=list(STEPS),
        help=f"of rivals: some of {','.join(STEPS)}",
    )
    reading.add_argument(
        "--datasets",
        nargs="*",
        type=Path,
        default=[],
        help="folders as `kbhub dev eval` reads them, to judge other tools by",
    )
    reading.add_argument("--work", type=Path, help="folder for data, indexes and results; a temporary one by default")
    reading.add_argument("--install", action="store_true", help="install the other tools (PyPI, npm) into --work")
    reading.add_argument("--python", type=Path, help="Python 3.12 or newer for the other tools' environments")
    reading.add_argument("--check", action="store_true", help="exit with 1 where a ratio is out of all proportion")
    reading.add_argument("--write", action="store_true", help="write the page and the plots instead of printing")
    reading.add_argument("--page", type=Path, default=ROOT / "docs" / "reference" / "benchmarks.md")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    reading.add_argument("--date", default=today, help="the day that the page says")
    return reading.parse_args()


def _some(text: str, known: Sequence[str]) -> list[str]:
    found = [part for part in text.split(",") if part]
    if unknown := set(found) - set(known):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return found


if __name__ == "__main__":
    sys.exit(main())
