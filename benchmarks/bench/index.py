"""Indexing: a first build beside its parts alone, files that did not change, and one that did."""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.common import report_step
from bench.data import documents, write
from bench.figures import Series, middle
from bench.processes import peaks_of, run
from kbhub.types import Query

if TYPE_CHECKING:
    from bench.stand import Stand

WORK = Path(__file__).with_name("index_work.py")

KINDS = {
    "build, all cores": ("build", 0),
    "build, one core": ("build", 1),
    "model2vec alone, one core": ("embed", 1),
    "kbhub's embedder alone, one core": ("vectors", 1),
    "parsing alone, one core": ("parse", 1),
    "parsing and embedding alone, all cores": ("read", 0),
}

ALL_CORES = ("build, all cores", "parsing and embedding alone, all cores")
"""Of these kinds, those of a large base; the others would take an hour."""

LARGE = 100_000
"""Chunks of the base whose first build is measured and weighed, at most."""

FILES = 10_000
"""Files of the base that is looked through for changes."""

SMALL_FILES = 500

LOOKS = 10
"""Looks at unchanged files, and changes of one, in a round."""


def measure_index(stand: Stand, vaults: list[str], rounds: int, sizes: list[int]) -> dict[str, Any]:
    """Measure all of it.

    Args:
        stand: where.
        vaults: those that are built anew.
        rounds: how often.
        sizes: sized bases whose indexes are weighed; the largest up to `LARGE` is built anew, too.
    """
    built = [(vault, stand.vaults[vault], tuple(KINDS)) for vault in vaults]
    if large := [size for size in sizes if size <= LARGE]:
        name = stand.sized(max(large))
        built.append((name, stand.made[name], ALL_CORES))
    return {
        "builds": [_builds(stand, *one, rounds) for one in built],
        "changes": [_changes(stand, files, rounds) for files in (SMALL_FILES, FILES)],
        "sizes": [_weighed(stand, size) for size in sizes],
    }


def _builds(stand: Stand, vault: str, folder: Path, kinds: tuple[str, ...], rounds: int) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in folder.rglob("*.md"))
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    command = [sys.executable, str(WORK)]
    for number in range(rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            what, cores = KINDS[kind]
            done = run([*command, what, str(folder), "--cores", str(cores)], stand.env(), stand.work)
            assert done.returncode == 0, done.stderr
            found[kind].append(json.loads(done.stdout))
        report_step(f"index {vault}, round {number + 1}: {found['build, all cores'][-1]['wall']:.1f} s")
    build = found["build, all cores"][0]
    memory = peaks_of([*command, "build", str(folder)], stand.env(), stand.work)
    report_step(f"index {vault}: {memory['main']:.0f} MiB, with its workers {memory['all']:.0f}")
    return {
        "vault": vault,
        "bytes": size,
        "files": build["files"],
        "chunks": build["chunks"],
        "index_bytes": build["index_bytes"],
        "memory": memory,
        "cases": {
            kind: {what: [one[what] for one in taken] for what in ("wall", "cpu")} for kind, taken in found.items()
        },
    }


def _changes(stand: Stand, files: int, rounds: int) -> dict[str, Any]:
    """Look through files that did not change, then change one at a time and search for it."""
    name = f"files{files}"
    folder = stand.work / "bases" / name
    if not folder.exists():
        partial = folder.with_name(f"{name}.partial")
        for path, text in islice(documents(stand.corpus, sys.maxsize), files):
            write(partial / path, text)
            # Written a minute ago: a file that was written a moment ago may be written again, so it would be read.
            os.utime(partial / path, (time.time() - 60,) * 2)
        partial.rename(folder)
    stand.add(name, folder)
    hub = stand.indexed(name)
    hub.search(Query(text="warm"))
    every = sorted(folder.rglob("*.md"))
    series = {
        what: Series()
        for what in (
            *("look at all files' times alone", "unchanged", "unchanged, as a search looks"),
            *("changed, indexed", "changed, found"),
        )
    }
    for number in range(rounds):
        for one in series.values():
            one.round()
        for look in range(LOOKS):
            series["look at all files' times alone"].time(lambda: _stat(folder))
            series["unchanged"].time(hub.sync)
            series["unchanged, as a search looks"].time(lambda: hub.freshen(max_age=0))
            _change(hub, every[(number * LOOKS + look) * 7 % len(every)], f"fresh{number}x{look}", series)
    report_step(f"{files:,} files: unchanged in {middle(series['unchanged'].wall[-1]):.0f} ms")
    return {"files": files, "cases": {what: one.summary() for what, one in series.items()}}


def _change(hub, file: Path, word: str, series: dict[str, Series]) -> None:
    before, status = file.read_bytes(), file.stat()
    file.write_bytes(before + f"\n\nThe {word} was added.\n".encode())

    def found() -> Any:
        series["changed, indexed"].time(lambda: hub.freshen(max_age=0))
        return hub.search(Query(text=word))

    try:
        result = series["changed, found"].time(found)
        assert result.hits, f"{word} was not found"
        assert not result.unmatched, f"{word} was not found"
    finally:
        file.write_bytes(before)
        # With its time, or the next look is one at a file that was written a moment ago and may be written again.
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        hub.sync()


def _stat(folder: Path) -> int:
    """Read the times of all files below a folder: the least that a comparison can do."""
    count, folders = 0, [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    count += entry.stat(follow_symlinks=False).st_mtime_ns > 0
    return count


def _weighed(stand: Stand, size: int) -> dict[str, Any]:
    hub = stand.indexed(stand.sized(size))
    base = next(one for one in hub.status().bases if one.base.id == hub.select()[0].id)
    files = base.documents
    index = hub.index(hub.select()[0]).path
    text = sum(file.stat().st_size for file in stand.made[f"n{size}"].rglob("*.md"))
    total = sum(path.stat().st_size for path in index.parent.glob(f"{index.stem}*"))
    return {"size": size, "chunks": base.chunks, "files": files, "bytes": total, "text": text}
