"""The HTTP endpoint: the SDK's client of both eras, everybody who is turned away, and who keeps it waiting."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ListRootsResult, Root

from conftest import make_environment, make_repository
from daemons import INITIALIZE, META, PATIENCE, endpoint, folder_of, furnish, pid_of, settings, until, windows
from fuzzed_frames import REFUSALS, REFUSED, Fuzz
from kbhub.cli.app import run
from kbhub.errors import UsageError
from kbhub.server.daemon import http, loopback
from kbhub.server.daemon.http import BURST, PER_SECOND, Rate, workspace_of
from kbhub.server.daemon.launch import stop
from kbhub.server.daemon.process import MOST_GREETING, make_token
from kbhub.server.daemon.protocol import GREETING_SECONDS, read_record, read_token
from kbhub.server.frames import FRAME_BYTES
from kbhub.workspace.tool_names import CORE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals")

HTTP = ("-m", "kbhub", "serve", "--http", "--port", "0")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A project served over HTTP, and another one of the same user."""
    environment = furnish(make_environment(tmp_path_factory.mktemp("http")), "canary")
    other = environment.project.parent / "bank"
    (other / "knowledge").mkdir(parents=True)
    (other / "knowledge" / "fly.md").write_text("# Flying\n\nThe albatross flies at dawn.\n")
    make_repository(other)
    with windows(environment) as begin:
        server = begin((*HTTP, "--root", str(environment.project)), cwd=environment.home)
        record = until(lambda: read_record(folder_of(environment)))
        yield environment, other, record.http, begin, server


def headers_of(environment, **more):
    return {"Authorization": f"Bearer {read_token(folder_of(environment))}", **more}


def question(method="tools/list", **params):
    return {
        "headers": {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({"Mcp-Name": params["name"]} if "name" in params else {}),
        },
        "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}},
    }


def ask(url, headers, method="tools/list", **params):
    asked = question(method, **params)
    return httpx2.post(url, headers={**asked["headers"], **headers}, json=asked["json"], timeout=PATIENCE)


async def searched(url, headers, query):
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return (await client.call_tool("search", {"query": query})).content[0].text


@pytest.mark.anyio
@pytest.mark.parametrize(("era", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_client_of_either_era_is_served(served, era, version):
    """For the workspace that the server was started for, whatever roots the client has; it hears of changes."""
    environment, other, url, *_ = served

    async def roots(_context):
        return ListRootsResult(roots=[Root(uri=other.as_uri())])

    async with (
        httpx2.AsyncClient(headers=headers_of(environment), timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, list_roots_callback=roots) as client,
    ):
        can = client.server_capabilities
        assert client.protocol_version == version
        assert "1. deploy.md" in (await client.call_tool("search", {"query": "canary"})).content[0].text
        assert (can.tools.list_changed, can.resources.list_changed, can.resources.subscribe) == (True, True, True)


@pytest.mark.anyio
async def test_a_request_sees_the_workspace_that_it_names_and_no_other(served):
    environment, other, url, *_ = served
    here, there = headers_of(environment), headers_of(environment, **{"Kbhub-Root": str(other)})

    async def until_found(headers, query):
        with anyio.fail_after(PATIENCE):
            while "1. " not in (text := await searched(url, headers, query)):
                await anyio.sleep(0.1)  # a first index is being made
        return text

    assert "fly.md" in await until_found(there, "albatross")
    assert "deploy.md" in await until_found(here, "canary")
    assert "albatross flies" not in await searched(url, here, "albatross")
    assert "canary takes" not in await searched(url, there, "canary")


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_every_client_of_the_handshake_is_told_of_a_change(served):
    environment, _, url, *_ = served
    uri = "kbhub://project/told.md"
    environment.write("knowledge/told.md", "# Told\n\nThe finch sings.\n")
    heard = [anyio.Event(), anyio.Event()]

    async with AsyncExitStack() as stack:
        for event in heard:

            async def listen(message, event=event):
                if getattr(message, "method", None) == "notifications/resources/updated":
                    event.set()

            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers=headers_of(environment), timeout=PATIENCE)
            )
            transport = streamable_http_client(url, http_client=http)
            client = await stack.enter_async_context(Client(transport, mode="legacy", message_handler=listen))
            await client.subscribe_resource(uri)
        environment.write("knowledge/told.md", "# Told\n\nThe finch sings louder.\n")
        with anyio.fail_after(PATIENCE):
            for event in heard:
                await event.wait()


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"Authorization": "Bearer wrong"}, 401, "token is missing or wrong"),
        ({"Authorization": ""}, 401, "token is missing or wrong"),
        ({"Authorization": "Basic {token}"}, 401, "token is missing or wrong"),
        ({"Host": "evil.example"}, 421, "only answers to"),
        ({"Host": "localhost.evil.example"}, 421, "only answers to"),
        ({"Origin": "http://evil.example"}, 403, "web pages"),
        ({"Origin": "http://localhost:1"}, 403, "web pages"),
        ({"Origin": "null"}, 403, "web pages"),
        ({"Kbhub-Root": "relative"}, 400, "absolute path"),
        ({"Kbhub-Root": "/nowhere/at/all"}, 400, "absolute path"),
        ({"Kbhub-Root": "/%00"}, 400, "absolute path"),
        ({"Content-Type": "text/plain"}, 400, "Content-Type"),
    ],
)
def test_who_must_not_speak_is_refused(served, changed, status, said):
    environment, _, url, *_ = served
    token = read_token(folder_of(environment))
    answer = ask(url, headers_of(environment) | {name: value.format(token=token) for name, value in changed.items()})
    assert answer.status_code == status
    assert said in answer.text
    assert ask(url, headers_of(environment)).status_code == 200


