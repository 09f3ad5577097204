"""The page as an application, and its server: in a process of its own or in the shared daemon."""

from __future__ import annotations

import signal
import sys
import webbrowser
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from socket import socket
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kbhub import errors
from kbhub.errors import KbhubError
from kbhub.extensions.page import documents, graph, health, memories, search
from kbhub.extensions.page.access import Guard, PageAddress
from kbhub.extensions.page.site import Site, site_of
from kbhub.hub import Hub
from kbhub.render.html import STATIC, rendered
from kbhub.server.daemon.loopback import HttpServer, bind_port
from kbhub.workspace.files import private_directory, write_atomically

STATUSES: Mapping[int, tuple[type[KbhubError], ...]] = {
    400: (errors.UsageError, errors.SecretFound),
    403: (errors.WriteRefused,),
    404: (errors.BaseNotFound, errors.DocumentNotFound, errors.MemoryNotFound, errors.PathNotContained),
    409: (errors.DocumentChanged,),
}
"""HTTP status → classes of errors; 503 for the others: something is unavailable."""

ROUTES = (
    Route("/", search.search_page),
    Route("/saved", search.save, methods=["POST"]),
    Route("/places", documents.places),
    Route("/documents", documents.documents_page),
    Route("/read", documents.document_page),
    Route("/image", documents.image),
    Route("/diagram", documents.diagram),
    Route("/graph", graph.graph_page),
    Route("/graph/data", graph.graph_data),
    Route("/memories", memories.memories_page),
    Route("/memories/one", memories.memory_page),
    Route("/memories/merge", memories.merge_page),
    Route("/memories/change", memories.change, methods=["POST"]),
    Route("/gaps", memories.gaps_page),
    Route("/gaps/close", memories.close, methods=["POST"]),
    Route("/gaps/start", memories.start_document, methods=["POST"]),
    Route("/health", health.health_page),
    Route("/health/machine", health.machine_part),
    Route("/health/audit", health.audit_part),
    Route("/health/index", health.index, methods=["POST"]),
    Route("/health/repair", health.repaired, methods=["POST"]),
    Route("/health/fix", health.fix, methods=["POST"]),
    Route("/health/ignore", health.ignore, methods=["POST"]),
    Route("/events", health.events),
    Route("/ask/stream", search.stream),
)


def create_app(hub: Hub) -> Starlette:
    """Create the application that shows a hub."""
    routes = [*ROUTES, Mount("/static", StaticFiles(directory=STATIC))]
    app = Starlette(routes=routes, exception_handlers={KbhubError: _fault, HTTPException: _fault})
    app.state.site = Site(hub)
    return app


def _fault(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        message = f"No page {request.url.path}." if error.status_code == 404 else f"{error.detail}."
        status, headers = error.status_code, error.headers
    else:
        message, headers = str(error), None
        status = next((code for code, kinds in STATUSES.items() if isinstance(error, kinds)), 503)
    title = "Not found" if status == 404 else "Something went wrong"
    answer = site_of(request).page(request, "fault.html", status=status, message=message, title=title)
    answer.headers.update(headers or {})
    return answer


async def serve_page(
    app: Starlette,
    bound: socket,
    door: PageAddress,
    tell: Callable[[PageAddress | None], Awaitable[object]],
    ends: AsyncIterable[object],
) -> None:
    """Serve the page, on a socket bound to the door's port, until something comes from `ends`.

    `tell` is called with None once browsers can connect; from then on, with doors, as `changed` in `Guard`.
    """
    server = HttpServer(Guard(app, door, tell))

    async def end() -> None:
        async for _ in ends:
            server.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(end)
        await run_sync(app.state.site.look)
        bound.listen()
        await tell(None)
        await server.serve(sockets=[bound])
        await run_sync(app.state.site.end)
        group.cancel_scope.cancel()


async def serve_for_command(
    hub: Hub, asked: dict[str, Any], say: Callable[[Any], Awaitable[object]], ends: AsyncIterable[object]
) -> None:
    """Serve the page in the shared daemon, at the door that the command asks for."""
    door = PageAddress(**asked)
    app, bound = await run_sync(lambda: (create_app(hub), bind_port(door.port)))
    await serve_page(app, bound, door, lambda now: say(now and asdict(now)), ends)


def serve(hub: Hub, bound: socket, door: PageAddress, told: Callable[[PageAddress | None], object]) -> None:
    """Serve the page, as `serve_page` does, until this process is interrupted."""

    async def tell(door: PageAddress | None) -> None:
        told(door)

    async def interruptions() -> AsyncIterator[object]:
        if sys.platform != "win32":
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for one in signals:
                    yield one

    anyio.run(serve_page, create_app(hub), bound, door, tell, interruptions())


def open_browser(address: str, file: Path) -> bool:
    """Open a secret address in the user's browser; return whether there is one.

    `file` leads there, and the browser is given its name: other users can read the arguments of a process.
    """
    with suppress(OSError, webbrowser.Error):
        private_directory(file.parent)
        write_atomically(file, rendered("redirect.html", address=address))
        return webbrowser.open(file.as_uri())
    return False
