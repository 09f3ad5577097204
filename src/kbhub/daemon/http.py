"""The HTTP endpoint: MCP over Streamable HTTP for clients of both eras, and what guards it.

Whoever may speak is decided before a byte of MCP is read: the host that the client believes to speak to, the page that
it speaks for, the token. Then how much: requests at a time, requests a second, bytes of one. What is left is read as on
every other transport.
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
from anyio.to_thread import run_sync
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kbhub.daemon.sockets import IDLE_SECONDS, patient
from kbhub.errors import KbhubError, UsageError
from kbhub.frames import FRAME_BYTES, read
from kbhub.frames import refusal as refusal_frame
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

BODY_SECONDS = 30.0
"""How long a client may take to send a request after its header: 4 MiB at the speed of a slow network."""

DRAIN_BYTES, DRAIN_SECONDS = 16 * FRAME_BYTES, 2.0
"""How much more of a request that is refused is taken before the answer: most clients send all of it before they read
one, and would only see that the connection is gone."""

STANDING_STREAM = "_GET_stream"
"""Under this name the SDK keeps the stream of a session, among those of its requests, by their ids."""

MOST_AT_A_TIME = 128
"""Requests at a time, streams of notifications among them: more clients than one user has."""

PER_SECOND, BURST = 50.0, 200.0
"""Requests a second in the long run, and at once: ten agents that call as fast as they can stay below."""

SESSION_SECONDS = 30 * 60.0
"""Idle time after which a session of the handshake era ends; its client then opens another."""

MOST_SESSIONS = 200
"""Sessions of the handshake era in one workspace; the SDK answers more with 503."""

BACKLOG = 128
"""Connections that are accepted at once, before those that wait too long are looked at."""

MUCH_BYTES = 64 * 1024
"""Bytes of a request that is read on a thread."""

SESSION_HEADER = "mcp-session-id"

_OUR_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.ASCII | re.IGNORECASE)


def mcp_app(server: KbhubServer) -> Starlette:
    """Make the application of one workspace's server: the SDK's, without its guards of hosts, which are here."""
    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        max_request_body_size=FRAME_BYTES,
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

    @property
    def response(self) -> JSONResponse:
        """It, as an answer."""
        return JSONResponse(
            {"error": self.message}, status_code=self.status, headers=dict([self.header]) if self.header else None
        )


TOO_LONG = Refusal(413, f"A request has at most {FRAME_BYTES} bytes.")


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
        self._answering: set[tuple[str, str] | None] = set()
        """Sessions of the handshake era with the ids of what they ask: the SDK takes two with one id for one."""
        self.busy = 0
        """Requests that are being answered."""
        self.seen = False
        """Whether one came since somebody last looked."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        known = self._known(request)
        if refusal := self._foreign(request):
            await refusal.response(scope, receive, _closing(send))
        elif request.url.path == HEALTH_PATH:
            await self._health(known)(scope, receive, send if known else _closing(send))
        elif not known:
            refusal = Refusal(
                401, "The bearer token is missing or wrong.", ("WWW-Authenticate", 'Bearer realm="kbhub"')
            )
            await refusal.response(scope, receive, _closing(send))
        elif refusal := self._refusal(request):
            if "expect" not in request.headers:
                await _drain(receive)
            await refusal.response(scope, receive, send)
        else:
            self.busy += 1
            self.seen = True
            try:
                await self._read(request, scope, receive, send)
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

    def _refusal(self, request: Request) -> Refusal | None:
        if request.url.path != MCP_PATH:
            return Refusal(404, f"There is {MCP_PATH} and {HEALTH_PATH}.")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > FRAME_BYTES:
            return TOO_LONG
        if not self._rate.take():
            return Refusal(429, f"More than {PER_SECOND:.0f} requests a second; wait a moment.", ("Retry-After", "1"))
        if self.busy >= MOST_AT_A_TIME:
            return Refusal(429, f"{MOST_AT_A_TIME} requests are being answered; wait a moment.", ("Retry-After", "1"))
        return None

    async def _read(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what cannot be read, and pass on what can."""
        if request.method != "POST":
            await self._serve(request, scope, receive, send)
            return
        try:
            with anyio.fail_after(BODY_SECONDS):
                body = await _body(receive)
        except TimeoutError:
            refusal = Refusal(408, f"The request was not sent within {BODY_SECONDS:.0f} seconds.")
            await refusal.response(scope, receive, _closing(send))
            return
        if body is None:
            await _drain(receive)
            await TOO_LONG.response(scope, receive, send)
            return
        frame = await run_sync(read, body) if len(body) > MUCH_BYTES else read(body)
        session, message = request.headers.get(SESSION_HEADER), frame.message or {}
        key = (session, str(message["id"])) if session and "method" in message and "id" in message else None
        if key and (key in self._answering or key[1] == STANDING_STREAM):
            frame = refusal_frame("A request with this id is being answered.", message["id"])
        if frame.refusal is not None:
            await Response(frame.refused, 400, media_type="application/json")(scope, receive, send)
            return
        self._answering |= {key} if key else set()
        try:
            await self._serve(request, scope, _again(frame.line or body, receive), send)
        finally:
            self._answering.discard(key)

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            root = workspace_of(request.headers.get(ROOT_HEADER))
            workspace = await self._workspaces.get(root)
        except KbhubError as error:
            await Refusal(400, str(error)).response(scope, receive, send)
            return
        if workspace is None:
            refusal = Refusal(429, "Too many workspaces are in use; wait a moment.", ("Retry-After", "5"))
            await refusal.response(scope, receive, send)
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
                http=patient(),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE_SECONDS,
                backlog=BACKLOG,
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


async def _body(receive: Receive) -> bytes | None:
    """Read a body; none if it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > FRAME_BYTES:
            return None
        if not message.get("more_body", False):  # a client that has hung up among them
            return bytes(body)


async def _drain(receive: Receive) -> None:
    """Take what is still being sent, as far as that does no harm."""
    taken = 0
    with anyio.move_on_after(DRAIN_SECONDS):
        while taken <= DRAIN_BYTES and (message := await receive()).get("more_body", False):
            taken += len(message.get("body", b""))


def _again(body: bytes, receive: Receive) -> Receive:
    """Give what lets a body be read that was read before."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def _closing(send: Send) -> Send:
    """Give what closes the connection after the answer: who may not speak does not keep it."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return closing
