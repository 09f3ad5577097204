"""Where the other tools live: installed, each with a home of its own per collection, and indexed, once."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import report_step
from bench.figures import cpu_seconds
from bench.processes import KBHUB, Server, run
from bench.rival_tools import FOLDER, MDVAULT_MODEL, NAME, SQLITE, Answer, Rival, kbhub_paths
from bench.stand import MAX_FILES
from kbhub.models.embedding import PACKAGED_MODEL

INSTALL_SECONDS, QUERY_SECONDS = 900, 120
"""Patience; whoever takes longer is reported with that."""

LEAST_PYTHON = (3, 12)
"""What basic-memory asks for."""


@dataclass(frozen=True)
class Collection:
    """Documents that everybody indexes as one folder."""

    name: str
    """Empty for the vaults, else the data set."""
    folder: Path
    parts: tuple[str, ...] = ()
    """Subfolders, those with the fewest files first; empty for a flat one."""

    @property
    def files(self) -> list[Path]:
        """Give the files, relative to the folder."""
        return sorted(path.relative_to(self.folder) for path in self.folder.rglob("*.md"))


@dataclass(frozen=True)
class Place:
    """A tool, ours included, with one collection in a home of its own."""

    name: str
    home: Path
    env: Mapping[str, str]
    cwd: Path
    collection: Collection
    rival: Rival | None
    """None for kbhub."""

    @property
    def folder(self) -> Path:
        """Give the copy of the collection that it indexes."""
        return self.home / FOLDER

    @property
    def version(self) -> str:
        """Give the version that is installed, nothing for kbhub."""
        if not self.rival:
            return ""
        if self.rival.npm:
            package = self.home.parent / "node_modules" / self.rival.packages[-1] / "package.json"
            return json.loads(package.read_text("utf-8"))["version"]
        code = f"import importlib.metadata as m; print(m.version({self.rival.name!r}))"
        return run(
            [str(self.home.parent / "venv" / "bin" / "python"), "-c", code], self.env, self.home.parent
        ).stdout.strip()

    def serve(self) -> Server:
        """Start its MCP server; ours knows nothing of what was asked before, which becomes memories."""
        if not self.rival:
            shutil.rmtree(self.env["KBHUB_DATA_DIR"], ignore_errors=True)
        return Server(self.rival.serve if self.rival else [*KBHUB, "serve"], self.env, self.cwd)

    def run(self, command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run one of its commands.

        Raises:
            RuntimeError: it failed.
            TimeoutExpired: it took longer.
        """
        done = run(command, self.env, self.cwd, seconds)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[:2])}: {(done.stderr or done.stdout).strip()[-200:]}")
        return done

    def update(self) -> list[str]:
        """Give the command that takes in what changed."""
        return self.rival.update(self.folder) if self.rival else [*KBHUB, "index"]

    def paths(self, answer: Answer) -> list[str]:
        """Give what an answer of its server names."""
        return self.rival.paths(answer) if self.rival else kbhub_paths(answer)


def place_of(work: Path, collection: Collection, name: str, rival: Rival | None, env: Mapping[str, str]) -> Place:
    """Give the place of a tool with a collection.

    Args:
        work: folder of all tools.
        name: of the tool.
        rival: None for kbhub.
        env: kbhub's variables, apart from its home.
    """
    above = work / (name if rival else "kbhub")
    home = above / (f"home-{collection.name}" if collection.name else "home")
    if not rival:
        project = home / "project"
        own = {"HOME": str(home), "KBHUB_CACHE_DIR": str(home / "cache"), "KBHUB_DATA_DIR": str(home / f"data-{name}")}
        return Place(name, home, {**env, **own}, project, collection, None)
    bins = above / ("node_modules/.bin" if rival.npm else "venv/bin")
    inherited = {key: os.environ[key] for key in ("LANG", "TMPDIR") if key in os.environ}
    path = {"HOME": str(home), "PATH": f"{bins}{os.pathsep}{os.environ['PATH']}"}
    return Place(name, home, {**inherited, **path, **(rival.env or {})}, home, collection, rival)


