"""A user's account with clients on it, for the tests of `kbhub setup`."""

import io
import os
import sys
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import pytest

from kbhub.__main__ import main
from kbhub.setup.clients import Machine
from kbhub.setup.plan import launch, this_installation

CLAUDE = """\
{
    "numStartups": 7,
    "projects": {"/work/a": {"history": ["x"], "mcpServers": {}}},
    "mcpServers": {"x": {"type": "http", "url": "https://x.test"}}
}"""
CURSOR = """\
// mine
{"mcpServers": {
\t"files": {"command": "npx", "args": ["-y", "files"]}, // keep
}}
"""
CODEX = """\
# Codex
model = "gpt-5"   # the big one

[mcp_servers.docs]
command = "docs-mcp"
args = [
  "--fast",  # really
]

[mcp_servers.docs.env]
KEY = 'secret'

# after it
[tui]
theme = "dark"
"""
VSCODE = (
    "\ufeff"
    + """\
{
\t"inputs": [],
\t"servers": {
\t\t"gh": {
\t\t\t"type": "http",
\t\t\t"url": "https://x.test"
\t\t}
\t}
}
""".replace("\n", "\r\n")
)
ZED = """\
// Zed settings
{
  "theme": "One Dark",
  // servers
  "context_servers": {},
  "vim_mode": true,
}
"""
GOOSE = """\
GOOSE_MODEL: gpt-5   # model
extensions:
  # first
  developer:
    enabled: true
    type: builtin
    name: developer

  memory:
    enabled: false
    type: builtin
    name: memory
# the end
GOOSE_MODE: auto
"""
OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  /* servers */
  "mcp": {
    "x": { "type": "local", "command": ["x"], "enabled": false }
  }
}
"""
FILES = {
    "claude-code": (".claude.json", CLAUDE),
    "cursor": (".cursor/mcp.json", CURSOR),
    "codex": (".codex/config.toml", CODEX),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
    "zed": (".config/zed/settings.json", ZED),
    "goose": (".config/goose/config.yaml", GOOSE),
    "opencode": (".config/opencode/opencode.json", OPENCODE),
    "amp": (".config/amp/settings.json", '{\n  "amp.notifications.enabled": true\n}\n'),
    "gemini-cli": (".gemini/settings.json", '{"security":{"auth":{"selectedType":"oauth"}},"mcpServers":{}}'),
    "continue": (".continue/mcpServers/kbhub.json", '{"mcpServers": {}}'),
}
"""Where each client keeps its servers on Linux, and what its user has there."""

UPDATED = {
    "cursor": """\
{"mcpServers": {"kbhub": {
  "command": "/opt/old/kbhub", "args": ["serve", "--base", "n=~/n"], /* k */ "env": {"A": "b"}
}}}
""",
    "codex": """\
[mcp_servers.kbhub]
command = "/opt/old/kbhub" # old
args = [
  "serve", "--base", "n=~/n",
]
startup_timeout_sec = 30

[mcp_servers.kbhub.env]
A = "b"

# end
""",
    "goose": """\
extensions:
  kbhub:
    cmd: /opt/old/kbhub
    args: [serve, --base, n=~/n]
    envs: {A: b}
    enabled: true
  x:
    enabled: true
""",
}
"""Files with a registration from an older installation, to which its user added this and that."""


@dataclass
class Account:
    """A home directory, a search path of its own, and a project."""

    home: Path
    bin: Path
    project: Path
    env: dict[str, str]
    capture: object
    typed: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)

    def file(self, path: str, content: str | bytes = b"") -> Path:
        """Write a file below the home directory and remember what it held."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        target.write_bytes(data)
        self.files[path] = data
        return target

    def program(self, name: str, script: str = "") -> Path:
        target = self.bin / name
        target.write_text(f"#!/bin/sh\n{script}\n")
        target.chmod(0o755)
        return target

    def wanted(self) -> list[str]:
        """What a client is to start."""
        machine = Machine(self.home, self.env, "linux")
        return [*launch(this_installation(), machine).argv, "serve", "--connect"]

    def run(self, *arguments: str, typed: str | None = None):
        """Run `kbhub setup`, with a person at a terminal who types something, or without one."""
        before = sys.stdin
        sys.stdin = Terminal(typed) if typed is not None else io.StringIO("")
        try:
            code = main(["setup", *arguments])
        finally:
            sys.stdin = before
        out, err = self.capture.readouterr()
        return code, out, err

    def untouched(self) -> bool:
        return all((self.home / path).read_bytes() == content for path, content in self.files.items())


class Terminal(io.StringIO):
    """Standard input with a person at it."""

    def isatty(self) -> bool:
        return True


def in_common(one: bytes, other: bytes) -> int:
    """Give the number of bytes that two files begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def make_account(environment, monkeypatch, capsys) -> Account:
    """A user without any client, in a project; nothing of the machine that runs the tests is seen."""
    folder = environment.home.parent / "bin"
    folder.mkdir()
    env = {**environment.env, "PATH": str(folder), "COLUMNS": "80", "NO_COLOR": "1"}
    for name in list(os.environ):
        if name.startswith(
            ("KBHUB_", "XDG_", "CLAUDE", "CODEX", "COPILOT", "QWEN", "CRUSH", "CONTINUE", "UV_", "PIPX_")
        ):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(environment.project)
    return Account(environment.home, folder, environment.project, env, capsys)


@pytest.fixture
def account(environment, monkeypatch, capsys) -> Account:
    """A user without any client, in a project."""
    return make_account(environment, monkeypatch, capsys)


def without_blanks(value):
    """Give parsed data without blank objects, which may stay after `--remove`."""
    if not isinstance(value, dict):
        return value
    inner = {key: without_blanks(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if item not in ({}, [], None)}
