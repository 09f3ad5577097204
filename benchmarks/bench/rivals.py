"""Other tools on the same files and the same queries, each started as its own documentation says.

They are installed from PyPI and npm into the work folder, never into this project. One that cannot be installed or
started here is reported as such, with the reason. The steps can be run one by one; what they found is kept.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.common import load, report_step
from bench.data import SEED
from bench.figures import Series, middle
from bench.processes import KBHUB, Server, family_cpu, family_memory, run
from bench.rival_places import QUERY_SECONDS, Collection, Place, collect, index, install, place_of, sizes
from bench.rival_quality import measure_quality
from bench.rival_tools import HITS, OWN, RIVALS, own_arguments

if TYPE_CHECKING:
    from bench.stand import Stand

STEPS = ("index", "server", "command", "update", "quality")
"""In this order; each is kept apart."""

ROUND = 10
"""Queries of a round."""

COMMAND_SECONDS = 60.0
"""Once a tool's commands have taken so long, it is asked no more: some take ten seconds each."""

CHANGES = 3
"""Files that are changed, one after the other."""

FAILURES = (EOFError, OSError, RuntimeError, ValueError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Asking:
    """What is asked, and how patiently."""

    queries: Sequence[str]
    """Each is asked of everybody before the next."""
    commands: int
    """How many of them by cold commands."""
    datasets: Sequence[Path]
    """With questions whose answers are known."""
    patience: float
    """Seconds for a first index."""
    install: bool
    python: Path | None


def measure_rivals(stand: Stand, asking: Asking, earlier: Mapping[str, Any], steps: Sequence[str]) -> dict[str, Any]:
    """Index and ask everybody.

    Args:
        stand: where.
        asking: what.
        earlier: what this has given before; steps that are not run are taken from it.
        steps: which of `STEPS` to run.
    """
    work = stand.work / "rivals"
    collection = collect(work, stand.vaults)
    found: dict[str, Any] = {**earlier, "vaults": list(collection.parts), "files": len(collection.files), "hits": HITS}
    found["text"] = sum((collection.folder / file).stat().st_size for file in collection.files)
    tools = found.setdefault("tools", {})
    places = []
    for place in _places(stand, work, collection):
        row = tools.setdefault(place.name, {})
        row.pop("failed", None)
        row |= {"note": place.rival.note, "like": place.rival.like} if place.rival else {"note": "", "like": place.name}
        try:
            install(place, asking.python, allowed=asking.install)
            row |= {"version": place.version, "index": index(place, asking.patience)}
            places.append(place)
        except FAILURES as error:
            row["failed"] = reason(error)
        report_step(f"{place.name}: {row.get('failed') or 'ready'}")
    found["load"] = {**found.get("load", {}), **dict.fromkeys(steps, load())}
    if "server" in steps:
        _ask_servers(places, tools, asking.queries)
    if "command" in steps:
        _run_commands(places, tools, asking.queries[: asking.commands])
    if "update" in steps:
        _change_files(places, tools)
    for place in places:
        tools[place.name]["index"] |= sizes(place, stopped=tools[place.name]["index"]["stopped"])
    if "quality" in steps:
        ready = [place for place in places if "failed" not in tools[place.name]]
        found["quality"] = measure_quality(work, ready, asking.datasets, asking.patience)
    return found


def _places(stand: Stand, work: Path, collection: Collection) -> Iterator[Place]:
    for name in OWN:
        yield place_of(work, collection, name, None, stand.env())
    for rival in RIVALS:
        yield place_of(work, collection, rival.name, rival, {})


def _command(place: Place, query: str) -> list[str]:
    if place.rival:
        return place.rival.search(query)
    return [*KBHUB, "search", "--mode", OWN[place.name], "--limit", str(HITS), "--", query]


def call_of(place: Place) -> tuple[str, Callable[[str, Path], dict[str, Any]]]:
    """Give the tool of its server that searches, and what makes its arguments."""
    if place.rival:
        return place.rival.tool, place.rival.arguments
    return "search", own_arguments(OWN[place.name])


def _turns(places: Sequence[Place], count: int) -> Iterator[tuple[int, Sequence[Place]]]:
    """Give for each query who is asked: forwards for one, backwards for the next."""
    for number in range(count):
        yield number, list(places) if number % 2 == 0 else list(reversed(places))


def _ask_servers(places: Sequence[Place], tools: dict[str, Any], queries: Sequence[str]) -> None:
    """Ask warm servers, query by query."""
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for place in places:
            row = tools[place.name]["server"] = {}
            try:
                server = place.serve()
                stack.callback(server.end)
                row["handshake"] = server.handshake()
                started = time.perf_counter()
                tool, arguments = call_of(place)
                server.call(tool, arguments(queries[0], place.folder))
                row["first"] = (time.perf_counter() - started) * 1000
                servers[place.name] = server
            except FAILURES as error:
                tools[place.name]["failed"] = reason(error)
        asked = [place for place in places if place.name in servers]
        series = {place.name: Series() for place in asked}
        used = {name: family_cpu(server.process.pid) for name, server in servers.items()}
        sizes_of: dict[str, list[int]] = {name: [] for name in servers}
        empty = dict.fromkeys(servers, 0)
        for number, turn in _turns(asked, len(queries)):
            for place in turn:
                tool, arguments = call_of(place)
                if number % ROUND == 0:
                    series[place.name].round()
                server, wanted = servers[place.name], arguments(queries[number], place.folder)
                answer = series[place.name].time(
                    lambda server=server, tool=tool, wanted=wanted: server.call(tool, wanted)
                )
                sizes_of[place.name].append(bytes_of(answer))
                empty[place.name] += not place.paths(answer)
        for name, server in servers.items():
            tools[name]["server"] |= series[name].summary() | {
                "cpu_mean": (family_cpu(server.process.pid) - used[name]) / len(queries) * 1000,
                "bytes": middle(sizes_of[name]),
                "most_bytes": max(sizes_of[name]),
                "empty": empty[name],
            }
            tools[name]["server"] |= family_memory(server.process.pid)


def bytes_of(answer: Mapping[str, Any]) -> int:
    """Give the bytes of an answer's text; a structured copy, which a client may or may not show, is not counted."""
    return sum(len(part.get("text", "").encode()) for part in answer.get("content", []))


def _run_commands(places: Sequence[Place], tools: dict[str, Any], queries: Sequence[str]) -> None:
    """Ask by cold commands, query by query."""
    asked = [place for place in places if "failed" not in tools[place.name]]
    series = {place.name: Series() for place in asked}
    spent = dict.fromkeys(series, 0.0)
    sizes_of: dict[str, list[int]] = {name: [] for name in series}
    for place in asked:  # what is compiled or cached on a first start is so for everybody
        run(_command(place, queries[0]), place.env, place.cwd, QUERY_SECONDS)
    for number, turn in _turns(asked, len(queries)):
        for place in turn:
            if spent[place.name] > COMMAND_SECONDS:
                continue
            if number % ROUND == 0:
                series[place.name].round()
            command = _command(place, queries[number])
            done = series[place.name].time(
                lambda command=command, place=place: run(command, place.env, place.cwd, QUERY_SECONDS)
            )
            spent[place.name] += series[place.name].wall[-1][-1] / 1000
            sizes_of[place.name].append(len(done.stdout.encode()))
    for name, one in series.items():
        tools[name]["command"] = one.summary() | {"bytes": middle(sizes_of[name])}


def _change_files(places: Sequence[Place], tools: dict[str, Any]) -> None:
    """Change a file, let it be taken in, and look for it by a word that only it has."""
    for place in {place.home: place for place in reversed(places)}.values():
        files = sorted(place.folder.glob(f"{place.collection.parts[0]}/**/*.md"))
        series, seen = Series(), 0
        series.round()
        for number, file in enumerate(random.Random(SEED).sample(files, CHANGES)):
            before, word = file.read_bytes(), f"quibblethorn{'abcdefgh'[number]}x"
            try:
                file.write_bytes(before + f"\n\nThe {word} was added here.\n".encode())
                series.time(lambda place=place: place.run(place.update(), QUERY_SECONDS))
                seen += file.stem in place.run(_command(place, word), QUERY_SECONDS).stdout
            except FAILURES as error:
                report_step(f"{place.name}, update: {reason(error)}")
            finally:
                file.write_bytes(before)
        place.run(place.update(), QUERY_SECONDS)
        for other in (one for one in places if one.home == place.home):
            tools[other.name]["update"] = series.summary() | {"found": seen, "of": CHANGES}


def reason(error: BaseException) -> str:
    """Say in a line why something failed."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"did not end within {error.timeout:.0f} s"
    return " ".join(str(error).split())[:200] or type(error).__name__
