"""Serving the page on a port of this machine, in a process of its own or in the shared daemon."""

from __future__ import annotations

import secrets
import signal
import sys
import webbrowser
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import anyio
from anyio.to_thread import run_sync

from kbhub.ui.access import TOKEN, Guard
from kbhub.ui.app import create_app
from kbhub.ui.loopback import HOST, HttpServer

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from kbhub.hub import Hub

SECRET_BYTES = 24
"""Random bytes of the token, and of the session."""


class Door(NamedTuple):
    """Where the page is, and the secrets that open it."""

    port: int
    token: str
    """In the address that is opened; works once."""
    session: str
    """In the cookie; another process that takes the page over keeps it, so that tabs go on."""

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://{HOST}:{self.port}/?{urlencode({TOKEN: self.token})}"


def door_at(port: int, session: str = "") -> Door:
    """Return a door with a new token.

    Args:
        port: the port.
        session: that of a door which is replaced; empty for a new one.
    """
    return Door(port, secrets.token_urlsafe(SECRET_BYTES), session or secrets.token_urlsafe(SECRET_BYTES))


class Page:
    """The page of a hub.

    Args:
        hub: the hub it shows.
        bound: a socket that is bound to the door's port.
        door: how it is opened.
    """

    def __init__(self, hub: Hub, bound: socket.socket, door: Door) -> None:
        self._app, self._bound = create_app(hub), bound
        self._server = HttpServer(Guard(self._app, door.port, door.token, door.session))

    async def serve(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Serve until it is ended.

        Args:
            ready: called once browsers can connect.
        """
        site = self._app.state.site
        await run_sync(site.begin)
        self._bound.listen()
        await ready()
        await self._server.serve(sockets=[self._bound])
        await run_sync(site.end)

    def end(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True


def serve(hub: Hub, bound: socket.socket, door: Door, ready: Callable[[], object]) -> None:
    """Serve the page until this process is interrupted.

    Args:
        hub: the hub it shows.
        bound: a socket that is bound to the door's port.
        door: how it is opened.
        ready: called once browsers can connect.
    """
    anyio.run(_serve, Page(hub, bound, door), ready)


def open_browser(address: str) -> bool:
    """Open an address in the user's browser; return whether there is one."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


async def _serve(page: Page, ready: Callable[[], object]) -> None:
    async def say() -> None:
        ready()

    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            group.start_soon(_end_on_signal, page)
        await page.serve(say)
        group.cancel_scope.cancel()


async def _end_on_signal(page: Page) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            page.end()
