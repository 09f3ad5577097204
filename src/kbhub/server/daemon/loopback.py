"""HTTP on a port of this machine alone: its limits and timeouts, and refusing web pages that would speak to it."""

from __future__ import annotations

import logging
import os
import re
import socket
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import anyio
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive

from kbhub.errors import UsageError

MOST_AT_A_TIME = 128
"""Concurrent requests, including streams of events: more tabs and clients than one user has."""

BODY_SECONDS = 30.0
"""Timeout for the body of a request: 4 MiB over a slow network."""

DRAIN_BYTES, DRAIN_SECONDS = 64 << 20, 2.0
"""How much of a refused request is still read before the answer: most clients send everything before they read, and
would otherwise only see a broken connection."""


async def read_body(request: Request, most: int) -> bytes | None:
    """Read a body within `BODY_SECONDS`; None if it has more than `most` bytes."""
    body = bytearray()
    with anyio.fail_after(BODY_SECONDS):
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                return None
    return bytes(body)


async def drain(receive: Receive) -> None:
    """Read the rest of a request, within limits."""
    taken = 0
    with anyio.move_on_after(DRAIN_SECONDS):
        while taken <= DRAIN_BYTES and (message := await receive()).get("more_body", False):
            taken += len(message.get("body", b""))


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body already read."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


IDLE_SECONDS = 5

HOST = "127.0.0.1"

_OUR_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.ASCII | re.IGNORECASE)


def refused(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the answer to a request that is not served."""
    return JSONResponse({"error": message}, status, headers)


def foreign(request: Request, port: int) -> JSONResponse | None:
    """Refuse cross-site requests from browsers, including DNS rebinding; None for others."""
    if not _OUR_HOST.fullmatch(request.headers.get("host", "")):
        return refused(421, f"This server only answers to {HOST} and localhost.")
    origin = request.headers.get("origin")
    ours = {f"http://{name}:{port}" for name in (HOST, "localhost", "[::1]")}
    if origin is not None and origin not in ours:
        return refused(403, "Requests from web pages of other sites are rejected.")
    return None


def bind_port(port: int) -> socket.socket:
    """Bind a loopback port, 0 for a free one; raise `UsageError` if it is in use."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name != "nt":  # on Windows it would let another program take over the port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        remedy = "Choose another one with --port, or 0 for a free one."
        raise UsageError(f"Cannot use port {port} ({error.strerror}). {remedy}") from error
    return bound


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own."""

    def __init__(self, app: ASGIApp) -> None:
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a uvicorn log record is about more than streams cut off at shutdown."""
    broken_off = record.exc_info is not None and isinstance(record.exc_info[1], CancelledError)
    return not broken_off and "timeout graceful shutdown" not in record.getMessage()
