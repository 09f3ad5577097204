"""Plugins, bundle and image with the clients and validators that are published to npm.

python tests/node_packages.py --clients && pytest -m slow tests/test_stores_real_clients.py
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kbhub import __version__
from node_packages import PROGRAMS, PYTHON_BIN, node_program
from setup_machine import Account, make_account

ROOT = Path(__file__).parent.parent
PLUGINS = ROOT / "plugins"
SOURCE = str(ROOT / "src")
SECONDS = 100
"""What a client may take; two to five on an idle machine."""

pytestmark = pytest.mark.slow


@pytest.fixture
def account(environment, monkeypatch, capsys) -> Account:
    """A user who has the clients, and can start this kbhub."""
    made = make_account(environment, monkeypatch, capsys)
    made.env["PATH"] = os.pathsep.join([str(made.bin), str(PYTHON_BIN), "/usr/bin", "/bin"])
    made.env["PYTHONPATH"] = SOURCE
    launcher = made.bin / "kbhub"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kbhub "$@"\n', "utf-8")
    launcher.chmod(0o755)
    return made


def run(account, program, *arguments, typed=None):
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed: `python tests/node_packages.py --clients` gets the clients")
    if not (account.bin / program).exists():
        (account.bin / program).symlink_to((PROGRAMS / program).resolve())
    done = subprocess.run(
        [account.bin / program, *map(str, arguments)],
        env=account.env,
        cwd=account.project,
        input=typed or "",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@pytest.mark.parametrize("path", [".", "plugins/claude-code"])
def test_claude_code_finds_no_fault(account, path):
    assert "Validation passed" in run(account, "claude", "plugin", "validate", "--strict", ROOT / path)


def test_the_plugin_directory_would_take_the_plugin(account):
    said = run(account, "claude", "plugin", "validate", "--profile", "directory", PLUGINS / "claude-code")

    assert said.count("Fix:") == said.count("ICON_MISSING")


def test_claude_code_installs_the_plugin_and_starts_its_server(account):
    run(account, "claude", "plugin", "marketplace", "add", ROOT)
    run(account, "claude", "plugin", "install", "kbhub@kbhub")
    said = run(account, "claude", "plugin", "details", "kbhub@kbhub")

    assert f"kbhub {__version__}" in said
    assert "Skills (4)  ask, kbhub, remember, status" in said
    assert "Hooks (4)" in said
    assert "kbhub serve --connect - ✔ Connected" in run(account, "claude", "mcp", "list")


def test_codex_installs_the_plugin(account):
    (account.home / ".codex").mkdir()
    run(account, "codex", "plugin", "marketplace", "add", ROOT)
    run(account, "codex", "plugin", "add", "kbhub@kbhub")
    listed = run(account, "codex", "mcp", "list")
    copied = account.home / ".codex/plugins/cache/kbhub/kbhub" / __version__

    assert [line.split()[:4] for line in listed.splitlines() if line.startswith("kbhub")] == [
        ["kbhub", "kbhub", "serve", "--connect"]
    ]
    assert (copied / "hooks/hooks.json").is_file()
    assert (copied / "skills/kbhub/SKILL.md").is_file()


def test_copilot_cli_installs_the_plugin(account):
    run(account, "copilot", "plugin", "marketplace", "add", ROOT)
    said = run(account, "copilot", "plugin", "install", "kbhub@kbhub")

    assert "Installed 1 skill" in said
    assert f"kbhub@kbhub (v{__version__})" in run(account, "copilot", "plugin", "list")
    assert "kbhub (local)" in run(account, "copilot", "mcp", "list")


def test_gemini_cli_installs_the_extension_and_starts_its_server(account, tmp_path):
    assert "successfully validated" in run(account, "gemini", "extensions", "validate", PLUGINS / "gemini-cli")
    archive, opened = tmp_path / "linux.kbhub.tar.gz", tmp_path / "opened"
    with tarfile.open(archive, "w:gz") as made:
        made.add(PLUGINS / "gemini-cli", ".")
    with tarfile.open(archive) as made:
        made.extractall(opened, filter="data")
    run(account, "gemini", "extensions", "install", "--consent", opened, typed="y\n")
    listed = run(account, "gemini", "extensions", "list")

    assert f"kbhub ({__version__})" in listed
    assert "Agent skills:\n  kbhub:" in listed
    assert (account.home / ".gemini/extensions/kbhub/hooks/hooks.json").is_file()


def test_the_bundle_is_valid_and_packed(account, tmp_path):
    assert "passes" in run(account, "mcpb", "validate", PLUGINS / "bundle" / "manifest.json")
    run(account, "mcpb", "pack", PLUGINS / "bundle", tmp_path / "kbhub.mcpb")

    names = set(zipfile.ZipFile(tmp_path / "kbhub.mcpb").namelist())
    assert names == {"manifest.json", "pyproject.toml", "server.py"}


def test_the_image_has_no_fault_that_a_linter_finds(account):
    assert run(account, "dockerfile-utils", "lint", ROOT / "Dockerfile") == ""
