"""The server as a process on real pipes: the wire, both openings, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock
from mcp import Client, StdioServerParameters

from kbhub.errors import UsageError
from kbhub.server.stdio import serve
from kbhub.workspace.tool_names import CORE

SOURCE = str(Path(__file__).parents[2] / "src")
# A busy machine makes answers late here, never poorer.
SERVE = """
import kbhub.server.calls
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve
kbhub.server.calls.FIRST_ANSWER_SECONDS = kbhub.server.calls.FRESHEN_SECONDS = 60
serve(HubOptions(serve=True){})
"""
END_SECONDS = 60
"""After which a process that does not end by itself is a failure; generous, for a busy machine."""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
PROBE = {"method": "server/discover", "params": {"_meta": META}}
LIST = {"method": "tools/list"}


def call(name, modern=False, **arguments):
    meta = {"_meta": META} if modern else {}
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments, **meta}}


class Wire:
    """A server process, spoken to line by line."""

    def __init__(self, environment, code):
        env = {**environment.env, "PYTHONPATH": SOURCE, "PYTHONWARNINGS": "error::ResourceWarning"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=environment.project,
            env=env,
            text=True,
            encoding="utf-8",
        )
        self.ids = 0
        self.errors = ""
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self):
        self.errors = self.process.stderr.read()

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, message):
        self.ids += 1
        self.send({**message, "id": self.ids})
        while "id" not in (answer := json.loads(self.process.stdout.readline())):
            pass
        assert answer["id"] == self.ids
        return answer

    def handshake(self):
        answer = self.ask(INITIALIZE)
        self.send({"method": "notifications/initialized"})
        return answer

    def end(self):
        """Close the server's input; give its exit code and the lines it still wrote."""
        self.process.stdin.close()
        return self.ended()

    def ended(self):
        code = self.process.wait(END_SECONDS)
        self.listener.join(END_SECONDS)
        return code, self.process.stdout.read().splitlines()


@pytest.fixture
def start(environment):
    """Start a server for a project with one document."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before; a canary takes five minutes.\n")
    started = []

    def begin(extra="", code=SERVE):
        started.append(Wire(environment, code.format(extra)))
        return started[-1]

    yield begin
    for wire in started:
        wire.process.kill()
        wire.process.wait()
        wire.listener.join()
        for pipe in (wire.process.stdin, wire.process.stdout, wire.process.stderr):
            pipe.close()


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_of_either_era_searches_and_reads(environment, mode, version, tmp_path):
    """The SDK's own client over real pipes, from the handshake to a document."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before.\n")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", SERVE.format("")],
        env={**environment.env, "PYTHONPATH": SOURCE},
        cwd=environment.project,
    )
    async with Client(server, mode=mode, read_timeout_seconds=END_SECONDS) as client:
        assert client.protocol_version == version
        assert "Active bases: project" in client.instructions
        assert [tool.name for tool in (await client.list_tools()).tools] == list(CORE)
        found = await client.call_tool("search", {"query": "tag"})
        read = await client.call_tool("read", {"refs": "deploy.md"})

    assert "1. deploy.md:1-3" in found.content[0].text
    assert "Redeploy the tag before." in read.content[0].text


