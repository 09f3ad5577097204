"""`kbhub serve` with no options, as clients start it: what it loads, and answers while a first index is being made."""

import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import anyio
import pytest
from filelock import FileLock
from mcp import Client
from mcp.server import MCPServer

import kbhub.search.pipeline
import kbhub.server.calls
import kbhub.sync.background
import kbhub.sync.freshness
import kbhub.sync.sync
import kbhub.sync.unindexed
from conftest import ran
from daemons import INITIALIZE, PATIENCE, SOURCE
from kbhub.errors import UsageError
from kbhub.server.server import KbhubServer
from kbhub.types import Query
from kbhub.usage.gaps import Maintained
from kbhub.workspace.tool_names import CORE

LATE = {"cyclopts", "numpy", "tokenizers", "yaml"}
LATE |= {"kbhub.search.search", "kbhub.sync.sync", "kbhub.documents.markdown", "kbhub.server.tools"}
"""What a server that only greets has not loaded."""


def test_it_greets_and_loads_nothing_else(environment):
    environment.write("knowledge/crates.md", "# Crates\n")
    notes = environment.write("notes/a.md", "# A\n").parent
    env = {**environment.env, "PYTHONPATH": SOURCE, "KBHUB_BASES": f"notes={notes}"}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, **INITIALIZE}) + "\n"
    line = ["-X", "importtime", "-m", "kbhub", "serve"]
    done = ran(sys.executable, *line, env=env, cwd=environment.project, input=asked)

    assert done.code == 0
    instructions = done.json["result"]["instructions"]
    assert "Active bases: project" in instructions
    assert "notes" in instructions
    assert all(line.startswith("import time:") for line in done.err.splitlines())
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
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
    env = {**environment.env, "PYTHONPATH": SOURCE}
    before, during = ran(sys.executable, "-c", LATE_MODULES, cwd=environment.project, env=env).json
    assert {"apsw", "kbhub.search.search", "kbhub.server.tools.search", "kbhub.server.tools.documents"} <= set(before)
    assert {name.partition(".")[0] for name in during} - sys.stdlib_module_names == {"kbhub", "numpy"}


FILES = 300
CLAIMS = ("No hits", "No document contains", "nothing in these bases")


@pytest.fixture
def cold(environment):
    """A project without an index; only the last of its files has the answer."""
    for number in range(FILES):
        environment.write(f"knowledge/n{number:04}.md", f"# Note {number}\n\nThe deploy of service {number}.\n")
    environment.write(
        f"knowledge/n{FILES - 1:04}.md", "# Tuning\n\nThe Xylophone takes five minutes to tune; a canary listens.\n"
    )
    return environment


def lock_of(hub):
    """Return the path of the lock of a project's index."""
    path = hub.index(hub.select(["project"])[0]).path
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"{path}.lock"


@contextmanager
def indexing(environment, go_on):
    """Let another process, which this one is to a server, make the first index, batch after batch as `go_on` says."""
    begun = threading.Event()

    def next_batch(_base, done, todo):
        begun.set()
        assert done == todo or go_on.wait(PATIENCE)

    thread = threading.Thread(target=environment.hub().sync, kwargs={"progress": next_batch})
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield
    finally:
        go_on.set()
        thread.join()


@pytest.mark.anyio
@pytest.mark.usefixtures("patient")
async def test_a_search_waits_for_the_first_index_that_another_process_makes(cold, mode, monkeypatch):
    """It reports how far that process is, and then answers from all files."""
    monkeypatch.setattr(kbhub.server.calls, "PROGRESS_SECONDS", 0.005)
    monkeypatch.setattr(kbhub.sync.sync, "BATCH_FILES", 20)
    go_on, heard = threading.Event(), []

    async def progress(done, total, _message):
        heard.append((done, total))
        go_on.set()

    with indexing(cold, go_on):
        async with Client(KbhubServer(cold.hub()), mode=mode) as client:
            found = await client.call_tool("search", {"query": "tune the xylophone"}, progress_callback=progress)

    text = found.content[0].text
    assert f"1. n{FILES - 1:04}.md" in text
    assert "being indexed" not in text
    assert 0 < heard[0][0] < FILES
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert {total for _, total in heard} == {FILES}


