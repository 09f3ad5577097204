"""The server as a process on real pipes: the wire, its openings, and how it ends."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from array import array

import pytest

from daemons import CONNECT, INITIALIZE, META, PATIENCE, call, furnish, settings, text_of, until, windows

# A busy machine makes answers late here, never poorer.
PATIENT = """
import kbhub.server.calls
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve
kbhub.server.calls.FIRST_ANSWER_SECONDS = kbhub.server.calls.FRESHEN_SECONDS = 60
serve(HubOptions(serve=True))
"""
SERVE, PLAIN = ("-c", PATIENT), ("-m", "kbhub", "serve")
PROBE = {"method": "server/discover", "params": {"_meta": META}}
LIST = {"method": "tools/list"}
EXIT_SECONDS = 4.0
"""Less than a watcher that is not told takes; measured are 0.07 s, promised is one second."""

FULL = 30_000
"""Bytes unread in a pipe that takes 65,536, which is as good as full for long lines."""


@pytest.fixture
def start(environment):
    """Start a server for a project with one document."""
    environment.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before; a canary takes five minutes.\n")
    with windows(environment) as begin:
        yield lambda arguments=SERVE, **more: begin(arguments, PYTHONWARNINGS="error::ResourceWarning", **more)


NOISE = """
import os, subprocess, sys, threading
print("noise before")
def make_noise():
    while (os.fstat(1).st_dev, os.fstat(1).st_ino) != (os.fstat(2).st_dev, os.fstat(2).st_ino):
        pass
    print("noise while serving", flush=True)
    os.write(1, b"raw noise" + bytes([10]))
    subprocess.run([sys.executable, "-S", "-c", "print(input() if False else 'noise of a child')"])
    print("noise in a buffer")
threading.Thread(target=make_noise, daemon=True).start()
"""


def test_a_client_that_probes_and_then_shakes_hands_is_served_and_hears_nothing_but_protocol(start):
    """The probe is answered and decides nothing, also when it comes twice.

    Prints before and while serving, of Python and of children, land on standard error.
    """
    window = start(("-c", NOISE + PATIENT))

    assert window.ask(PROBE)["result"]["supportedVersions"] == ["2026-07-28"]
    assert window.ask(PROBE)["result"]["capabilities"]["tools"] == {"listChanged": True}
    told = window.handshake()["result"]
    assert told["protocolVersion"] == "2025-11-25"
    assert [told["capabilities"][name]["listChanged"] for name in ("tools", "resources")] == [True, True]
    assert "1. deploy.md" in text_of(window.ask(call("search", query="canary")))
    until(lambda: "watched live" in text_of(window.ask(call("status"))))
    until(lambda: b"noise of a child" in window.errors)
    window.send({**call("search", query="canary"), "id": 77})
    began = time.monotonic()
    assert window.end() == 0  # by itself, the calls answered, and no word of ours on standard error
    assert time.monotonic() - began < EXIT_SECONDS
    assert [message["id"] for message in window.rest() if "id" in message] == [77]
    heard = {b"noise before", b"noise while serving", b"raw noise", b"noise of a child"}
    assert set(window.errors.splitlines()) - {b"noise in a buffer"} == heard


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to end a process in order")
@pytest.mark.parametrize(
    ("number", "documents"), [(signal.SIGTERM, 400), pytest.param(signal.SIGINT, 0, marks=pytest.mark.slow)]
)
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


def unread(pipe):
    import fcntl
    import termios

    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def fill(pipe, lines):
    """Write lines, as many as there is room for; a second without room is the end."""
    os.set_blocking(pipe.fileno(), False)
    left = memoryview(lines)
    while left and select.select([], [pipe], [], 1)[1]:
        left = left[os.write(pipe.fileno(), left[: select.PIPE_BUF]) :]


@pytest.mark.skipif(sys.platform == "win32", reason="written for pipes of POSIX")
@pytest.mark.parametrize(
    ("waiting", "arguments"),
    [
        *(("answers", PLAIN), ("refusals", CONNECT)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("refusals", PLAIN), ("answers", CONNECT))),
    ],
)
def test_a_client_that_goes_without_reading_ends_the_process(environment, arguments, waiting):
    """Though the pipe to the client is full, and the one from it may be, too."""
    furnish(environment, "canary")
    kinds = {"answers": b'{"jsonrpc": "2.0", "id": %d, "method": "tools/list"}\n', "refusals": b"garbage %d\n"}
    lines = b"".join(kinds[waiting] % number for number in range(1, 100 if waiting == "answers" else 50_000))
    with windows(environment):
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=environment.project, env=settings(environment), bufsize=0,
        )  # fmt: skip
        with process:
            handshake = [{"id": 0, **INITIALIZE}, {"method": "notifications/initialized"}]
            for message in handshake:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            assert b"protocolVersion" in process.stdout.readline()
            fill(process.stdin, lines)
            until(lambda: unread(process.stdout) > FULL)
            began = time.monotonic()
            process.stdin.close()
            code = process.wait(PATIENCE)

    assert time.monotonic() - began < EXIT_SECONDS
    assert code == 0
