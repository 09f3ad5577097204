"""`kbhub serve` with no options, as clients start it: what `serve` does, without the libraries of the command line."""

import json
import subprocess
import sys
import threading
from dataclasses import replace

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer

import kbhub.search.pipeline
import kbhub.server.calls
import kbhub.sync.background
from daemons import INITIALIZE, SOURCE
from kbhub.errors import UsageError
from kbhub.server.server import KbhubServer
from kbhub.usage.gaps import Maintained
from kbhub.workspace.tool_names import CORE

LATE = {"cyclopts", "numpy", "tokenizers", "yaml"}
LATE |= {"kbhub.search.search", "kbhub.sync.sync", "kbhub.documents.markdown", "kbhub.server.tools"}
"""What a server that only greets has not loaded."""


def test_it_greets_and_loads_nothing_else(environment):
    environment.write("knowledge/crates.md", "# Crates\n")
    notes = environment.write("notes/a.md", "# A\n").parent
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kbhub", "serve"],
        env={**environment.env, "PYTHONPATH": SOURCE, "KBHUB_BASES": f"notes={notes}"},
        cwd=environment.project,
        input=json.dumps({"jsonrpc": "2.0", "id": 1, **INITIALIZE}) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )

    assert done.returncode == 0
    instructions = json.loads(done.stdout)["result"]["instructions"]
    assert "Active bases: project" in instructions
    assert "notes" in instructions
    assert all(line.startswith("import time:") for line in done.stderr.splitlines())
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mcp" in loaded
    assert loaded & LATE == set()


def test_it_serves_as_the_parsed_command_does(kbhub, environment, monkeypatch):
    monkeypatch.setenv("KBHUB_BASES", f"notes={environment.home}")
    served = []

    def serve(options, *, structured=False, protocol=None):
        served.append((options, structured, protocol))
        raise UsageError("over")

    monkeypatch.setattr("kbhub.server.stdio.serve", serve)
    for line in (["serve"], ["serve", "--root", ""]):
        kbhub(*line, stdin=b"", code=2)

    (plain, *ways), (parsed, *others) = served
    assert replace(parsed, root=None) == plain
    assert ways == others == [False, None]


@pytest.mark.parametrize(("variable", "value"), [("KBHUB_BASES", "no-path"), ("KBHUB_PROTOCOL", "newest")])
def test_what_is_wrong_from_the_start_is_one_line_and_the_code_for_wrong_usage(kbhub, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    done = kbhub("serve", code=2)

    assert done.out == ""
    assert done.err.startswith("kbhub: ")
    assert done.err.count("\n") == 1
    assert variable in done.err
    assert value in done.err


def test_a_tool_is_registered_when_it_is_called(environment):
    environment.write("knowledge/crates.md", "# Crates\n")
    server = KbhubServer(environment.hub())

    async def called_and_listed():
        answer = await server.call_tool("status", {}, None)
        registered = await MCPServer.list_tools(server)
        return answer, await server.list_tools(), registered

    answer, listed, registered = anyio.run(called_and_listed)
    server._calls.end()

    assert not answer.is_error
    assert tuple(tool.name for tool in listed) == CORE
    assert [tool.name for tool in registered] == ["status"]


@pytest.mark.parametrize(("tool", "given"), [("search", {"query": "crates"}), ("ask", {"question": "crates?"})])
def test_the_log_is_looked_through_when_the_answer_is_made(environment, monkeypatch, tool, given):
    environment.write("knowledge/crates.md", "# Crates\n\nThe harbour has crates of herring.\n")
    environment.env["KBHUB_TOOLS"] = "all"
    environment.hub().sync()
    monkeypatch.setattr(kbhub.sync.background, "REST_SECONDS", 0.0)
    answer, looked, early = kbhub.search.pipeline.ranked, threading.Event(), []

    def searched(*arguments, **options):
        background = server._opened().background
        with background._changed:
            early.append(background._untidy)
        return answer(*arguments, **options)

    monkeypatch.setattr(kbhub.search.pipeline, "ranked", searched)
    monkeypatch.setattr(kbhub.server.calls, "maintain", lambda *_, **__: looked.set() or Maintained(ran=True))
    server = KbhubServer(environment.hub())

    async def asked():
        async with Client(server) as client:
            assert not looked.is_set()
            await client.call_tool(tool, given)
            return await anyio.to_thread.run_sync(looked.wait, 30)

    assert anyio.run(asked)
    assert early
    assert not any(early)


LATE_MODULES = """
import json, sys
import anyio
from pathlib import Path
from mcp import Client
import kbhub.sync.background
from kbhub.api import Hub
from kbhub.hub import HubOptions
from kbhub.server.server import KbhubServer
from kbhub.sync.freshness import freshen

kbhub.sync.background.REST_SECONDS = 3600  # what is done when nobody calls is none of it

async def main():
    hub = Hub(HubOptions(cwd=Path.cwd()))
    server = KbhubServer(hub)
    async with Client(server) as client:
        server._begin()
        freshen(hub, max_age=0)
        before = set(sys.modules)
        await client.call_tool("search", {"query": "which crates does the harbour hav"})
        print(json.dumps([sorted(before), sorted(set(sys.modules) - before)]))

anyio.run(main)
"""


def test_a_first_search_finds_every_library_loaded_but_numpy(environment):
    environment.write("knowledge/crates.md", "# Crates\n\nThe harbour has crates of herring.\n")
    environment.hub().sync()
    done = subprocess.run(
        [sys.executable, "-c", LATE_MODULES],
        cwd=environment.project,
        env={**environment.env, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, during = json.loads(done.stdout)

    assert {"apsw", "kbhub.search.search", "kbhub.server.tools.search", "kbhub.server.tools.documents"} <= set(before)
    assert {name.partition(".")[0] for name in during} - sys.stdlib_module_names == {"kbhub", "numpy"}
