"""The HTTP endpoint: access control, and one server per workspace, opened on the first request for it."""

from __future__ import annotations

import hmac
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.to_thread import run_sync
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from kbhub.errors import KbhubError, UsageError
from kbhub.hub import Hub, HubOptions
from kbhub.server.client import SESSION
from kbhub.server.daemon.loopback import BODY_SECONDS, MOST_AT_A_TIME, drain, foreign, read_body, refused, replay
from kbhub.server.daemon.protocol import dial
from kbhub.server.frames import FRAME_BYTES, read
from kbhub.server.frames import refusal as refusal_frame
from kbhub.server.server import KbhubServer
from kbhub.values import struct
from kbhub.workspace.files import is_directory

log = logging.getLogger(__name__)

MOST_WORKSPACES = 32
"""Most open workspaces; the one idle longest is closed first."""


@struct(frozen=False)
class WorkspaceServer:
    """A workspace that is served."""

    server: KbhubServer
    app: Starlette
    closing: anyio.Event = field(default_factory=anyio.Event)
    busy: int = 0
    used: float = 0.0
    """Time of its last use (seconds of the event loop's clock)."""


class Workspaces:
    """The open workspaces; `options` are for requests that name none, and `group` runs their tasks."""

    def __init__(self, options: HubOptions, structured: bool, group: TaskGroup) -> None:
        self._options, self._structured, self._group = options, structured, group
        self._open: dict[Path | None, WorkspaceServer] = {}
        self._opening = anyio.Lock()

    def __len__(self) -> int:
        return len(self._open)

    async def get(self, root: Path | None) -> WorkspaceServer | None:
        """Return the workspace of a directory, or None if there is no room; root None means the endpoint's own."""
        async with self._opening:
            if root not in self._open:
                if len(self._open) >= MOST_WORKSPACES and not self.close_idle(1):
                    return None
                options = replace(self._options, root=root) if root else self._options
                server = await run_sync(lambda: KbhubServer(Hub(options), structured=self._structured))
                workspace = WorkspaceServer(server, mcp_app(server))
                await self._group.start(self._hold, root, workspace)
                self._open[root] = workspace
            return self._open[root]

    def close_idle(self, most: int = MOST_WORKSPACES) -> bool:
        """Close unused workspaces, those idle longest first; return whether there were any."""
        idle = [root for root, workspace in self._open.items() if not workspace.busy]
        for root in sorted(idle, key=lambda root: self._open[root].used)[:most]:
            self._open.pop(root).closing.set()
        return bool(idle)

    async def _hold(self, root: Path | None, workspace: WorkspaceServer, *, task_status: TaskStatus[None]) -> None:
        """Keep a workspace's sessions and its indexing and watching threads alive."""
        try:
            async with workspace.server.session_manager.run():
                task_status.started()
                await workspace.closing.wait()
        except Exception:  # BLE001: one workspace must not end the others
            log.exception("Serving %s failed.", root or "the workspace of the endpoint")
            self._open.pop(root, None)


MCP_PATH, HEALTH_PATH = "/mcp", "/health"

ROOT_HEADER = "kbhub-root"
"""Names the workspace of a request: an absolute path, percent-encoded where it is not ASCII."""

STANDING_STREAM = "_GET_stream"
"""Key under which the SDK keeps the stream of a session, among those of its requests."""

PER_SECOND, BURST = 50.0, 200.0
"""Sustained requests per second, and burst: ten agents calling at full speed stay below."""

SESSION_SECONDS = 30 * 60.0
"""Idle time after which a session of the handshake era ends; its client then opens another."""

MOST_SESSIONS = 200
"""Sessions of the handshake era per workspace; beyond it the SDK answers 503."""

MUCH_BYTES = 64 * 1024
"""Size from which a request is parsed on a thread."""


def mcp_app(server: KbhubServer) -> Starlette:
    """Create the ASGI application of one workspace's server: the SDK's without its host checks, which are done here."""
    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        max_request_body_size=FRAME_BYTES,
        session_idle_timeout=SESSION_SECONDS,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


class Rate:
    """A token bucket; its clock returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._left, self._at = clock, BURST, clock()

    def take(self) -> bool:
        """Take a token; return whether one was available."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


_too_long = partial(refused, 413, f"The request is larger than {FRAME_BYTES} bytes.")


