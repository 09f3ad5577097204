"""Other tools on the same files and the same queries, each started as its own documentation says.

They are installed from PyPI and npm into the work folder, never into this project. One that cannot be installed or
started here is reported as such, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.common import report_step
from bench.figures import Series, middle
from bench.processes import KBHUB, Server, run
from kbhub.models.embedding import PACKAGED_MODEL

if TYPE_CHECKING:
    from bench.stand import Stand

HITS = 5
"""That each is asked for."""

INSTALL_SECONDS, INDEX_SECONDS, QUERY_SECONDS = 900, 900, 120
"""Patience; whoever takes longer is reported with that."""

LEAST_PYTHON = (3, 12)
"""What basic-memory asks for."""

MDVAULT_MODEL = "minishlab/potion-base-8M"
"""What mdvault loads: a folder of that name in its working directory stands for the one on the hub."""

SQLITE = """import sqlite3, sys
if sqlite3.sqlite_version_info < (3, 41) or not hasattr(sqlite3.Connection, "enable_load_extension"):
    import pysqlite3
    sys.modules["sqlite3"] = pysqlite3
"""
"""For a Python whose own SQLite mdvault cannot use (no extensions, or older than 3.41)."""


@dataclass(frozen=True)
class Rival:
    """A tool: how it is installed, indexes a folder, and is asked."""

    name: str
    packages: tuple[str, ...]
    index: Callable[[Path], list[list[str]]]
    """Folder → commands."""
    search: Callable[[str], list[str]]
    """Query → command."""
    serve: tuple[str, ...]
    tool: str
    arguments: Callable[[str], dict[str, Any]]
    npm: bool = False
    env: Mapping[str, str] | None = None
    empty: tuple[str, ...] = ()
    """What an answer without a hit has in it."""
    note: str = ""
    like: str = "kbhub, keyword"
    """What of ours does the same work."""


RIVALS = (
    Rival(
        "mdvault",
        ("mdvault", "mcp<2", "pysqlite3-binary"),
        lambda folder: [["mdvault", "index", str(folder)]],
        lambda query: ["mdvault", "search", "--top-k", str(HITS), "--", query],
        ("mdvault", "serve"),
        "search_vault",
        lambda query: {"query": query, "top_k": HITS},
        empty=('"results": []', "No results."),
        note="hybrid (its only way); kbhub's packaged model stands for its own, which is on a hub",
        like="kbhub",
    ),
    Rival(
        "qmd",
        ("node@22", "@tobilu/qmd"),
        lambda folder: [["qmd", "collection", "add", str(folder), "--name", "bench"]],
        lambda query: ["qmd", "search", "-n", str(HITS), query],
        ("qmd", "mcp"),
        "query",
        lambda query: {"searches": [{"type": "lex", "query": query}], "limit": HITS, "rerank": False},
        npm=True,
        empty=("No results found", "Found 0 results"),
        note="BM25 alone; its models cannot be had without a hub",
    ),
    Rival(
        "basic-memory",
        ("basic-memory",),
        lambda folder: [
            ["basic-memory", "project", "add", "bench", str(folder), "--default"],
            ["basic-memory", "reindex", "--search"],
        ],
        lambda query: ["basic-memory", "tool", "search-notes", "--page-size", str(HITS), "--", query],
        ("basic-memory", "mcp"),
        "search_notes",
        lambda query: {"query": query, "page_size": HITS},
        env={"BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false"},
        empty=('"results": []', "No results", '"total": 0'),
        note="full text alone; its model cannot be had without a hub; it works on a copy, for it writes into notes",
    ),
)

OWN = {"kbhub": "hybrid", "kbhub, keyword": "keyword"}
"""Our own, as which others are asked → mode."""


def measure_rivals(
    stand: Stand, vault: str, files: int, queries: Sequence[str], *, install: bool, python: Path | None
) -> dict[str, Any]:
    """Index and ask everybody.

    Args:
        stand: where.
        vault: whose files.
        files: the first so many of them, 0 for all.
        queries: what is asked; each is asked of everybody before the next.
        install: whether to install those that are not there.
        python: interpreter for their environments; one that is new enough is looked for if none is given.
    """
    source = _chosen(stand, vault, files)
    rows: dict[str, dict[str, Any]] = _own(stand, source)
    for rival in RIVALS:
        place = stand.work / "rivals" / rival.name
        rows[rival.name] = {"note": rival.note, "like": rival.like}
        try:
            if not _installed(rival, place):
                if not install:
                    raise RuntimeError("not installed; run with --install")
                _install(rival, place, python)
            rows[rival.name] |= {"version": _version(rival, place)} | _index(rival, place, source)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            rows[rival.name]["failed"] = _reason(error)
        report_step(f"{rival.name}: {rows[rival.name].get('failed') or 'ready'}")
    working = [rival for rival in RIVALS if "failed" not in rows[rival.name]]
    _ask(stand, working, rows, queries)
    return {"vault": vault, "files": sum(1 for _ in source.rglob("*.md")), "queries": len(queries), "tools": rows}


def _chosen(stand: Stand, vault: str, files: int) -> Path:
    target = stand.work / "rivals" / f"{vault}-{files or 'all'}"
    if not target.exists():
        partial = target.with_name(f"{target.name}.partial")
        for file in sorted(stand.vaults[vault].rglob("*.md"))[: files or None]:
            copy = partial / file.relative_to(stand.vaults[vault])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        partial.rename(target)
    return target


def _own(stand: Stand, source: Path) -> dict[str, dict[str, Any]]:
    stand.add("rivals", source)
    env = stand.env("rivals")
    shutil.rmtree(env["KBHUB_CACHE_DIR"], ignore_errors=True)
    started = time.perf_counter()
    done = run([*KBHUB, "index"], env, stand.project("rivals", "rivals"))
    assert done.returncode == 0, done.stderr
    taken = time.perf_counter() - started
    return {name: {"note": "", "version": "", "index_seconds": taken, "like": name} for name in OWN}


def _env(rival: Rival, place: Path) -> dict[str, str]:
    bins = place / ("node_modules/.bin" if rival.npm else "venv/bin")
    inherited = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {
        **inherited, "HOME": str(place / "home"), "PATH": f"{bins}{os.pathsep}{os.environ['PATH']}", **(rival.env or {}),
    }  # fmt: skip


def _binary(rival: Rival, place: Path) -> Path:
    return place / ("node_modules/.bin" if rival.npm else "venv/bin") / rival.serve[0]


def _installed(rival: Rival, place: Path) -> bool:
    return _binary(rival, place).exists()


def _install(rival: Rival, place: Path, python: Path | None) -> None:
    place.mkdir(parents=True, exist_ok=True)
    # npm takes the newest version that suits the node it runs on, so the node comes first.
    commands = [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), one] for one in rival.packages]
    if not rival.npm:
        interpreter = str(python or _new_enough())
        venv = place / "venv"
        commands = [
            [interpreter, "-m", "venv", str(venv)],
            [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", *rival.packages],
        ]
    for command in commands:
        report_step(" ".join(command[:4]) + " …")
        done = subprocess.run(
            command, env={**os.environ, "PATH": _env(rival, place)["PATH"]}, cwd=place, capture_output=True, text=True,
            check=False, timeout=INSTALL_SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
    if rival.name == "mdvault":
        (site,) = (place / "venv" / "lib").glob("python*/site-packages")
        (site / "sitecustomize.py").write_text(SQLITE, "utf-8")


def _new_enough() -> Path:
    if sys.version_info >= LEAST_PYTHON:
        return Path(sys.executable)
    known = [Path(found) for name in ("python3.13", "python3.12", "python3") if (found := shutil.which(name))]
    known += sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"))
    for one in known:
        check = f"import sys; sys.exit(sys.version_info < {LEAST_PYTHON})"
        if subprocess.run([str(one), "-c", check], check=False, capture_output=True).returncode == 0:
            return one
    raise RuntimeError("no Python 3.12 or newer here; name one with --python")


def _version(rival: Rival, place: Path) -> str:
    if rival.npm:
        return json.loads((place / "node_modules" / rival.packages[-1] / "package.json").read_text("utf-8"))["version"]
    code = f"import importlib.metadata as m; print(m.version({rival.name!r}))"
    return run([str(place / "venv" / "bin" / "python"), "-c", code], _env(rival, place), place).stdout.strip()


def _index(rival: Rival, place: Path, source: Path) -> dict[str, Any]:
    """Index a copy of the files, unless that was done before."""
    done = place / f"{source.name}.json"
    if done.exists():
        return json.loads(done.read_text("utf-8"))
    shutil.rmtree(place / "home", ignore_errors=True)
    folder = place / "home" / source.name
    shutil.copytree(source, folder)
    if rival.name == "mdvault":
        model = place / "home" / MDVAULT_MODEL
        model.parent.mkdir(parents=True)
        model.symlink_to(PACKAGED_MODEL)
    started = time.perf_counter()
    for command in rival.index(folder):
        ended = run(command, _env(rival, place), place / "home", INDEX_SECONDS)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command[:2])}: {(ended.stderr or ended.stdout).strip()[-200:]}")
    found = {"index_seconds": time.perf_counter() - started}
    done.write_text(json.dumps(found), "utf-8")
    return found


def _ask(stand: Stand, rivals: Sequence[Rival], rows: dict[str, dict[str, Any]], queries: Sequence[str]) -> None:
    """Ask everybody, cold by command and warm by server, query by query."""
    cold: dict[str, Callable[[str], str]] = {}
    calls: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {}
    starts: dict[str, Callable[[], Server]] = {}
    servers: dict[str, Server] = {}
    env, project = stand.env("rivals"), stand.project("rivals", "rivals")
    for name, mode in OWN.items():
        command = [*KBHUB, "search", "--mode", mode, "--limit", str(HITS), "--"]
        cold[name] = lambda query, command=command: run([*command, query], env, project, QUERY_SECONDS).stdout
        calls[name] = ("search", lambda query, mode=mode: {"query": query, "limit": HITS, "mode": mode})
        starts[name] = lambda: Server([*KBHUB, "serve"], env, project)
    for rival in rivals:
        place = stand.work / "rivals" / rival.name
        cold[rival.name] = _command(rival, place)
        calls[rival.name] = (rival.tool, rival.arguments)
        starts[rival.name] = lambda rival=rival, place=place: Server(rival.serve, _env(rival, place), place / "home")
    series = {name: {"command": Series(), "server": Series()} for name in cold}
    size: dict[str, dict[str, list[int]]] = {name: {"command": [], "server": []} for name in cold}
    empty = dict.fromkeys(cold, 0)
    try:
        for name in list(cold):
            try:
                servers[name] = starts[name]()
                rows[name]["handshake_seconds"] = servers[name].handshake()
                _asked(servers[name], *calls[name])(queries[0])
                cold[name](queries[0])
            except (EOFError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
                rows[name]["failed"] = _reason(error)
                del cold[name]
        for number, query in enumerate(queries):
            for name in list(cold) if number % 2 == 0 else reversed(list(cold)):
                for how, call in (("command", cold[name]), ("server", _asked(servers[name], *calls[name]))):
                    series[name][how].round()
                    text = series[name][how].time(lambda call=call, query=query: call(query))
                    size[name][how].append(len(text.encode()))
                marks = next((rival.empty for rival in rivals if rival.name == name), ('"total": 0', "Nothing found"))
                empty[name] += any(mark in text for mark in marks)
        for name in cold:
            rows[name] |= {how: one.summary() for how, one in series[name].items()}
            rows[name] |= {"bytes": {how: middle(found) for how, found in size[name].items()}, "empty": empty[name]}
            rows[name]["memory"] = servers[name].memory()["rss"]
    finally:
        for server in servers.values():
            server.end()


def _asked(server: Server, tool: str, arguments: Callable[[str], dict[str, Any]]) -> Callable[[str], str]:
    def call(query: str) -> str:
        result = server.call(tool, arguments(query))
        kept = {key: result[key] for key in ("content", "structuredContent") if key in result}
        return json.dumps(kept, ensure_ascii=False)

    return call


def _command(rival: Rival, place: Path) -> Callable[[str], str]:
    return lambda query: run(rival.search(query), _env(rival, place), place / "home", QUERY_SECONDS).stdout


def _reason(error: BaseException) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"did not end within {error.timeout:.0f} s"
    return " ".join(str(error).split())[:200] or type(error).__name__
