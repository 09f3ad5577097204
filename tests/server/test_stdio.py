"""The server as a process on real pipes: the wire, its openings, and how it ends."""

import signal
import sys

import pytest

from daemons import META, call, text_of, windows
from kbhub.workspace.tool_names import CORE

# A busy machine makes answers late here, never poorer.
PATIENT = """
import kbhub.server.calls
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve
kbhub.server.calls.FIRST_ANSWER_SECONDS = kbhub.server.calls.FRESHEN_SECONDS = 60
serve(HubOptions(serve=True))
"""
SERVE = ("-c", PATIENT)
PROBE = {"method": "server/discover", "params": {"_meta": META}}
LIST = {"method": "tools/list"}


@pytest.fixture
def start(environment):
    """Start a server for a project with one document."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before; a canary takes five minutes.\n")
    with windows(environment) as begin:
        yield lambda arguments=SERVE, **more: begin(arguments, PYTHONWARNINGS="error::ResourceWarning", **more)


def test_a_client_that_probes_and_then_shakes_hands_is_served(start):
    """The probe is answered and decides nothing, also when it comes twice."""
    window = start()

    assert window.ask(PROBE)["result"]["supportedVersions"] == ["2026-07-28"]
    assert window.ask(PROBE)["result"]["capabilities"]["tools"] == {"listChanged": True}
    told = window.handshake()["result"]
    assert told["protocolVersion"] == "2025-11-25"
    assert (told["capabilities"]["tools"], told["capabilities"]["resources"]["listChanged"]) == (
        {"listChanged": True},
        True,
    )
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    window.send({**call("search", query="canary"), "id": 77})
    assert window.end() == 0  # by itself, the calls answered, and not a word on standard error
    assert [message["id"] for message in window.rest() if "id" in message] == [77]
    assert window.errors == b""


def test_the_protocol_can_be_pinned_to_the_handshake(start):
    """A pinned server refuses the probe in the way that makes clients fall back."""
    window = start(("-m", "kbhub", "serve", "--structured"), KBHUB_PROTOCOL="legacy")

    assert window.ask(PROBE)["error"]["code"] == -32601
    assert "result" in window.handshake()
    tools = window.ask(LIST)["result"]["tools"]
    assert len(tools) == len(CORE)
    assert all("outputSchema" in tool for tool in tools)


def test_nothing_but_protocol_reaches_standard_output(start):
    """Prints before and while serving, of Python and of children, land on standard error."""
    noise = """
import os, subprocess, sys, threading
print("noise before")
def make_noise():
    while (os.fstat(1).st_dev, os.fstat(1).st_ino) != (os.fstat(2).st_dev, os.fstat(2).st_ino):
        pass
    for _ in range(5):
        print("noise while serving", flush=True)
        os.write(1, b"raw noise" + bytes([10]))
        subprocess.run([sys.executable, "-S", "-c", "print(input() if False else 'noise of a child')"])
    print("noise in a buffer")
threading.Thread(target=make_noise, daemon=True).start()
"""
    window = start(("-c", noise + PATIENT))
    window.handshake()
    while b"noise of a child" not in window.errors:  # pytest's timeout bounds this
        window.ask(call("status"))

    assert (window.end(), window.rest()) == (0, [])
    for part in (b"noise before", b"noise while serving", b"raw noise"):
        assert part in window.errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to end a process in order")
@pytest.mark.parametrize(("number", "documents"), [(signal.SIGTERM, 400), (signal.SIGINT, 0)])
def test_a_signal_ends_the_process(environment, start, number, documents):
    """Exit code 0, by itself, though the client's end of the pipe stays open and indexing goes on."""
    for document in range(documents):
        environment.write(f"knowledge/n{document}.md", f"# Note {document}\n\nDeploy {document}.\n" * 20)
    window = start()
    window.handshake()
    window.ask(LIST)

    window.process.send_signal(number)

    assert window.ended() == 0
    assert window.errors == b""
    assert sum(report.added + report.unchanged for report in environment.hub().sync()) == 1 + documents
