"""Clients that keep a server waiting or send it too much: it ends when they go, and serves the others meanwhile."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from array import array
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from conftest import make_environment
from daemons import CONNECT, INITIALIZE, PATIENCE, folder_of, furnish, settings, until, windows
from kbhub.server.daemon import http
from kbhub.server.daemon.http import BURST, Workspaces
from kbhub.server.daemon.process import MOST_GREETING
from kbhub.server.daemon.protocol import GREETING_SECONDS, read_record
from kbhub.server.frames import FRAME_BYTES
from kbhub.ui import loopback
from test_daemon_http import HTTP, headers_of, question

fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")

END_SECONDS = 5
"""In which a server ends that should within one: a busy machine may be five times as slow."""

FULL = 30_000
"""Bytes unread in a pipe that takes 65,536, which is as good as full for long lines."""

KNOWN = b"%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nContent-Length: %d\r\n\r\n"
"""The header of a request with the token."""

HALF_OPEN = 600
"""Connections that say nothing: more than any table here has room for."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A project served over HTTP."""
    environment = furnish(make_environment(tmp_path_factory.mktemp("limits")), "canary")
    with windows(environment) as begin:
        begin((*HTTP, "--root", str(environment.project)), cwd=environment.home)
        yield environment, until(lambda: read_record(folder_of(environment))).http, begin


def connected(url):
    made = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), PATIENCE)
    made.settimeout(PATIENCE)
    return made


def answer_of(raw):
    """Read an answer to its end; give its status and text."""
    data = b""
    with suppress(ConnectionResetError):
        while piece := raw.recv(65_536):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def unread(pipe):
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def fill(pipe, lines):
    """Write lines, as many as there is room for; a second without room is the end."""
    os.set_blocking(pipe.fileno(), False)
    left = memoryview(lines)
    while left and select.select([], [pipe], [], 1)[1]:
        left = left[os.write(pipe.fileno(), left[: select.PIPE_BUF]) :]


SERVING = ("-m", "kbhub", "serve")


@pytest.mark.parametrize(
    ("waiting", "arguments"),
    [
        *(("answers", SERVING), ("refusals", CONNECT)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("refusals", SERVING), ("answers", CONNECT))),
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

    assert time.monotonic() - began < END_SECONDS
    assert code == 0


def test_who_says_nothing_keeps_nobody_out(served):
    """Neither over HTTP nor on the wire of the windows, which the same process serves."""
    environment, url, begin = served
    beginnings = [
        b"",
        b"G",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    with ExitStack() as stack:
        for number in range(HALF_OPEN):
            with suppress(ConnectionError):
                stack.enter_context(connected(url)).sendall(beginnings[number % len(beginnings)])
        began, silent = time.monotonic(), []
        for _ in range(MOST_GREETING * 3):
            silent.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
            silent[-1].settimeout(PATIENCE)
            silent[-1].connect(read_record(folder_of(environment)).link)
        assert silent[0].recv(1) == b""
        assert time.monotonic() - began < GREETING_SECONDS
        window = begin()
        handshake = window.handshake()
        headers, asked = headers_of(environment), question()
        health = httpx2.get(url.replace("/mcp", "/health"), headers=headers, timeout=PATIENCE)
        listed = httpx2.post(url, headers=asked["headers"] | headers, json=asked["json"], timeout=PATIENCE)
        window.end()

    assert "Active bases: project" in handshake["result"]["instructions"]
    assert (health.json()["status"], health.json()["connections"]) == ("ok", 1)
    assert listed.status_code == 200


@pytest.fixture
def quick(environment, monkeypatch):
    """Give what connects to an endpoint in this process that has little patience."""
    monkeypatch.setattr(loopback, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(loopback, "DRAIN_SECONDS", 0.2)
    bound = loopback.bind_port(0)
    port = bound.getsockname()[1]
    endpoints = []

    async def serve():
        async with anyio.create_task_group() as group:
            workspaces = Workspaces(environment.hub().options, False, group)
            endpoints.append(loopback.HttpServer(http.Guarded(workspaces, "token", port, dict)))
            await endpoints[0].serve(sockets=[bound])
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    until(lambda: endpoints and endpoints[0].started)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connected(f"http://127.0.0.1:{port}"))
    endpoints[0].should_exit = True
    thread.join(PATIENCE)


def test_a_body_has_a_deadline(quick):
    raw = quick()
    raw.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nContent-Length: 9\r\n\r\n{")
    status, body = answer_of(raw)

    assert status == 408
    assert b"was not received" in body


def test_who_may_not_speak_is_answered_once(quick):
    for request, status in ((b"POST /mcp", 401), (b"GET /health", 200)):
        raw = quick()
        raw.sendall(request + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" * 2)
        data = answer_of(raw)

        assert data[0] == status
        assert b"HTTP/1.1" not in data[1]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_told_so(served, chunked):
    environment, url, _ = served
    token = headers_of(environment)["Authorization"].encode()
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (2 * FRAME_BYTES)
    with connected(url) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: "
            + token
            + b"\r\n"
            + length
            + b"\r\n\r\n"
        )
        piece = b" " * 65_536
        for _ in range(2 * FRAME_BYTES // len(piece)):
            raw.sendall(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
        raw.sendall(b"0\r\n\r\n" if chunked else b"")
        status, body = answer_of(raw)

    assert status == 413
    assert str(FRAME_BYTES) in json.loads(body)["error"]


def test_more_at_a_time_than_a_user_asks_for_is_put_off(quick, monkeypatch):
    monkeypatch.setattr(loopback, "BODY_SECONDS", PATIENCE)
    monkeypatch.setattr(http, "MOST_AT_A_TIME", 3)
    for _ in range(3):
        quick().sendall(KNOWN % (b"POST /mcp", 9) + b"{")

    def refused():
        raw = quick()
        raw.sendall(KNOWN.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) % (b"POST /mcp", 2) + b"{}")
        return (answer := answer_of(raw))[0] == 429 and answer

    _, body = until(refused)
    assert "Already answering 3 requests" in json.loads(body)["error"]
    raw = quick()
    raw.sendall(KNOWN.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) % (b"GET /health", 0))
    assert answer_of(raw)[0] == 200


def test_more_a_second_than_a_user_asks_for_is_put_off(quick):
    raw = quick()
    count = 3 * int(BURST)
    raw.sendall((KNOWN % (b"POST /mcp", 2) + b"{}") * count)
    data = b""
    while data.count(b"HTTP/1.1 ") < count:
        data += raw.recv(65_536)

    assert BURST <= data.count(b"HTTP/1.1 400") < count
    assert data.count(b"HTTP/1.1 429") == data.count(b"retry-after: 1\r\n") > 0
    assert b"requests per second. Try again" in data
