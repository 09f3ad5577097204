"""Plugins, bundle and image with the clients and validators that are published to npm.

python tests/node_packages.py --clients && pytest -m slow tests/test_stores_real_clients.py
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from node_packages import PROGRAMS, PYTHON_BIN, node_program
from setup_machine import Account

ROOT = Path(__file__).parent.parent
PLUGINS = ROOT / "plugins"
SECONDS = 100
"""What a client may take; two to five on an idle machine."""

pytestmark = pytest.mark.slow


@pytest.fixture
def account(account) -> Account:
    """A user who has the clients, and can start this kbhub."""
    account.env["PATH"] = os.pathsep.join([str(account.bin), str(PYTHON_BIN), "/usr/bin", "/bin"])
    account.env["PYTHONPATH"] = str(ROOT / "src")
    account.program("kbhub", f'exec "{sys.executable}" -m kbhub "$@"')
    return account


def run(account, program, *arguments):
    if node_program(program) is None:
        pytest.skip(f"{program} is not installed: `python tests/node_packages.py --clients` gets the clients")
    if not (account.bin / program).exists():
        (account.bin / program).symlink_to((PROGRAMS / program).resolve())
    done = subprocess.run(
        [account.bin / program, *arguments], env=account.env, cwd=account.project, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_claude_code_finds_no_fault_and_the_plugin_directory_would_take_the_plugin(account):
    for path in (ROOT, PLUGINS / "claude-code"):
        assert "Validation passed" in run(account, "claude", "plugin", "validate", "--strict", path)
    said = run(account, "claude", "plugin", "validate", "--profile", "directory", PLUGINS / "claude-code")
    assert said.count("Fix:") == said.count("ICON_MISSING")


def test_the_bundle_is_valid_and_packed(account, tmp_path):
    assert "passes" in run(account, "mcpb", "validate", PLUGINS / "bundle" / "manifest.json")
    run(account, "mcpb", "pack", PLUGINS / "bundle", tmp_path / "kbhub.mcpb")
    names = set(zipfile.ZipFile(tmp_path / "kbhub.mcpb").namelist())
    assert names == {"manifest.json", "pyproject.toml", "server.py"}


def test_the_image_has_no_fault_that_a_linter_finds(account):
    assert run(account, "dockerfile-utils", "lint", ROOT / "Dockerfile") == ""
