"""Open the page for people: ui."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kbhub.cli.app import complain, page
from kbhub.cli.commands.daemon import MOST_PORT, connect_options
from kbhub.cli.options import Places, hub_options
from kbhub.errors import UsageError
from kbhub.extensions.page.access import PageAddress, door_at
from kbhub.extensions.page.app import open_browser, serve
from kbhub.hub import Hub
from kbhub.server.daemon.launch import serve_by_daemon
from kbhub.server.daemon.loopback import bind_port
from kbhub.workspace.files import own_folder

USED_TWICE = (
    "The address was used a second time, so the first visit has ended. If only you opened it, in two browsers, go on "
    "with the new address below. If not, somebody else knew it and may have seen the page: close it with Ctrl-C."
)

TAKE_OVER_SECONDS = 10.0
"""How long a daemon that ends may keep the port."""


def ui(
    *,
    port: Annotated[int, Parameter(metavar="N", validator=Number(gte=0, lte=MOST_PORT))] = 0,
    no_open: bool = False,
    read_only: bool = False,
    places: Places = Places(),  # noqa: B008 - frozen
) -> int:
    """Open kbhub in the browser.

    It has search with explanations, answers, documents and their graph, memories, gaps and health.

    Served on this machine only, until Ctrl-C, by the shared daemon if one is running. Only the printed address gives
    access, and only once.

    Example: kbhub ui

    Args:
        port: Port to listen on; 0 picks a free one.
        no_open: Print the address without opening a browser.
        read_only: Disable everything that writes.
        places: Options of every command.
    """
    options = replace(hub_options(places), read_only=read_only)
    bound = bind_port(port)
    door = door_at(bound.getsockname()[1])
    file = own_folder("data", os.environ) / "ui" / f"open-{door.port}.html"

    def told(now: PageAddress | None) -> None:
        nonlocal door
        if now is None:  # browsers can connect
            page(door.address, pager=False)
            if not no_open and not open_browser(door.address, file):
                complain("No browser found. Open the address yourself.")
            return
        door = now
        file.unlink(missing_ok=True)
        if door.token:
            complain(USED_TWICE)
            page(door.address, pager=False)

    bound.close()  # for the daemon; nobody else knows the port
    wanted = connect_options(places, read_only=read_only)
    try:
        if serve_by_daemon("page", asdict(door), wanted, os.environ, lambda now: told(now and PageAddress(**now))):
            no_open = True
            door = door_at(door.port, door.session, door.spent)
            complain(
                "The daemon has stopped; this process serves the page now. Open tabs keep working, or use this address:"
            )
        serve(Hub(options), _bound_again(door.port), door, told)
    except KeyboardInterrupt:
        pass
    finally:
        file.unlink(missing_ok=True)
    return 0


def _bound_again(port: int) -> socket.socket:
    """Bind the port as soon as its holder releases it."""
    end = time.monotonic() + TAKE_OVER_SECONDS
    while True:
        try:
            return bind_port(port)
        except UsageError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
