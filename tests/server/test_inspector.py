"""The server as the MCP Inspector sees it: another implementation of the protocol, over stdio, strict about schemas."""

import os
import shutil
import sys

import pytest

from conftest import ran
from daemons import SOURCE
from kbhub.workspace.tool_names import ALL
from node_packages import node_path, node_program

OWN = os.environ.get("MCP_INSPECTOR") or shutil.which("mcp-inspector")
INSPECTOR = [OWN] if OWN else node_program("mcp-inspector")
CONNECT_MS = "60000"
"""What a server may take to start and answer; its own limit of 15 s is missed on a machine with ten other loads."""


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),  # some runs of the Inspector each, and a busy machine takes five times as long
    pytest.mark.skipif(not INSPECTOR, reason="no MCP Inspector: `python tests/node_packages.py` gets it"),
]


def test_every_tool_is_portable(environment, tmp_path):
    environment.write("knowledge/deploy.md", "# Deploying\n\nA canary first.\n")
    environment.configure(tools="all")
    environment.hub().sync()
    wrapper = tmp_path / "serve.py"
    # The Inspector gives a server its own working directory and few variables.
    wrapper.write_text(
        f"import os, sys\nos.chdir({str(environment.project)!r})\nos.environ.update({environment.env!r})\n"
        f"sys.path.insert(0, {SOURCE!r})\nsys.argv = ['kbhub', 'serve']\nfrom kbhub.__main__ import main\nmain()\n"
    )
    command = [*INSPECTOR, "--cli", sys.executable, str(wrapper), "-q", "--connect-timeout", CONNECT_MS]
    env = {"MCP_CATALOG_PATH": str(tmp_path / "catalog.json"), "HOME": str(environment.home)}
    path = os.environ["PATH"] if OWN else node_path()
    done = ran(*command, "--method", "tools/list", "--strict", env={**os.environ, **env, "PATH": path})

    assert (done.code, done.err.strip()) == (0, "")
    assert [tool["name"] for tool in done.json["tools"]] == list(ALL)
