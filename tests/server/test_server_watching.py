"""What `status` tells a client of how changes are noticed."""

import time

import pytest
from mcp import Client

import kbhub.sync.watch
from daemons import call, text_of, until, windows
from kbhub.server.server import KbhubServer
from test_stdio import SERVE
from test_watch import WAIT_SECONDS

EXIT_SECONDS = 4.0
"""Less than a watcher that is not told takes; measured are 0.07 s, promised is one second."""

pytestmark = pytest.mark.usefixtures("patient")


def begun(server):
    """Wait until the watcher has told that all is to be looked at once."""
    calls = server._opened()
    background = calls.background
    with background._changed:
        assert background._changed.wait_for(lambda: calls.watcher.state("project") is not None, WAIT_SECONDS)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mounts", "told"), [([], "watched live"), ([("/", "nfs4")], "polled every 2 s: it is on nfs4")]
)
async def test_status_says_how_changes_are_noticed(environment, mode, monkeypatch, mounts, told):
    monkeypatch.setattr(kbhub.sync.watch, "_remote_mounts", lambda: mounts)
    environment.write("knowledge/deploy.md", "# Deploy\n")
    server = KbhubServer(environment.hub())
    async with Client(server, mode=mode) as client:
        await client.call_tool("search", {"query": "deploy"})
        begun(server)
        status = (await client.call_tool("status", {})).content[0].text

    assert told in status


def test_a_server_that_watches_ends_at_once(environment):
    """The thread that waits for events, five seconds unless it is told, does not keep the process."""
    environment.write("knowledge/deploy.md", "# Deploy\n")
    with windows(environment) as begin:
        window = begin(SERVE)
        window.handshake()
        until(lambda: window.ask(call("search", query="deploy")) and "watched live" in asked(window))
        began = time.monotonic()
        assert window.end() == 0
        assert time.monotonic() - began < EXIT_SECONDS


def asked(window):
    return text_of(window.ask(call("status")))