@pytest.mark.anyio
async def test_a_first_index_that_gets_no_nearer_is_replaced_by_a_scan(cold, mode, monkeypatch):
    """The answer is found in the files themselves, and what is not found is said to be absent by no verb."""
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    cold.env["KBHUB_TOOLS"] = "all"
    hub = cold.hub()
    with FileLock(lock_of(hub)):
        async with Client(KbhubServer(hub), mode=mode) as client:

            async def told(tool, **arguments):
                return (await client.call_tool(tool, arguments)).content[0].text

            found = await told("search", query="Do canaries tune xylophones?")
            searched = await told("search", query="glockenspiel")
            asked = await told("ask", question="glockenspiel")
            tagged = await told("tags", names="glockenspiel")
            assert "not indexed yet" in await told("status")
            assert "takes five minutes" in await told("read", refs=f"n{FILES - 1:04}.md")

    assert f"1. n{FILES - 1:04}.md" in found
    assert "takes five minutes" in found
    assert f"project is still being indexed (0 of {FILES} files). The others were only scanned" in found
    assert "which found 1 of these hits." in found
    for text in (found, searched, asked, tagged):
        assert not [claim for claim in CLAIMS if claim in text]
        assert "still being indexed" in text
    assert searched.startswith("Nothing found yet")
    assert asked.startswith("Nothing found yet")


def test_the_command_line_waits_for_another_process_too(cold, kbhub, monkeypatch):
    monkeypatch.setattr("kbhub.sync.freshness.STALLED_SECONDS", 0.1)
    with FileLock(lock_of(cold.hub())):
        found = kbhub("search", "tune the xylophone", "--json", code=0).json
        absent = kbhub("search", "glockenspiel", code=0)
        asked = kbhub("ask", "glockenspiel")
    assert (found["hits"][0]["path"], found["verdict"], found["unmatched"]) == (f"n{FILES - 1:04}.md", None, [])
    assert "Nothing found yet. Searched: project." in absent.err
    assert f"project is still being indexed (0 of {FILES} files)" in absent.err
    assert "Nothing found yet" in asked.out
    assert not [claim for claim in CLAIMS if claim in absent.err + asked.out + asked.err]


def test_what_is_indexed_and_what_is_not_yet_are_ranked_together(cold):
    hub, found = cold.hub(), {}

    def look(_base, done, _todo):
        found.setdefault(done, hub.search(Query(text="service 3 xylophone", limit=100, granularity="chunk")))

    hub.sync(progress=look)
    partial = found[min(found)]
    refs = [hit.ref for hit in partial.hits]
    assert {"n0003.md", f"n{FILES - 1:04}.md"} <= set(refs)
    assert len(refs) == len(set(refs))
    assert partial.searched == ("project",)
    assert partial.verdict is None


def test_a_scan_keeps_to_its_limits_and_says_how_far_it_came(cold, monkeypatch):
    cold.write("knowledge/xylophone.pdf", b"%PDF-1.4 xylophone")
    monkeypatch.setattr(kbhub.sync.unindexed, "SCAN_BYTES", 10_000)
    hub = cold.hub()
    with FileLock(lock_of(hub)):
        hub.freshen()
        first, filtered, none = (
            hub.search(text) for text in ("service 3", "service 3 path:elsewhere/", "xylophone -deploy")
        )

    (note,) = first.notes
    assert first.hits[0].ref == "n0003.md"
    assert 0 < int(note.split("files). ")[1].split()[0]) < FILES
    assert "of the others were only scanned" in note
    assert filtered.hits == none.hits == ()
    assert not any("No document" in text for text in filtered.notes)
