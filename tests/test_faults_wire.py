"""Clients that misbehave: the server answers whoever comes next, and ends in order."""

import pytest

from conftest import make_environment
from daemons import call, text_of, windows
from test_stdio import LIST, SERVE

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


@pytest.fixture(scope="module")
def window(shop):
    """One server that has to bear all of it, and to end in order after it, in a search and within a huge message."""
    with windows(shop) as begin:
        started = begin(SERVE)
        started.handshake()
        assert finds(started)
        yield started
        started.begin(call("search", query="canary"))
        started.process.stdin.write(b'{"jsonrpc": "2.0", "id": 7, "meth' + b"x" * HUGE)
        assert started.end() == 0
        assert all(message["jsonrpc"] == "2.0" for message in started.rest())
        assert started.errors == b""


def finds(window):
    return "1. deploy.md:1-3" in text_of(window.ask(call("search", query="canary")))


def test_a_flood_of_searches_is_answered_and_cancelled_calls_leave_nothing_behind(window):
    """Cancelled at once, twice, too late or never begun: the next call is answered."""
    asked = [window.begin(call("search", query=f"canary {number}")) for number in range(FLOOD)]

    assert all("1. deploy.md:1-3" in text_of(window.answer(number)) for number in asked)

    for _ in range(50):
        asked = window.begin(call("search", query="canary"))
        for request in (asked, asked, asked - 1, 10_000_000, "no number"):
            window.send({"method": "notifications/cancelled", "params": {"requestId": request, "reason": "no"}})

    assert "result" in window.ask(LIST)
    assert finds(window)
