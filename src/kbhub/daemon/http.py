"""The HTTP endpoint: MCP over Streamable HTTP for clients of both eras, and what guards it.

Whoever may speak is decided before a byte of MCP is read: the host that the client believes to speak to, the page that
it speaks for, the token. Then how much: requests at a time, requests a second, bytes of one.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import socket
import stat
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse

from kbhub.errors import KbhubError, UsageError
from kbhub.places import is_directory
from kbhub.values import struct

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import Message, Receive, Scope, Send

    from kbhub.daemon.workspaces import Workspaces
    from kbhub.server import KbhubServer

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
MCP_PATH, HEALTH_PATH = "/mcp", "/health"

ROOT_HEADER = "kbhub-root"
"""Names the workspace of a request: an absolute path, percent-encoded where it is not ASCII."""

BODY_BYTES = 4 * 1024 * 1024
"""Bytes of the longest request: the SDK's limit. A document that is written is a hundredth of it."""

MOST_AT_A_TIME = 128
"""Requests at a time, streams of notifications among them: more clients than one user has."""

PER_SECOND, BURST = 50.0, 200.0
"""Requests a second in the long run, and at once: ten agents that call as fast as they can stay below."""

SESSION_SECONDS = 30 * 60.0
"""Idle time after which a session of the handshake era ends; its client then opens another."""

MOST_SESSIONS = 200
"""Sessions of the handshake era in one workspace."""

MOST_SOCKETS = 512
"""TCP connections at a time; uvicorn answers more with 503."""

_OUR_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.ASCII | re.IGNORECASE)


def mcp_app(server: KbhubServer) -> Starlette:
    """Make the application of one workspace's server: the SDK's, without its guards of hosts, which are here."""
    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        max_request_body_size=BODY_BYTES,
        session_idle_timeout=SESSION_SECONDS,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


class Rate:
    """A bucket of tokens: so many at once, so many a second.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._left, self._at = clock, BURST, clock()

    def take(self) -> bool:
        """Take one; says whether there was one."""
        now = self._clock()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@struct
class Refusal:
    """Why a request is not served."""

    status: int
    message: str
    header: tuple[str, str] | None = None


class Guarded:
    """The endpoint as an ASGI application.

    Args:
        workspaces: what it serves.
        token: that a request has to carry; none where the socket itself is the user's alone.
        port: on which it listens; none for a Unix socket.
        status: tells what `/health` says to who has the token.
    """

    def __init__(
        self, workspaces: Workspaces, token: str | None, port: int | None, status: Callable[[], dict[str, Any]]
    ) -> None:
        self._workspaces, self._token, self._port, self._status = workspaces, token, port, status
        self._rate = Rate()
        self.busy = 0
        """Requests that are being answered."""
        self.seen = False
        """Whether one came since somebody last looked."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if refusal := self._foreign(request):
            await _refuse(refusal)(scope, receive, send)
            return
        known = self._known(request)
        if request.url.path == HEALTH_PATH:
            await self._health(known)(scope, receive, send)
            return
        refusal = self._refusal(request, known=known)
        if refusal:
            await _refuse(refusal)(scope, receive, send)
            return
        self.busy += 1
        self.seen = True
        try:
            await self._serve(request, scope, receive, send)
        finally:
            self.busy -= 1

    def _foreign(self, request: Request) -> Refusal | None:
        """Refuse what a page of another site makes a browser send, also where its name has been bound to this host."""
        origin = request.headers.get("origin")
        if self._port is None:
            return Refusal(403, "A web page cannot speak to this socket.") if origin else None
        host = request.headers.get("host", "")
        if not _OUR_HOST.fullmatch(host):
            return Refusal(421, f"This server answers to {HOST} and localhost alone.")
        ours = {f"http://{name}:{self._port}" for name in (HOST, "localhost", "[::1]")}
        if origin is not None and origin not in ours:
            return Refusal(403, "Requests of web pages of other sites are not answered.")
        return None

    def _known(self, request: Request) -> bool:
        if self._token is None:
            return True
        scheme, _, said = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(said.strip().encode(), self._token.encode())

    def _health(self, known: bool) -> JSONResponse:
        """Say that the server lives; the rest is for who has the token."""
        return JSONResponse({"status": "ok", **(self._status() if known else {})})

    def _refusal(self, request: Request, *, known: bool) -> Refusal | None:
        if not known:
            return Refusal(401, "The bearer token is missing or wrong.", ("WWW-Authenticate", 'Bearer realm="kbhub"'))
        if request.url.path != MCP_PATH:
            return Refusal(404, f"There is {MCP_PATH} and {HEALTH_PATH}.")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > BODY_BYTES:
            return Refusal(413, f"A request has at most {BODY_BYTES} bytes.")
        if not self._rate.take():
            return Refusal(429, f"More than {PER_SECOND:.0f} requests a second; wait a moment.", ("Retry-After", "1"))
        if self.busy >= MOST_AT_A_TIME:
            return Refusal(429, f"{MOST_AT_A_TIME} requests are being answered; wait a moment.", ("Retry-After", "1"))
        return None

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            root = workspace_of(request.headers.get(ROOT_HEADER))
            workspace = await self._workspaces.get(root)
        except KbhubError as error:
            await _refuse(Refusal(400, str(error)))(scope, receive, send)
            return
        if workspace is None:
            refusal = Refusal(429, "Too many workspaces are in use; wait a moment.", ("Retry-After", "5"))
            await _refuse(refusal)(scope, receive, send)
            return
        workspace.busy += 1
        try:
            await workspace.app(scope, receive, send)
        finally:
            workspace.busy -= 1
            workspace.used = anyio.current_time()


