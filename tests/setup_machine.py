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

SETUP = Path(__file__).parent / "setup"

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
PLACES = {
    "claude-code": ".claude.json", "cursor": ".cursor/mcp.json", "codex": ".codex/config.toml",
    "zed": ".config/zed/settings.json", "goose": ".config/goose/config.yaml",
    "opencode": ".config/opencode/opencode.json", "amp": ".config/amp/settings.json",
    "gemini-cli": ".gemini/settings.json", "continue": ".continue/mcpServers/kbhub.json",
}  # fmt: skip
"""Where each client keeps its servers on Linux."""


def sample(folder: str, name: str) -> str:
    """Give the file of a client in a folder of samples, to the byte."""
    return (SETUP / folder / name).with_suffix(Path(PLACES[name]).suffix).read_bytes().decode()


FILES = {name: (path, sample("theirs", name)) for name, path in PLACES.items()}
FILES["vscode"] = (".config/Code/User/mcp.json", VSCODE)
"""Where each client keeps its servers, and what its user has there."""

UPDATED = {name: sample("older", name) for name in ("cursor", "codex", "goose")}
"""Files with a registration from an older installation, to which its user added this and that."""

CLAUDE, CURSOR, CODEX, ZED, OPENCODE = (
    FILES[name][1] for name in ("claude-code", "cursor", "codex", "zed", "opencode")
)


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
