"""Where the time of the three hot paths goes: py-spy looks on, and the shares are printed as Markdown.

    python benchmarks/profiles.py VAULT DATASET…

VAULT is a folder of Markdown, which is indexed from nothing and searched by a cold process; each DATASET a folder that
`kbhub dev eval` reads, whose queries are asked. Needs py-spy on the path (`pip install py-spy`).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
RATES = {"query": 250, "index": 250, "start": 1000}
"""Samples a second."""

STARTS = 5
"""Cold processes, whose samples are added up: one has too few."""

SHOWN, LEAST = 16, 0.02
"""Functions of a table at most, and the least share of one in it."""

ROOTS = {"query": r"^Hub\.search ", "index": r"^sync_base ", "start": r""}
"""What a path begins with; samples outside it do not count."""

_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>[^()]*?)(?::\d+)?\)$")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vault", type=Path)
    parser.add_argument("datasets", type=Path, nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        kbhub = [sys.executable, "-m", "kbhub"]
        base = ["--base", f"notes={arguments.vault.resolve()}"]
        evaluated = [*kbhub, "eval", *map(str, (one.resolve() for one in arguments.datasets)), "--mode", "hybrid"]
        run(work, evaluated)  # the corpora are indexed
        print_table("A hybrid query", stacks(work, "query", evaluated), ROOTS["query"])
        index = [*kbhub, "index", "notes", *base]
        with one_core():
            print_table("A first index", stacks(work, "index", index), ROOTS["index"])
        search = [*kbhub, "search", *base, "--in", "notes", "how is this done"]
        run(work, search)
        found: Counter[tuple[str, ...]] = Counter()
        for _ in range(STARTS):
            found += stacks(work, "start", search)
        print_table("A cold search", found, ROOTS["start"], packages=True)
    return 0


@contextmanager
def one_core() -> Iterator[None]:
    """Let what is started use one core, where that can be said: then no worker has a part of it, out of sight."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    had = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(had)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, had)


def run(work: Path, command: list[str], before: list[str] | None = None) -> None:
    """Run a command as a user of their own."""
    for name in ("home", "project"):
        (work / name).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    places = {"HOME": work / "home", "KBHUB_CACHE_DIR": work / "cache", "KBHUB_DATA_DIR": work / "data"}
    env = {**kept, "PYTHONPATH": str(SOURCE), **{name: str(place) for name, place in places.items()}}
    subprocess.run([*(before or []), *command], env=env, cwd=work / "project", check=True, stdout=subprocess.DEVNULL)


def stacks(work: Path, path: str, command: list[str]) -> Counter[tuple[str, ...]]:
    """Sample a command; gives stacks, outermost frame first, with the samples of each."""
    raw = work / f"{path}.txt"
    run(work, command, ["py-spy", "record", "-r", str(RATES[path]), "-f", "raw", "-o", str(raw), "--"])
    found: Counter[tuple[str, ...]] = Counter()
    for line in raw.read_text("utf-8").splitlines():
        frames, count = line.rsplit(" ", 1)
        found[tuple(frames.split(";"))] += int(count)
    return found


def print_table(title: str, found: Counter[tuple[str, ...]], root: str, *, packages: bool = False) -> None:
    """Print the share of each function below a root, with what it calls; or of each package that is at work."""
    shares: Counter[str] = Counter()
    total = 0
    for frames, count in found.items():
        start = next((at for at, frame in enumerate(frames) if re.search(root, frame)), None) if root else 0
        if start is None:
            continue
        total += count
        names = [named(frame, packages=packages) for frame in frames[start:]]
        shares.update(dict.fromkeys([names[-1]] if packages else [name for name in set(names) if name], count))
    print(f"### {title}\n\n| what | share |\n|---|---|")
    for name, count in shares.most_common(SHOWN):
        if count >= LEAST * total:
            print(f"| {name} | {count / total:.0%} |")
    print(f"\n({total} samples.)\n", flush=True)


def named(frame: str, *, packages: bool) -> str:
    """Give a function of kbhub, empty for another; or the package that a frame is of."""
    match = _FRAME.match(frame)
    file = match["file"] if match else frame
    if packages:
        parts = file.replace("\\", "/").split("/")
        if "kbhub" in parts:
            return "kbhub"
        if file.startswith("<frozen importlib"):
            return "Python's import system"
        return parts[0] if len(parts) > 1 and not parts[0].endswith(".py") else "Python's library"
    return f"`{match['name']}`, {file.partition('kbhub/')[2]}" if match and "kbhub/" in file else ""


if __name__ == "__main__":
    sys.exit(main())