def install(place: Place, python: Path | None, *, allowed: bool) -> None:
    """Install a tool into its folder, unless it is there.

    Args:
        python: interpreter for its environment; one that is new enough is looked for if none is given.
        allowed: whether to.

    Raises:
        RuntimeError: that failed, or is not allowed.
    """
    rival, above = place.rival, place.home.parent
    if rival is None or (above / ("node_modules/.bin" if rival.npm else "venv/bin") / rival.serve[0]).exists():
        return
    if not allowed:
        raise RuntimeError("not installed; run with --install")
    above.mkdir(parents=True, exist_ok=True)
    # npm takes the newest version that suits the node it runs on, so the node comes first.
    commands = [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(above), one] for one in rival.packages]
    if not rival.npm:
        venv = above / "venv"
        commands = [
            [str(python or _new_enough()), "-m", "venv", str(venv)],
            [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", *rival.packages],
        ]
    for command in commands:
        report_step(" ".join(command[:4]) + " …")
        done = run(command, {**os.environ, "PATH": place.env["PATH"]}, above, INSTALL_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
    if rival.name == "mdvault":
        (site,) = (above / "venv" / "lib").glob("python*/site-packages")
        (site / "sitecustomize.py").write_text(SQLITE, "utf-8")


def index(place: Place, patience: float) -> dict[str, Any]:
    """Index a copy of a collection, unless that was done before.

    Args:
        patience: seconds after which it is stopped; what it has until then is searched.

    Returns:
        Seconds of wall and CPU (of all its processes), `files` that it has of `of`, the `bytes` of its index, and
        whether it was `stopped`.

    Raises:
        RuntimeError: it failed.
    """
    done = place.home.with_name(f"{place.home.name}.json")
    if done.exists():
        return json.loads(done.read_text("utf-8"))
    shutil.rmtree(place.home, ignore_errors=True)
    place.cwd.mkdir(parents=True)
    _prepare(place)
    found: dict[str, Any] = {"wall": 0.0, "cpu": 0.0, "stopped": False, "steps": []}
    for number, parts in enumerate(_steps(place)):
        for part in parts:
            shutil.copytree(place.collection.folder / part, place.folder / part, dirs_exist_ok=True)
        commands = _first(place) if number == 0 else [place.update()]
        for command in commands:
            wall, cpu = time.perf_counter(), cpu_seconds()
            try:
                place.run(command, patience - found["wall"])
            except subprocess.TimeoutExpired:
                found["stopped"] = True
            found["wall"] += time.perf_counter() - wall
            found["cpu"] += cpu_seconds() - cpu
        found["steps"].append({"parts": parts, "wall": found["wall"], "cpu": found["cpu"]})
    found |= sizes(place, stopped=found["stopped"])
    done.write_text(json.dumps(found), "utf-8")
    return found


def sizes(place: Place, *, stopped: bool) -> dict[str, int]:
    """Give the files that it has indexed, those it was given, and the bytes of its index."""
    given = len(place.collection.files)
    patterns = place.rival.kept if place.rival else ("cache/**/*",)
    files = {file for pattern in patterns for file in place.home.glob(pattern) if file.is_file()}
    has = _entities(place) if stopped else given
    return {"files": has, "of": given, "bytes": sum(file.stat().st_size for file in files)}


def _prepare(place: Place) -> None:
    if not place.rival:
        (place.cwd / ".git").mkdir(parents=True)
        config = {"bases": {NAME: str(place.folder)}, "repos": {"*": [NAME]}, "limits": {"files": MAX_FILES}}
        (place.home / ".kbhub.json").write_text(json.dumps(config), "utf-8")
    elif place.rival.name == "mdvault":
        model = place.home / MDVAULT_MODEL
        model.parent.mkdir(parents=True)
        model.symlink_to(PACKAGED_MODEL)


def _steps(place: Place) -> list[tuple[str, ...]]:
    parts = place.collection.parts
    if not parts:
        return [("",)]
    return [parts[:-1], parts[-1:]] if place.rival and place.rival.stepwise else [parts]


def _first(place: Place) -> list[list[str]]:
    return place.rival.index(place.folder) if place.rival else [[*KBHUB, "index"]]


def _entities(place: Place) -> int:
    """Count the notes in basic-memory's database, 0 for another tool."""
    file = place.home / ".basic-memory" / "memory.db"
    if not file.exists():
        return 0
    database = sqlite3.connect(file)
    try:
        return database.execute("SELECT count(*) FROM entity").fetchone()[0]
    finally:
        database.close()


def collect(work: Path, vaults: Mapping[str, Path]) -> Collection:
    """Put copies of vaults side by side into one folder, once."""
    target = work / "source" / FOLDER
    counts = {name: sum(1 for _ in folder.rglob("*.md")) for name, folder in vaults.items()}
    if not target.exists():
        partial = target.with_name(f"{FOLDER}.partial")
        for name, folder in vaults.items():
            for file in sorted(folder.rglob("*.md")):
                copy = partial / name / file.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        partial.rename(target)
    return Collection("", target, tuple(sorted(counts, key=lambda name: counts[name])))


def interpreter_is_new_enough(python: Path) -> bool:
    """Say whether the other tools run on an interpreter."""
    check = f"import sys; sys.exit(sys.version_info < {LEAST_PYTHON})"
    return subprocess.run([str(python), "-c", check], check=False, capture_output=True).returncode == 0


def _new_enough() -> Path:
    if sys.version_info >= LEAST_PYTHON:
        return Path(sys.executable)
    known = [Path(found) for name in ("python3.13", "python3.12", "python3") if (found := shutil.which(name))]
    known += sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"))
    for one in known:
        if interpreter_is_new_enough(one):
            return one
    raise RuntimeError("no Python 3.12 or newer here; name one with --python")