def test_health_says_more_to_who_knows_the_token_and_a_second_server_is_refused(served, monkeypatch, capsys):
    environment, _, url, *_ = served
    health = url.replace("/mcp", "/health")
    assert httpx2.get(health).json() == {"status": "ok"}
    assert httpx2.get(health, headers={"Host": "evil.example"}).status_code == 421
    told = httpx2.get(health, headers=headers_of(environment)).json()
    assert told["version"]
    assert told["uptime"] > 0
    assert told["connections"] == 0
    assert told["pid"] == pid_of(environment)
    monkeypatch.setattr(os, "environ", environment.env)
    assert run(["serve", *HTTP[3:]]) == 1
    assert f"process {pid_of(environment)}, {url}" in capsys.readouterr().err


def test_a_socket_in_the_background_takes_a_quiet_daemons_place(environment, tmp_path):
    furnish(environment, "canary")
    path = tmp_path / "s"
    command = [sys.executable, "-m", "kbhub", "serve", "--http", "--daemon", "--socket", str(path)]
    with windows(environment) as begin:
        window = begin(inside=True)
        window.handshake()
        old = pid_of(environment)

        started = subprocess.run(
            command, env=settings(environment), cwd=environment.project, check=True, capture_output=True
        )

        assert str(path).encode() in started.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
            asked = question()
            answer = client.post("http://localhost/mcp", headers=asked["headers"], json=asked["json"], timeout=PATIENCE)
            foreign = client.get("http://localhost/health", headers={"Origin": "http://localhost"})
        assert answer.status_code == 200
        assert foreign.status_code == 403
        assert len(window.ask({"method": "tools/list"})["result"]["tools"]) == len(CORE)
        assert pid_of(environment) != old
        assert stop(folder_of(environment)).how == "asked"
        assert not path.exists()


@pytest.mark.anyio
async def test_an_end_with_requests_open_is_said_in_a_line(environment):
    with windows(environment) as begin:
        server = begin(HTTP)
        record = until(lambda: read_record(folder_of(environment)))
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers={**headers_of(environment), **question()["headers"]}, timeout=PATIENCE)
            )
            asked = question("subscriptions/listen", notifications={"toolsListChanged": True})
            opened = await stack.enter_async_context(http.stream("POST", record.http, **asked))
            assert opened.status_code == 200
            server.process.send_signal(signal.SIGTERM)
            assert await anyio.to_thread.run_sync(server.process.wait, PATIENCE) == 0

    served, ending = server.errors.decode().splitlines()
    assert served.startswith("kbhub: Serving MCP at ")
    assert ending.endswith("Ending (signal).")


