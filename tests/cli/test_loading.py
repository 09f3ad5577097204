"""A command loads no other one's module, nor what only others need."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from test_cli import ROOT


def loaded(environment, line, which):
    """Run a command line in a process of its own: its exit code, the modules that `which` chooses, and its output."""
    script = (
        "import json, sys; from kbhub.__main__ import main\n"
        f"code = main({shlex.split(line)!r})\n"
        f"print(); print(json.dumps([code, sorted(name for name in sys.modules if {which})]))\n"
    )
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=environment.project, capture_output=True, text=True, timeout=60
    )
    assert done.stdout, done.stderr
    code, names = json.loads(done.stdout.splitlines()[-1])
    return code, names, done


def test_a_search_does_not_load_what_only_others_need(environment):
    """Neither the protocol nor PDF nor watching nor a parser; what it says of a mistake is one line."""
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.write(f"{environment.home}/.kbhub.json", '{"search": {"limit": 4}, "docsFallback": false}')
    environment.hub().sync()

    parsers = "'pypdf', 'yaml', 'kbhub.documents.markdown'"
    others = f"name in ('mcp', 'pydantic.main', 'starlette', 'httpx', 'watchfiles', {parsers})"
    code, names, done = loaded(environment, "search crate --limit 3", others)
    assert (code, names) == (0, []), done.stderr
    assert "crates.md" in done.stdout

    code, _, done = loaded(environment, "search", "False")
    assert code == 2
    assert "kbhub: No query given." in done.stderr


@pytest.mark.parametrize(
    ("line", "module"),
    [("bases list", "bases"), ("memories export", "memories")],
)
def test_a_command_loads_its_own_module_and_no_other(environment, line, module):
    """The import paths of the registry are followed when a command is parsed, not before."""
    _, names, done = loaded(environment, line, "name.startswith('kbhub.cli.commands.')")

    assert names == [f"kbhub.cli.commands.{module}"], done.stderr
