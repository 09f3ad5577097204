"""What installing kbhub takes, as the tables in docs/explanation/decisions.md, of the environment that runs this:

    python3 -m venv build/new && build/new/bin/pip install -q -r requirements.txt
    build/new/bin/pip install -q --no-deps --no-build-isolation . && build/new/bin/python benchmarks/install.py

Sizes are those of the files that a package's RECORD lists; pip adds the compiled ones. Packages that kbhub does not need
are not counted, so the environment may have more.
"""

from __future__ import annotations

import importlib.metadata as metadata
import platform
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WHY = {
    "anyio": "the server's tasks and streams, as in the SDK",
    "apsw": "SQLite with FTS5 and extensions on every Python",
    "cyclopts": "the command line",
    "filelock": "locks that end with their process",
    "httpx": "model servers with OpenAI's protocol; ollama's errors",
    "jinja2": "pages of `kbhub ui`",
    "markdown-it-py": "documents in `kbhub ui` and in a terminal",
    "mcp": "the protocol",
    "mdit-py-plugins": "footnotes in `kbhub ui`",
    "model2vec": "models in layouts that kbhub does not read itself, or by their id",
    "nh3": "safe HTML in `kbhub ui`",
    "numpy": "ranking and vectors",
    "ollama": "models on Ollama",
    "pathspec": "patterns of ignore files",
    "platformdirs": "folders for data and caches",
    "pydantic": "checks of settings, tools and results",
    "pydantic-settings": "settings from the environment",
    "pygments": "code in `kbhub ui`",
    "pyperclip": "the clipboard",
    "pyyaml": "front matter",
    "rich": "progress and colours",
    "sqlite-vec": "distances of vectors inside SQLite",
    "starlette": "`kbhub ui`, and MCP over HTTP",
    "tokenizers": "tokens for the packaged model",
    "tomlkit": "clients' settings in TOML",
    "uvicorn": "`kbhub ui`, and MCP over HTTP",
    "watchfiles": "changed files, as they change",
}
"""Direct dependency → what kbhub uses it for."""

LARGE = 1.0
"""Size in MB from which an indirect dependency has a row."""


@cache
def size(name: str, ending: str = "") -> float:
    """Give the size in MB of a package's files, or of those with one ending."""
    package = metadata.distribution(name)
    paths = (Path(str(package.locate_file(file))) for file in package.files or [] if file.name.endswith(ending))
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


@cache
def needed(name: str, extras: frozenset[str] = frozenset()) -> tuple[tuple[str, frozenset[str]], ...]:
    """Give the packages, with their extras, that one requires on this system."""
    found = []
    for line in metadata.requires(name) or []:
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.append((canonicalize_name(one.name), frozenset(one.extras)))
    return tuple(found)


def closure(*waiting: tuple[str, frozenset[str]]) -> set[str]:
    """Give the names of some packages and of whatever they need."""
    seen, todo = set(), list(waiting)
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += needed(*one)
    return {name for name, _ in seen}


def main() -> None:
    """Print the sum and both tables."""
    direct = needed("kbhub")
    every = closure(*direct)
    alone = {one: every - closure(*(other for other in direct if other is not one)) for one in direct}
    compiled = sum(size(name, ".pyc") for name in (*every, "kbhub"))
    print(
        f"kbhub takes {size('kbhub'):.0f} MB, and the {len(every)} packages that it needs {sum(map(size, every)):.0f} MB "
        f"({platform.system()}, {platform.machine()}, Python {platform.python_version()}).\n"
        f"{compiled:.0f} MB of both are modules that pip compiled.\n"
    )
    print("| dependency | MB | saved without it, MB | used for |\n|---|---|---|---|")
    for one in sorted(direct, key=lambda each: (-sum(map(size, alone[each])), -size(each[0]))):
        others = ", ".join(sorted(alone[one] - {one[0]}, key=lambda name: (-size(name), name)))
        gone = f"{sum(map(size, alone[one])):.1f}{f' with {others}' if others else ''}" if alone[one] else "–"
        print(f"| {one[0]} | {size(one[0]):.1f} | {gone} | {WHY[one[0]]} |")
    print(f"\n| indirect dependency from {LARGE:g} MB | MB | needed by |\n|---|---|---|")
    for name in sorted(every - {one for one, _ in direct}, key=lambda name: -size(name)):
        if size(name) >= LARGE:
            print(f"| {name} | {size(name):.1f} | {', '.join(one[0] for one in direct if name in closure(one))} |")


if __name__ == "__main__":
    main()
