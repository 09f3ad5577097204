"""`kbhub setup` with the command lines that clients publish to npm, in a home directory of their own.

python tests/node_packages.py --clients && pytest -m slow tests/setup/test_setup_real_clients.py
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from kbhub.setup.clients import client_named
from kbhub.workspace.jsonc import parse_jsonc
from node_packages import PROGRAMS, PYTHON_BIN, node_program
from setup_machine import CODEX, OPENCODE, Account, make_account

SOURCE = str(Path(__file__).parents[2] / "src")
SECONDS = 100
"""What a client may take to list its servers; two to five on an idle machine."""
LISTED = {
    "claude": ("Connected", ["mcp", "list"]),
    "codex": ("kbhub", ["mcp", "list"]),
    "gemini": ("kbhub", ["mcp", "list"]),
    "opencode": ("connected", ["mcp", "list"]),
    "copilot": ("kbhub", ["mcp", "list"]),
    "amp": ("kbhub", ["mcp", "list"]),
    "qwen": (" - Connected", ["mcp", "list"]),
    "kilo": ("connected", ["mcp", "list"]),
    "droid": (" connected ", ["mcp", "list"]),
}
CLIENTS = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini-cli",
    "opencode": "opencode",
    "copilot": "copilot-cli",
    "amp": "amp",
    "qwen": "qwen-code",
    "kilo": "kilo-code",
    "droid": "factory",
}
SERVERS = {
    "claude": (".claude.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
    "copilot": (".copilot/mcp-config.json", "mcpServers"),
    "amp": (".config/amp/settings.json", "amp.mcpServers"),
    "qwen": (".qwen/settings.json", "mcpServers"),
    "kilo": (".config/kilo/kilo.jsonc", "mcp"),
    "droid": (".factory/mcp.json", "mcpServers"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not any(map(node_program, CLIENTS)), reason="no clients: `python tests/node_packages.py --clients` gets them"
    ),
]


@pytest.fixture
def account(environment, monkeypatch, capsys) -> Account:
    """A user who has the clients, and can start this kbhub."""
    made = make_account(environment, monkeypatch, capsys)
    made.env["PATH"] = os.pathsep.join([str(made.bin), str(PYTHON_BIN), "/usr/bin", "/bin"])
    made.env["PYTHONPATH"] = SOURCE
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


def install(account, program):
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed")
    (account.bin / program).symlink_to((PROGRAMS / program).resolve())
    # A client may have one package per system, which npm leaves out silently if it cannot be had.
    version = [account.bin / program, "--version"]
    if subprocess.run(version, env=account.env, capture_output=True, timeout=SECONDS, check=False).returncode:
        pytest.skip(f"{program} does not start")


def servers(account, program):
    path, key = SERVERS[program]
    if not (account.home / path).exists():
        return {}
    text = (account.home / path).read_text("utf-8")
    data = tomllib.loads(text) if path.endswith(".toml") else parse_jsonc(text, path)
    return data.get(key, {})


@pytest.mark.parametrize("program", LISTED)
def test_a_real_client_takes_the_registration_and_lists_it(account, program):
    install(account, program)
    if program == "codex":
        account.file(".codex/config.toml", CODEX)
    if program == "opencode":
        account.file(".config/opencode/opencode.json", OPENCODE)
    client = CLIENTS[program]

    code, out, _ = account.run("--yes", "--json", "--client", client)
    (step,) = json.loads(out)["steps"]
    named = client_named(client)
    assert (code, step["state"]) == (0, "done")
    assert step["notes"] == [note for note in (named.hint, named.caveat) if note]
    assert "kbhub" in servers(account, program)
    wanted, arguments = LISTED[program]
    listed = subprocess.run(
        [account.bin / program, *arguments],
        env=account.env,
        cwd=account.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert wanted in listed.stdout + listed.stderr
    assert account.run("--client", client)[1].split()[0] == "unchanged"
    code, out, _ = account.run("--yes", "--json", "--client", client, "--remove")
    assert (code, json.loads(out)["steps"][0]["notes"]) == (0, [])
    assert "kbhub" not in servers(account, program)
    assert program != "codex" or "# the big one" in (account.home / ".codex/config.toml").read_text()
