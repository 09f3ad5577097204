"""The shape of the code, as tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "kbhub"
FILES = sorted(PACKAGE.rglob("*.py"))

LINES_PER_FILE = 450
LINES_PER_FUNCTION = 60


def module(path: Path) -> str:
    return ".".join(("kbhub", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module(path) for path in FILES}


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports when it runs (not for types only)."""
    found: set[str] = set()
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kbhub"):
            found |= {
                whole if (whole := f"{node.module}.{name.name}") in MODULES else node.module for name in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("kbhub")}
    return found


GRAPH = {module(path): imports(path) for path in FILES}


@pytest.mark.parametrize("leaf", ["kbhub.values", "kbhub.errors"])
def test_nouns_and_errors_import_nothing_of_ours(leaf):
    """What everything imports imports nothing."""
    assert set() == GRAPH[leaf]
    assert GRAPH["kbhub.types"] == {"kbhub.values"}


def test_there_are_no_import_cycles():
    """Modules can be read one after the other."""
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join((*above, name))
        if name not in done:
            for target in GRAPH.get(name, ()):
                visit(target, (*above, name))
            done.add(name)

    for name in GRAPH:
        visit(name, ())


def test_sql_is_only_in_the_index():
    """Whoever looks for a query of the database looks in one package."""
    statement = re.compile(r"\b(SELECT .+ FROM|INSERT INTO|DELETE FROM|CREATE TABLE|UPDATE \w+ SET|PRAGMA )")
    elsewhere = [path for path in FILES if path.parent.name != "index" and statement.search(path.read_text("utf-8"))]

    assert elsewhere == []


@pytest.mark.parametrize("core", ["search", "retrieval", "ranking", "query", "index.reader", "hub", "sync"])
def test_the_core_knows_no_edge(core):
    """Search and index work without the server and the command line."""
    assert not {name for name in GRAPH[f"kbhub.{core}"] if re.search(r"server|stdio|cli|render", name)}


PROTOCOL = {"announcing", "prompts", "resources.serving", "roots", "server", "stdio", "wire"} | {
    f"daemon.{name}" for name in ("connections", "http", "process", "workspaces")
}
"""Modules that speak MCP, besides the tools."""

LATE = {"doctor.handshake"}
"""Modules that import the SDK only when they speak to a server."""

UNSPOKEN = {"tools.choosing", "tools.given", "tools.names"}
"""Modules of the tools that the configuration and others import, too."""


def test_only_the_server_imports_the_protocol():
    """The command line does not pay for the SDK's half second."""
    spoken = re.compile(r"^\s*(from|import) mcp\b", re.MULTILINE)
    users = {module(path).removeprefix("kbhub.") for path in FILES if spoken.search(path.read_text("utf-8"))}

    assert {name for name in users if not name.startswith("tools.")} <= PROTOCOL | LATE
    assert not users & UNSPOKEN


def test_nothing_but_the_server_imports_what_speaks_the_protocol():
    """Nor does it pay by way of a tool."""
    speaking = {f"kbhub.{name}" for name in PROTOCOL} | {name for name in GRAPH if name.startswith("kbhub.tools.")}
    speaking -= {f"kbhub.{name}" for name in UNSPOKEN}
    importers = {name for name, used in GRAPH.items() if used & speaking}

    assert importers <= speaking


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_and_functions_stay_small(path):
    """A file fits in a sitting, a function on a screen."""
    text = path.read_text("utf-8")
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {node.name: (node.end_lineno or 0) - node.lineno for node in functions}

    assert text.count("\n") <= LINES_PER_FILE
    assert {name: lines for name, lines in long.items() if lines > LINES_PER_FUNCTION} == {}


def test_nothing_swallows_what_nobody_foresaw():
    """A broad `except` passes the error on, unless its line says why it does not."""
    broad = []
    for path in FILES:
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            names = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else {"all"}
            reason = "BLE001" in text.splitlines()[node.lineno - 1]
            if (
                names & {"all", "Exception", "BaseException"}
                and not isinstance(node.body[-1], ast.Raise)
                and not reason
            ):
                broad.append(f"{path.name}:{node.lineno}")

    assert broad == []
