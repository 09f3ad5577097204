"""What finding the bases costs in a deep tree, without a cache: `python benchmarks/discovery.py [rounds]`."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kbhub.workspace.config import load_config
from kbhub.workspace.discovery import discover, find_workspace
from kbhub.workspace.project import TrustStore

LEVELS = 40
"""Folders between the root of the tree and the working directory; product.md asks for under 5 ms in a deep one."""
GLOBAL_BASES = 5
ROUNDS = 300


def build(top: Path) -> tuple[Path, Path]:
    """A home with a commented config and five bases, and a repository with its knowledge at the far end."""
    home = top / "home"
    bases = {f"base{number}": f"~/bases/{number}" for number in range(GLOBAL_BASES)}
    for number in range(GLOBAL_BASES):
        (home / "bases" / str(number)).mkdir(parents=True)
    config = {"bases": bases, "repos": {"*": [*bases][:3], str(top): [*bases][3:]}}
    (home / ".kbhub.json").write_text(f"// mine\n{json.dumps(config, indent=2)}\n")
    repository = top / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "knowledge").mkdir()
    deep = repository.joinpath(*(f"level{number}" for number in range(LEVELS)))
    deep.mkdir(parents=True)
    return home, deep


def measure(home: Path, deep: Path, rounds: int) -> list[float]:
    """Milliseconds of each round."""
    trust = TrustStore(home / "trust.json")
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        config = load_config(None, {}, home)
        workspace = find_workspace(root=None, env={}, cwd=deep, home=home, serve=False)
        found = discover(workspace, config, trust, named={}, env={}, home=home)
        times.append((time.perf_counter() - start) * 1000)
        assert len(found.bases) == GLOBAL_BASES + 1
    return times


def main() -> None:
    """Print the median and the 95th percentile."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        times = measure(*build(Path(name).resolve()), rounds)
    p95 = statistics.quantiles(times, n=20)[-1]
    print(f"{LEVELS} levels, {GLOBAL_BASES} global bases: p50 {statistics.median(times):.2f} ms, p95 {p95:.2f} ms")


if __name__ == "__main__":
    main()
