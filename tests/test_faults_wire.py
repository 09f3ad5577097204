"""Clients that misbehave: the server answers whoever comes next, and ends in order."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import contextmanager

import pytest

from conftest import make_environment
from test_stdio import INITIALIZE, LIST, SERVE, Wire, call

FLOOD = 200
"""Searches that a client sends before it reads an answer."""

HUGE = 5 << 20
"""Bytes of a line."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A project with one document."""
    made = make_environment(tmp_path_factory.mktemp("wire"))
    made.write("knowledge/deploy.md", "# Deploying\n\nRedeploy the tag before; a canary takes five minutes.\n")
    return made


@contextmanager
def serving(environment):
    """A server after the handshake and a first search."""
    started = Wire(environment, SERVE.format(""))
    try:
        started.handshake()
        assert finds(started)
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        started.listener.join()
        for pipe in (started.process.stdin, started.process.stdout, started.process.stderr):
            pipe.close()


@pytest.fixture(scope="module")
def wire(shop):
    """One server that has to bear all of it, and to end in order after it."""
    with serving(shop) as started:
        yield started
        code, lines = started.end()
        assert code == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)
        assert "Traceback" not in started.errors


def search(wire):
    return wire.ask(call("search", query="canary"))["result"]["content"][0]["text"]


def finds(wire):
    return "1. deploy.md:1-3" in search(wire)


def send(wire, data: bytes) -> None:
    wire.process.stdin.flush()
    wire.process.stdin.buffer.write(data)
    wire.process.stdin.buffer.flush()


def test_a_flood_of_searches_is_answered(wire):
    """Each of them, in any order, and the server is as good as before."""
    first = wire.ids + 1
    for _ in range(FLOOD):
        wire.ids += 1
        wire.send({**call("search", query=f"canary {wire.ids}"), "id": wire.ids})
    answers = {}
    while len(answers) < FLOOD:
        answer = json.loads(wire.process.stdout.readline())
        answers[answer["id"]] = answer["result"]["content"][0]["text"]

    assert set(answers) == set(range(first, first + FLOOD))
    assert all("1. deploy.md:1-3" in text for text in answers.values())
    assert finds(wire)


def test_cancelled_calls_leave_nothing_behind(wire):
    """Cancelled at once, twice, too late or never begun: the next call is answered."""
    for _ in range(50):
        wire.ids += 1
        wire.send({**call("search", query="canary"), "id": wire.ids})
        for request in (wire.ids, wire.ids, wire.ids - 1, 10_000_000, "no number"):
            wire.send({"method": "notifications/cancelled", "params": {"requestId": request, "reason": "changed mind"}})
    wire.ids += 1
    wire.send({**LIST, "id": wire.ids})
    while json.loads(wire.process.stdout.readline()).get("id") != wire.ids:
        pass

    assert finds(wire)


GARBAGE = {
    "binary": random.Random(1).randbytes(10_000),
    "no utf-8": b'{"jsonrpc": "2.0", "id": 1000, "method": "tools/list", "params": {"a": "\xff\xfe"}}',
    "a huge line": b"x" * HUGE,
    "a huge string": b'{"jsonrpc": "2.0", "method": "nothing", "params": {"a": "' + b"x" * HUGE + b'"}}',
    "deep": b"[" * 100_000,
    "deep and valid": b'{"jsonrpc": "2.0", "method": "n", "params": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    "numbers": b'{"jsonrpc": "2.0", "id": 1e400, "method": "tools/list"}',
    "a huge number": b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "tools/list"}',
    "wrong types": b'{"jsonrpc": 2, "id": {}, "method": [], "params": "x"}',
    "no method": b'{"jsonrpc": "2.0", "id": 1001}',
    "a batch": b'[{"jsonrpc": "2.0", "id": 1002, "method": "tools/list"}]',
    "an answer to nothing": b'{"jsonrpc": "2.0", "id": 1003, "result": {}}',
    "an error of nothing": b'{"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "m"}}',
    "lone surrogates": rb'{"jsonrpc": "2.0", "id": 1004, "method": "tools/call", "params": {"name": "search", '
    rb'"arguments": {"query": "\ud800 \udfff"}}}',
    "nul": b'\0\0{"jsonrpc": "2.0"}\0',
    "a second handshake": json.dumps({"jsonrpc": "2.0", "id": 1005, **INITIALIZE}).encode(),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_ends_nothing(wire, kind):
    """What is no message, or none that makes sense, is passed over or answered with an error."""
    for end in (b"\n", b"\r\n"):
        send(wire, GARBAGE[kind] + end)
    wire.ids += 1
    wire.send({**call("search", query="canary"), "id": wire.ids})
    while (answer := json.loads(wire.process.stdout.readline())).get("id") != wire.ids:
        assert answer["jsonrpc"] == "2.0"

    assert "1. deploy.md:1-3" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("rest", [b'{"jsonrpc": "2.0", "id": 7, "meth', b"x" * HUGE], ids=["short", "huge"])
def test_an_input_that_ends_within_a_message_ends_the_process(shop, rest):
    """Exit code 0 and not a word, also while a search is under way."""
    with serving(shop) as wire:
        wire.send({**call("search", query="canary"), "id": 77})
        send(wire, rest)
        code, lines = wire.end()

        assert code == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)
        assert wire.errors == ""


@pytest.mark.parametrize("fault", ["cache deleted", "index deleted", "index of noise", "index a folder", "base gone"])
def test_a_server_survives_what_happens_to_its_files(shop, wire, fault):
    """The call after may say what is wrong; once it is over or fixed, the document is found as before."""
    hub = shop.hub()
    path = hub.index(hub.select()[0]).path
    knowledge = shop.project / "knowledge"
    if fault == "cache deleted":
        shutil.rmtree(shop.env["KBHUB_CACHE_DIR"])
    elif fault == "index deleted":
        path.unlink()
    elif fault == "index of noise":
        with path.open("r+b") as file:
            file.write(random.Random(1).randbytes(path.stat().st_size))
    elif fault == "index a folder":
        path.unlink()
        path.mkdir()
    else:
        knowledge.rename(knowledge.with_name("away"))
    told = search(wire)
    assert "result" in wire.ask(call("status"))
    assert "result" in wire.ask(call("read", refs="deploy.md"))
    if fault == "base gone":
        assert "1. deploy.md" not in told
        knowledge.with_name("away").rename(knowledge)
        while not finds(wire):  # a discovery is good for a second; pytest's timeout bounds this
            pass

    assert finds(wire) or finds(wire)
