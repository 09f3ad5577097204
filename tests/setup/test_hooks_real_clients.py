"""Hooks with the command lines that clients publish to npm, against a server that speaks their models' protocols.

python tests/node_packages.py --clients && pytest -m slow tests/setup/test_hooks_real_clients.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import windows
from kbhub.hooks.inbox import waiting
from kbhub.memory.changes import remember
from model_apis import ModelServer
from node_packages import PROGRAMS, PYTHON_BIN, node_program
from setup_machine import Account, make_account

SOURCE = str(Path(__file__).parents[2] / "src")
SECONDS = 120
"""What a client may take for two turns of a conversation; five to ten on an idle machine."""

PROMPT = (
    "On which day are refunds booked in the ledger?\n"
    "From now on, run make check before every commit in this repository."
)
CODEX = """\
model = "gpt-5"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{address}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
"""
GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}}}

CLIENTS = {
    "claude": ("claude-code", lambda file: ("Read", {"file_path": file}), ["-p", PROMPT]),
    "codex": (
        "codex",
        lambda file: ("exec_command", {"cmd": f"cat {file}"}),
        ["exec", "--dangerously-bypass-hook-trust", "--sandbox", "read-only", PROMPT],
    ),
    "gemini": ("gemini-cli", lambda file: ("read_file", {"file_path": file}), ["-m", "gemini-2.5-pro", "-p", PROMPT]),
    "copilot": ("copilot-cli", lambda file: ("view", {"path": file}), ["-p", PROMPT, "--allow-all-tools"]),
}
"""Program → our name of the client, the tool that its model calls, its arguments."""

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


def variables(address):
    """Variables that lead the clients to another server, and nowhere else."""
    return {
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "FAKE_KEY": "x",
        "GEMINI_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": address,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
        "COPILOT_PROVIDER_API_KEY": "x",
        "COPILOT_MODEL": "gpt-5",
        "COPILOT_OFFLINE": "true",
    }


@pytest.mark.parametrize("program", CLIENTS)
def test_a_real_client_runs_the_hooks_and_tells_its_model(shop, account, environment, program):
    """Start, prompt, tool: what kbhub says is in what the model is sent; the end fills the inbox."""
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed")
    (account.bin / program).symlink_to((PROGRAMS / program).resolve())
    client, called, arguments = CLIENTS[program]
    remember(shop, "charge() must not round: cents are integers.", about=["src/pay.py"])
    remember(shop, "The shop is closed on Sundays.", tags=["standing"])
    with (
        windows(environment) as begin,
        ModelServer(called(str(environment.project / "src/pay.py"))).serving() as server,
    ):
        begin().handshake()
        if program == "codex":
            account.file(".codex/config.toml", CODEX.format(address=server.address))
        if program == "gemini":
            account.file(".gemini/settings.json", json.dumps(GEMINI))
        assert account.run("--yes", "--hooks", "--client", client)[0] == 0
        done = subprocess.run(
            [account.bin / program, *arguments],
            env=account.env | variables(server.address),
            cwd=environment.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    said = "\n".join(server.requests)
    assert "Done." in done.stdout, done.stdout + done.stderr
    assert "kbhub can search these notes" in said
    assert "closed on Sundays" in said
    assert "the bank confirms them" in said
    assert "cents are integers" in said
    assert "cents are integers" not in server.requests[0]
    if program != "copilot":  # it does not say where its log is
        assert [one.text for one in waiting(shop)] == [
            "From now on, run make check before every commit in this repository."
        ]


ROOT = Path(__file__).parents[2]
INSTALLED = {
    "claude": [["plugin", "marketplace", "add", str(ROOT)], ["plugin", "install", "kbhub@kbhub"]],
    "codex": [["plugin", "marketplace", "add", str(ROOT)], ["plugin", "add", "kbhub@kbhub"]],
    "copilot": [["plugin", "marketplace", "add", str(ROOT)], ["plugin", "install", "kbhub@kbhub"]],
    "gemini": [["extensions", "install", "--consent", str(ROOT / "plugins" / "gemini-cli")]],
}
"""Program → arguments that install kbhub's plugin."""


@pytest.mark.parametrize("program", INSTALLED)
def test_a_real_client_runs_the_hooks_of_the_plugin(shop, account, environment, program):
    """Nothing was set up but the plugin, and the model is told what the notes say about the prompt."""
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed")
    (account.bin / program).symlink_to((PROGRAMS / program).resolve())
    launcher = account.bin / "kbhub"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kbhub "$@"\n', "utf-8")
    launcher.chmod(0o755)
    _, called, arguments = CLIENTS[program]

    def run(*line, env):
        return subprocess.run(
            [account.bin / program, *line],
            env=account.env | env,
            cwd=environment.project,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    with (
        windows(environment) as begin,
        ModelServer(called(str(environment.project / "src/pay.py"))).serving() as server,
    ):
        begin().handshake()
        if program == "codex":
            account.file(".codex/config.toml", CODEX.format(address=server.address))
        if program == "gemini":
            account.file(".gemini/settings.json", json.dumps(GEMINI))
        for line in INSTALLED[program]:
            installed = run(*line, env={})
            assert installed.returncode == 0, installed.stdout + installed.stderr
        done = run(*arguments, env=variables(server.address))

    assert "Done." in done.stdout, done.stdout + done.stderr
    assert "the bank confirms them" in "\n".join(server.requests)
