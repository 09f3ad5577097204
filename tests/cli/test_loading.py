"""A command loads no other one's module, nor what only others need: SQLite, numpy, the tokenizer, pydantic, MCP …"""

import json
import os
import shlex
import subprocess
import sys

import pytest

from test_cli import ROOT

SCRIPT = """\
import json, os, re, sys
from kbhub.__main__ import main
for lines, heavy in json.loads(sys.argv[1]):
    sys.stdout.flush()
    if not os.fork():
        if not lines:
            import kbhub.server.daemon.proxy
        codes = [main(line) for line in lines]
        print("\\n" + json.dumps([codes, [name for name in sys.modules if re.fullmatch(heavy, name)]]), flush=True)
        os._exit(0)
    os.wait()
"""
"""Runs command lines, or what a window loads, in forks of a process that has loaded nothing yet."""

ALONE = {
    ("base list --csv", "memories --csv"): (r"kbhub\.cli\.commands\.(?!bases|memories).*", '"id","path"'),
    ("", "--help", "--version", "base lst", "serch"): (
        r"apsw|numpy|pydantic|mcp|model2vec|kbhub\.cli\.commands\..*", "Search the Markdown knowledge",
    ),
    ("search crate --limit 3",): (
        r"mcp|pydantic\.main|starlette|httpx|watchfiles|pypdf|yaml|kbhub\.documents\.markdown", "crates.md",
    ),
    ("remember Releases need the VPN.",): (r"tokenizers|tomlkit|kbhub\.(hooks|setup|server)\..*", "Remembered"),
    (): (r"(mcp|pydantic|asyncio|anyio|numpy|apsw|cyclopts|rich|filelock|logging|ssl|dis)\b.*", ""),
    ("read crates.md",): (r"rich|numpy|tomlkit|kbhub\.(answers|setup)\..*", "A crate holds bottles."),
}  # fmt: skip
"""Command lines → what they do not load, and a part of what they print."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="loads as elsewhere")
def test_a_command_loads_only_what_it_needs(environment):
    environment.write("knowledge/crates.md", "# Crates\n\nA crate holds bottles.\n")
    environment.configure(search={"limit": 4}, docsFallback=False)
    environment.hub().sync()
    cases = [([shlex.split(line) for line in lines], heavy) for lines, (heavy, _) in ALONE.items()]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(cases)],
        env={**environment.env, "PYTHONPATH": str(ROOT / "src")},
        cwd=environment.project,
        capture_output=True,
        text=True,
        timeout=60,
    )

    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")]
    assert found == [[[2 if line in ("base lst", "serch") else 0 for line in lines], []] for lines in ALONE], (
        done.stderr
    )
    assert [said for _, said in ALONE.values() if said not in done.stdout] == []