def test_a_taken_port_is_named_a_workspace_is_an_ascii_path_and_too_many_requests_are_put_off(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Cannot use port {port}"):
            loopback.bind_port(port)

    place = tmp_path / "ü b"
    place.mkdir()

    assert workspace_of(str(tmp_path / "%C3%BC%20b")) == Path(os.path.realpath(place))
    assert workspace_of(None) is None
    with pytest.raises(UsageError):
        workspace_of("~")

    now = [0.0]
    rate = Rate(clock=lambda: now[0])

    assert [rate.take() for _ in range(int(BURST) + 1)].count(True) == BURST
    now[0] = 1.0
    assert [rate.take() for _ in range(int(BURST))].count(True) == PER_SECOND


def test_a_token_that_others_could_read_is_made_anew(environment):
    folder = folder_of(environment)
    folder.make()
    first = make_token(folder)

    assert make_token(folder) == first == read_token(folder)
    folder.token.chmod(0o644)
    assert read_token(folder) is None
    assert (second := make_token(folder)) != first
    assert stat.S_IMODE(folder.token.stat().st_mode) == 0o600
    real = folder.path / "elsewhere"
    folder.token.rename(real)
    folder.token.symlink_to(real)
    assert read_token(folder) is None
    assert make_token(folder) != second


# Clients that keep the endpoint waiting or send it too much


KNOWN = b"%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nContent-Length: %d\r\n\r\n"
"""The header of a request with the token."""

HALF_OPEN = 600
"""Connections that say nothing: more than any table here has room for."""


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


def test_who_says_nothing_keeps_nobody_out(served):
    """Neither over HTTP nor on the wire of the windows, which the same process serves."""
    environment, _, url, begin, _ = served
    beginnings = [
        b"", b"G", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]  # fmt: skip
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
        window = begin(inside=True)
        handshake = window.handshake()
        headers, asked = headers_of(environment), question()
        health = httpx2.get(url.replace("/mcp", "/health"), headers=headers, timeout=PATIENCE)
        listed = httpx2.post(url, headers=asked["headers"] | headers, json=asked["json"], timeout=PATIENCE)
        window.end()

    assert "Active bases: project" in handshake["result"]["instructions"]
    assert (health.json()["status"], health.json()["connections"]) == ("ok", 1)
    assert listed.status_code == 200


@pytest.mark.parametrize(("seed", "count"), [(1, 20), pytest.param(2, 200, marks=pytest.mark.slow)])
def test_every_frame_is_answered_over_http(served, seed, count):
    environment, _, url, _, server = served
    fuzz = Fuzz(seed, modern=False)
    headers = headers_of(environment, Accept="application/json, text/event-stream")
    with httpx2.Client(headers={**headers, "Content-Type": "application/json"}, timeout=PATIENCE) as client:
        opened = client.post(url, json={"jsonrpc": "2.0", "id": 0, **INITIALIZE})
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
        for one in (fuzz.frame() for _ in range(count)):
            answer = client.post(url, headers=session, content=one.data)
            assert answer.status_code < 500, (one, answer.text)
            if one.owed == REFUSED:
                assert (answer.status_code, answer.json()["id"]) == (400, one.id), one
                assert answer.json()["error"]["code"] in REFUSALS, one
    assert ask(url, headers_of(environment)).status_code == 200
    assert b"Traceback" not in server.errors


@pytest.fixture
def quick(environment, monkeypatch):
    """Give what connects to an endpoint in this process that has little patience."""
    monkeypatch.setattr(loopback, "BODY_SECONDS", 0.2)
    monkeypatch.setattr(loopback, "DRAIN_SECONDS", 0.2)
    with endpoint(environment, "token") as port, ExitStack() as stack:
        yield lambda: stack.enter_context(connected(f"http://127.0.0.1:{port}"))


def test_a_body_has_a_deadline_and_who_may_not_speak_is_answered_once(quick):
    raw = quick()
    raw.sendall(KNOWN % (b"POST /mcp", 9) + b"{")
    status, body = answer_of(raw)
    assert status == 408
    assert b"was not received" in body
    for request, status in ((b"POST /mcp", 401), (b"GET /health", 200)):
        raw = quick()
        raw.sendall(request + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" * 2)
        data = answer_of(raw)
        assert data[0] == status
        assert b"HTTP/1.1" not in data[1]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_told_so(quick, monkeypatch, chunked):
    monkeypatch.setattr(loopback, "DRAIN_SECONDS", PATIENCE)
    raw, piece = quick(), b" " * 65_536
    head = KNOWN.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) % (b"POST /mcp", 2 * FRAME_BYTES)
    raw.sendall(re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head) if chunked else head)
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
