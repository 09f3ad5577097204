"""A command loads no other one's module, nor what only others need."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

from test_cli import ROOT


def loaded(environment, lines, which):
    """Run command lines in a process of its own: the modules that `which` chooses after each, and its output."""
    script = (
        "import json, sys; from kbhub.__main__ import main\n"
        f"for line in {[shlex.split(line) for line in lines]!r}:\n"
        f"    assert main(line) == 0; print(); print(json.dumps(sorted(name for name in sys.modules if {which})))\n"
    )
    env = {**environment.env, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=environment.project, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")], done.stdout


def test_a_search_does_not_load_what_only_others_need(environment):
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.configure(search={"limit": 4}, docsFallback=False)
    environment.hub().sync()

    parsers = "'pypdf', 'yaml', 'kbhub.documents.markdown'"
    others = f"name in ('mcp', 'pydantic.main', 'starlette', 'httpx', 'watchfiles', {parsers})"
    names, out = loaded(environment, ["search crate --limit 3"], others)
    assert names == [[]]
    assert "crates.md" in out


def test_a_command_loads_its_own_module_and_no_other(environment):
    names, _ = loaded(environment, ["base list --csv", "memories --csv"], "name.startswith('kbhub.cli.commands.')")
    assert names == [["kbhub.cli.commands.bases"], ["kbhub.cli.commands.bases", "kbhub.cli.commands.memories"]]


def test_remembering_loads_neither_the_tokenizer_nor_what_hooks_need(environment):
    """They take 0.2 s and 40 MB."""
    others = "name in ('tokenizers', 'tomlkit') or name.startswith(('kbhub.hooks.', 'kbhub.setup.', 'kbhub.server.'))"
    names, out = loaded(environment, ["remember Releases need the VPN."], others)
    assert names == [[]]
    assert "Remembered" in out


def test_reading_loads_neither_rich_nor_what_answers_and_setup_need(environment):
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    others = "name in ('rich', 'numpy', 'tomlkit') or name.startswith(('kbhub.answers.', 'kbhub.setup.'))"
    names, out = loaded(environment, ["read crates.md"], others)
    assert names == [[]]
    assert "A crate holds bottles." in out