def workspace_of(header: str | None) -> Path | None:
    """Give the directory that a request names; none if it names none.

    Raises:
        UsageError: it names something else.
    """
    if not header:
        return None
    path = Path(unquote(header))
    if "\0" in str(path) or not path.is_absolute() or not is_directory(path):
        raise UsageError("The header Kbhub-Root must be the absolute path of a directory of this machine.")
    return Path(os.path.realpath(path))


class Endpoint(uvicorn.Server):
    """uvicorn without its signals: the daemon has its own."""

    def __init__(self, app: Guarded) -> None:
        async def asgi(scope: Scope, receive: Receive, send: Callable[[Message], Any]) -> None:
            await app(scope, receive, send)

        logging.getLogger("uvicorn.error").addFilter(_is_news)
        super().__init__(
            uvicorn.Config(
                asgi,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_SOCKETS,
                timeout_graceful_shutdown=1,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _is_news(record: logging.LogRecord) -> bool:
    """Whether uvicorn says more than that the end broke requests off, which are streams that nobody else ends."""
    broken_off = record.exc_info is not None and isinstance(record.exc_info[1], CancelledError)
    return not broken_off and "timeout graceful shutdown" not in record.getMessage()


def bind_port(port: int) -> socket.socket:
    """Take a port of the loopback interface.

    Args:
        port: which; 0 for a free one.

    Raises:
        UsageError: it is taken.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name != "nt":  # there it would let another program take the port over
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise UsageError(
            f"Port {port} cannot be used ({error.strerror}); name another one with --port, or 0 for a free one."
        ) from error
    return bound


def bind_path(path: Path) -> socket.socket:
    """Make a Unix socket for the user alone; one that a dead server left is replaced.

    Args:
        path: where.

    Raises:
        UsageError: it cannot be made there, or somebody listens there.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("This system has no Unix sockets; use --port.")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and not path.is_symlink():
            if _answers(path):
                raise UsageError(f"A server listens on {path} already; name another path.")
            path.unlink()
        mask = os.umask(0o177)  # no moment in which others could open it
        try:
            bound.bind(str(path))
        finally:
            os.umask(mask)
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        bound.close()
        raise UsageError(f"The socket {path} cannot be made: {error.strerror or error}.") from error
    except UsageError:
        bound.close()
        raise
    return bound


def _answers(path: Path) -> bool:
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(str(path))
    except OSError:
        return False
    finally:
        probe.close()
    return True


def _refuse(refusal: Refusal) -> JSONResponse:
    headers = dict([refusal.header]) if refusal.header else None
    return JSONResponse({"error": refusal.message}, status_code=refusal.status, headers=headers)
