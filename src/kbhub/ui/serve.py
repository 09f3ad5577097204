"""The server of the page on a port of this machine, in a process of its own or in the shared daemon."""

from __future__ import annotations

import signal
import sys
import webbrowser
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from kbhub.render.html.templates import rendered
from kbhub.ui.access import Guard
from kbhub.ui.app import create_app
from kbhub.ui.loopback import HttpServer
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.ui.access import PageAddress


class PageServer:
    """The page of a hub, on a socket that is bound to the door's port; `changed` is as in `Guard`."""

    def __init__(
        self, hub: Hub, bound: socket.socket, door: PageAddress, changed: Callable[[PageAddress], Awaitable[object]]
    ) -> None:
        self._app, self._bound = create_app(hub), bound
        self._server = HttpServer(Guard(self._app, door, changed))

    async def serve(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Serve until ended; `ready` is called once browsers can connect."""
        site = self._app.state.site
        await run_sync(site.begin)
        self._bound.listen()
        await ready()
        await self._server.serve(sockets=[self._bound])
        await run_sync(site.end)

    def end(self) -> None:
        """Let `serve` return."""
        self._server.should_exit = True


def serve(
    hub: Hub,
    bound: socket.socket,
    door: PageAddress,
    ready: Callable[[], object],
    changed: Callable[[PageAddress], object],
) -> None:
    """Serve the page, as `PageServer` does, until this process is interrupted."""

    async def tell(door: PageAddress) -> None:
        changed(door)

    anyio.run(_serve, PageServer(hub, bound, door, tell), ready)


def open_browser(address: str, file: Path) -> bool:
    """Open a secret address in the user's browser; return whether there is one.

    `file` is written to lead there, and the browser is given its name, as other users can read the arguments of a
    process.
    """
    try:
        private_directory(file.parent)
        write_atomically(file, rendered("redirect.html", address=address))
        return webbrowser.open(file.as_uri())
    except (OSError, webbrowser.Error):
        return False


async def _serve(page: PageServer, ready: Callable[[], object]) -> None:
    async def say() -> None:
        ready()

    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            group.start_soon(_end_on_signal, page)
        await page.serve(say)
        group.cancel_scope.cancel()


async def _end_on_signal(page: PageServer) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            page.end()
