"""Where the shared daemon runs, it serves the page, too; the page outlives it."""

import os
import signal
import sys
from dataclasses import replace

import psutil
import pytest

from browsers import served
from daemons import folder_of, pid_of, until, windows
from kbhub.server.daemon.protocol import running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="written for systems with Unix sockets and signals"),
]


def owner(port: int) -> int | None:
    """Return the process that listens on a port."""
    for process in psutil.process_iter():
        try:
            ends = [one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            if port in ends:
                return process.pid
        except psutil.Error:
            continue
    return None


@pytest.fixture
def daemon(environment):
    """A daemon that a window has started."""
    environment.write("knowledge/deploy.md", "# Deploy\n\nRun the xylophone.\n")
    with windows(environment) as open_window:
        window = open_window()
        window.handshake()
        yield window


def test_the_daemon_serves_the_page_which_goes_on_when_it_ends(environment, daemon):
    """With the indexes and the model that it has in memory; the command passes its options on, and only waits."""
    with served(environment, "--read-only") as page:
        cookie = page.enter()
        form = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": cookie, "Origin": page.origin}
        assert page.ask("/memories/change", "POST", "action=forget&id=x", **form)[0] == 403
        assert owner(page.port) == pid_of(environment)
        until(lambda: "<mark>xylophone</mark>" in page.ask("/?q=xylophone", Cookie=cookie)[2])
    until(lambda: owner(page.port) is None)
    assert running(folder_of(environment))

    # At the same address, for the tabs of the session: a token used twice has begun a new one, as the command says.
    with served(environment) as page:
        first = page.enter()
        assert page.ask(f"/?token={page.token}")[0] == 401
        assert "used a second time" in page.process.stderr.readline()
        second = replace(page, address=page.process.stdout.readline().strip()).enter()
        ended = pid_of(environment)
        os.kill(ended, signal.SIGTERM)
        until(lambda: owner(page.port) not in (None, ended))
        assert page.ask("/?q=xylophone", Cookie=second)[0] == 200
        assert page.ask("/", Cookie=first)[0] == 401
        assert page.ask(f"/?token={page.token}")[0] == 401