def test_a_client_that_probes_and_then_shakes_hands_is_served(start):
    """The probe is answered and decides nothing, also when it comes twice."""
    wire = start()

    assert wire.ask(PROBE)["result"]["supportedVersions"] == ["2026-07-28"]
    assert wire.ask(PROBE)["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert wire.handshake()["result"]["protocolVersion"] == "2025-06-18"
    assert "1. deploy.md" in wire.ask(call("search", query="canary"))["result"]["content"][0]["text"]
    assert wire.end() == (0, [])


def test_a_client_that_probes_and_goes_on_without_handshake_is_served(start):
    """The same opening leads into the other era."""
    wire = start()

    wire.ask(PROBE)
    assert len(wire.ask({**LIST, "params": {"_meta": META}})["result"]["tools"]) == len(CORE)
    assert "1. deploy.md" in wire.ask(call("search", modern=True, query="canary"))["result"]["content"][0]["text"]
    assert wire.end() == (0, [])


def test_the_protocol_can_be_pinned_to_the_handshake(start):
    """A pinned server refuses the probe in the way that makes clients fall back."""
    wire = start(", protocol='legacy'")

    assert wire.ask(PROBE)["error"]["code"] == -32601
    assert wire.handshake()["result"]["protocolVersion"] == "2025-06-18"
    assert len(wire.ask(LIST)["result"]["tools"]) == len(CORE)


def test_an_unknown_protocol_is_refused_before_anything_is_served(environment):
    """A wrong setting is a sentence and not a server that no client understands."""
    with pytest.raises(UsageError, match="must be `auto` or `legacy`"):
        serve(environment.hub().options, protocol="modern")


def test_the_handshake_announces_list_changes(start):
    """Clients of the handshake era listen only if they are told to."""
    capabilities = start().handshake()["result"]["capabilities"]

    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["resources"]["listChanged"] is True


def test_structured_mode_publishes_schemas(start):
    """The switch reaches the tools."""
    wire = start(", structured=True")
    wire.handshake()

    assert all("outputSchema" in tool for tool in wire.ask(LIST)["result"]["tools"])
    assert wire.ask(call("search", query="canary"))["result"]["structuredContent"]["hits"][0]["ref"] == "deploy.md"


def test_the_handshake_does_not_wait_for_an_index(environment, start):
    """While another process indexes, the client is answered from the handshake to the documents."""
    hub = environment.hub()
    path = hub.index(hub.select()[0]).path
    path.parent.mkdir(parents=True)
    with FileLock(f"{path}.lock"):
        wire = start()
        assert "result" in wire.handshake()
        assert len(wire.ask(LIST)["result"]["tools"]) == len(CORE)
        assert "canary takes" in wire.ask(call("read", refs="deploy.md"))["result"]["content"][0]["text"]


def test_nothing_but_protocol_reaches_standard_output(start):
    """Prints before and while serving, of Python and of children, land on standard error."""
    noise = """
import os, subprocess, sys, threading
print("noise before")
def make_noise():
    while (os.fstat(1).st_dev, os.fstat(1).st_ino) != (os.fstat(2).st_dev, os.fstat(2).st_ino):
        pass
    for _ in range(20):
        print("noise while serving", flush=True)
        os.write(1, b"raw noise" + bytes([10]))
        subprocess.run([sys.executable, "-S", "-c", "print(input() if False else 'noise of a child')"])
    print("noise in a buffer")
threading.Thread(target=make_noise, daemon=True).start()
"""
    wire = start(code=noise + SERVE)
    wire.handshake()
    for _ in range(20):
        wire.ask(LIST)
        wire.ask(call("status"))
    code, rest = wire.end()

    assert code == 0
    assert rest == []
    for part in ("noise before", "noise while serving", "raw noise", "noise of a child"):
        assert part in wire.errors


@pytest.mark.parametrize("opening", ["nothing", "handshake", "call"])
def test_the_end_of_input_ends_the_process(start, opening):
    """Exit code 0, by itself, whatever was going on, the calls answered, and not a word on standard error."""
    wire = start()
    if opening != "nothing":
        wire.handshake()
    if opening == "call":
        wire.send({**call("search", query="canary"), "id": 77})

    code, lines = wire.end()

    assert code == 0
    assert [json.loads(line)["id"] for line in lines if "id" in json.loads(line)] == [77] * (opening == "call")
    assert wire.errors == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to end a process in order")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_process(environment, start, number, busy):
    """Exit code 0, by itself, though the client's end of the pipe stays open and indexing goes on."""
    if busy:
        for document in range(400):
            environment.write(f"knowledge/n{document}.md", f"# Note {document}\n\nDeploy {document}.\n" * 20)
    wire = start()
    wire.handshake()
    if busy:
        wire.ask(LIST)

    wire.process.send_signal(number)
    code, _ = wire.ended()

    assert code == 0
    assert wire.errors == ""
    assert sum(report.added + report.unchanged for report in environment.hub().sync()) == 1 + 400 * busy


def test_lines_that_are_no_messages_are_refused(start):
    """Each with an error to nobody's id, and the connection goes on."""
    wire = start()
    wire.handshake()
    wire.process.stdin.write("garbage\n\n[]\n{\n\x00\n")
    wire.process.stdin.flush()
    refusals = [json.loads(wire.process.stdout.readline()) for _ in range(4)]

    assert [(one["id"], one["error"]["code"]) for one in refusals] == [
        (None, -32700), (None, -32600), (None, -32700), (None, -32700),
    ]  # fmt: skip
    assert len(wire.ask(LIST)["result"]["tools"]) == len(CORE)


def test_a_wrong_configuration_does_not_keep_the_server_from_starting(environment, start):
    """The client connects and every tool tells what to fix."""
    config = environment.write(environment.home / ".kbhub.json", "{")
    wire = start()

    assert "Fix the configuration first" in wire.handshake()["result"]["instructions"]
    assert wire.ask(call("status"))["result"]["isError"] is True
    config.unlink()
    assert wire.end()[0] == 0


def test_the_handshake_loads_nothing_that_only_calls_need():
    """Before the first call, a server has neither searched, indexed nor embedded anything, and has loaded for none."""
    code = (
        "import sys, kbhub.server.stdio\n"
        "late = {'numpy', 'model2vec', 'tokenizers', 'yaml', 'cyclopts', 'kbhub.search.search',"
        " 'kbhub.sync.sync', 'kbhub.documents.markdown', 'kbhub.server.tools'} & set(sys.modules)\n"
        "print(*sorted(late)); sys.exit(len(late))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout.strip()) == (0, "")


def test_what_is_loaded_ahead_does_without_numpy(environment):
    """A server that has told its tools and looked at its files, and is asked for nothing, stays small."""
    environment.write("knowledge/a.md", "# A\n")
    environment.hub().sync()
    code = (
        "import os, sys, kbhub.server.stdio\n"
        "from pathlib import Path\n"
        "from kbhub.hub import Hub, HubOptions\n"
        "from kbhub.sync.freshness import freshen\n"
        "from kbhub.server.server import create_server\n"
        "hub = Hub(HubOptions(env=dict(os.environ), home=Path.home(), cwd=Path.cwd()))\n"
        "create_server(hub)._begin()\n"
        "behind = freshen(hub, max_age=0)\n"
        "late = {'numpy', 'tokenizers'} & set(sys.modules)\n"
        "early = {'apsw', 'kbhub.server.tools.search', 'kbhub.server.tools.read'}"
        " - set(sys.modules)\n"
        "print(*behind, *late, *early)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment.env | {"PYTHONPATH": SOURCE},
        cwd=environment.project,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