class Guarded:
    """The endpoint as an ASGI application.

    Without a `token`, it trusts a socket private to the user; without a `port`, it listens on a Unix socket. `status`
    returns the content of `/health` for requests with the token.
    """

    def __init__(
        self, workspaces: Workspaces, token: str | None, port: int | None, status: Callable[[], dict[str, Any]]
    ) -> None:
        self._workspaces, self._token, self._port, self._status = workspaces, token, port, status
        self._rate = Rate()
        self._answering: set[tuple[str, str] | None] = set()
        """(session of the handshake era, request id) in progress: the SDK confuses two requests with one id."""
        self.busy = 0
        self.seen = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        token = credentials.strip().encode() if scheme.lower() == "bearer" else b""
        authorised = self._token is None or hmac.compare_digest(token, self._token.encode())
        if self._port is not None:
            refusal = foreign(request, self._port)
        else:
            refusal = refused(403, "Web pages cannot use this socket.") if "origin" in request.headers else None
        closes = True
        if refusal:
            answer = refusal
        elif request.url.path == HEALTH_PATH:
            answer, closes = JSONResponse({"status": "ok", **(self._status() if authorised else {})}), not authorised
        elif not authorised:
            answer = refused(401, "The bearer token is missing or wrong.", {"WWW-Authenticate": 'Bearer realm="kbhub"'})
        elif refusal := self._refusal(request):
            if "expect" not in request.headers:
                await drain(receive)
            answer, closes = refusal, False
        else:
            self.busy += 1
            self.seen = True
            try:
                if unread := await self._read(request, receive, send):
                    await unread(scope, receive, send)
            finally:
                self.busy -= 1
            return
        if closes:
            answer.headers["connection"] = "close"
        await answer(scope, receive, send)

    def _refusal(self, request: Request) -> JSONResponse | None:
        if request.url.path != MCP_PATH:
            return refused(404, f"Not found. The paths are {MCP_PATH} and {HEALTH_PATH}.")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > FRAME_BYTES:
            return _too_long()
        much = ""
        if not self._rate.take():
            much = f"More than {PER_SECOND:.0f} requests per second"
        elif self.busy >= MOST_AT_A_TIME:
            much = f"Already answering {MOST_AT_A_TIME} requests"
        return refused(429, f"{much}. Try again in a moment.", {"Retry-After": "1"}) if much else None

    async def _read(self, request: Request, receive: Receive, send: Send) -> Response | None:
        """Pass a request on, or return the answer to one that is unreadable or has no workspace."""
        if request.method != "POST":
            return await self._serve(request, receive, send)
        try:
            body = await read_body(request, FRAME_BYTES)
        except ClientDisconnect:
            return None
        except TimeoutError:
            late = f"The request was not received within {BODY_SECONDS:.0f} seconds."
            return refused(408, late, {"Connection": "close"})
        if body is None:
            await drain(receive)
            return _too_long()
        frame = await run_sync(read, body) if len(body) > MUCH_BYTES else read(body)
        session, message = request.headers.get(SESSION), frame.message or {}
        key = (session, str(message["id"])) if session and "method" in message and "id" in message else None
        if key and (key in self._answering or key[1] == STANDING_STREAM):
            frame = refusal_frame("A request with this id is already in progress.", message["id"])
        if frame.refusal:
            return Response(frame.refusal, 400, media_type="application/json")
        self._answering |= {key} if key else set()
        try:
            return await self._serve(request, replay(frame.line or body, receive), send)
        finally:
            self._answering.discard(key)

    async def _serve(self, request: Request, receive: Receive, send: Send) -> Response | None:
        try:
            workspace = await self._workspaces.get(workspace_of(request.headers.get(ROOT_HEADER)))
        except KbhubError as error:
            return refused(400, str(error))
        if workspace is None:
            return refused(429, "Too many workspaces are in use. Try again in a moment.", {"Retry-After": "5"})
        workspace.busy += 1
        try:
            await workspace.app(request.scope, receive, send)
        finally:
            workspace.busy -= 1
            workspace.used = anyio.current_time()
        return None


def workspace_of(header: str | None) -> Path | None:
    """Return the directory that a request names; None without the header, `UsageError` if it is invalid."""
    if not header:
        return None
    path = Path(unquote(header))
    if "\0" in str(path) or not path.is_absolute() or not is_directory(path):
        raise UsageError("The header Kbhub-Root must be the absolute path of a directory on this machine.")
    return Path(os.path.realpath(path))


def bind_path(path: Path) -> socket.socket:
    """Bind a Unix socket private to the user, replacing that of a dead server."""
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("This system has no Unix sockets; use --port.")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and not path.is_symlink():
            with suppress(OSError), closing(dial(str(path))):
                raise UsageError(f"A server already listens on {path}. Use another path.")
            path.unlink()
        mask = os.umask(0o177)  # others can never open it
        try:
            bound.bind(str(path))
        finally:
            os.umask(mask)
    except OSError as error:
        bound.close()
        raise UsageError(f"Cannot create the socket {path}: {error.strerror or error}.") from error
    except UsageError:
        bound.close()
        raise
    return bound
