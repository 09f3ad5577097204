"""The process around the server: standard streams, signals, and how it ends."""

# ruff: noqa: E402 - the imports stand between two calls on purpose
import gc

_COLLECTING = gc.isenabled()
gc.disable()  # importing the SDK makes thousands of classes, and collecting among them is a tenth of the start

import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from typing import Any, NoReturn

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import METHOD_NOT_FOUND, ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from kbhub.errors import UsageError
from kbhub.frugality import serve_frugally
from kbhub.hub import Hub
from kbhub.options import HubOptions
from kbhub.server import KbhubServer, create_server, log_level

gc.freeze()  # all of it stays, and the first collection would go through it (90 ms)
if _COLLECTING:
    gc.enable()

log = logging.getLogger(__name__)

Loop = Callable[[Any, Any], Coroutine[Any, Any, None]]
"""Serves one connection on a stream of messages from the client and one to it."""

PROTOCOLS = ("auto", "legacy")
"""`auto` serves the era that the client opens with, `legacy` only the one with a handshake (up to 2025-11-25)."""

PROBE = "server/discover"
ENVELOPE = "io.modelcontextprotocol/protocolVersion"
"""The key in `_meta` that only requests of 2026-07-28 and later carry."""

GRACE_SECONDS = 0.5
"""How long a signalled server takes to end its calls; clients kill after two seconds, some much sooner."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def serve(options: HubOptions, *, structured: bool = False, protocol: str = "auto") -> NoReturn:
    """Serve MCP on standard input and output until the client closes it or a signal comes, then end the process.

    Args:
        options: how to open the hub.
        structured: whether tools publish output schemas and add structured content to their text.
        protocol: one of `PROTOCOLS`.

    Raises:
        UsageError: there is no such protocol.
    """
    if protocol not in PROTOCOLS:
        raise UsageError(f"KBHUB_PROTOCOL is {protocol!r}; it must be `auto` or `legacy`.")
    wire = _claim_wire()
    hub = Hub(options)
    logging.basicConfig(level=log_level(hub), format=LOG_FORMAT, stream=sys.stderr)
    server = create_server(hub, structured=structured)
    serve_frugally()
    try:
        anyio.run(_serve, server, wire, protocol)
    except* (KeyboardInterrupt, BrokenPipeError) as ends:  # Ctrl-C on Windows; a client that is gone
        log.info("Ending: %s", ends.exceptions)
    _end()


async def _serve(server: KbhubServer, wire: tuple[TextIOWrapper, TextIOWrapper], protocol: str) -> None:
    closed = anyio.Event()
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            group.start_soon(_end_on_signal, group.cancel_scope, closed)
        await _serve_wire(server, wire, protocol, closed)
        group.cancel_scope.cancel()


async def _end_on_signal(scope: anyio.CancelScope, closed: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("Ending on %s.", signal.Signals(number).name)
            scope.cancel()
            with anyio.move_on_after(GRACE_SECONDS, shield=True):
                await closed.wait()
            # The thread that waits for the client's next line cannot be woken; the process ends over it.
            _end()


async def _serve_wire(
    server: KbhubServer, wire: tuple[TextIOWrapper, TextIOWrapper], protocol: str, closed: anyio.Event
) -> None:
    """Serve one client; `closed` is set when the calls are over and the lifespan has ended."""
    async with stdio_server(anyio.wrap_file(wire[0]), anyio.wrap_file(wire[1])) as (read, write):
        try:
            await serve_messages(server, read, write, protocol)
        finally:
            closed.set()


async def serve_messages(server: KbhubServer, read: Any, write: Any, protocol: str) -> None:
    """Serve one client of either era until it has no more to say.

    Args:
        server: of this client alone.
        read: messages from the client.
        write: messages to it.
        protocol: one of `PROTOCOLS`.
    """
    low = server._lowlevel_server
    async with low.lifespan(low) as state, anyio.create_task_group() as group:
        relayed, relay = anyio.create_memory_object_stream[Any](0)
        loop = partial(serve_dual_era_loop, low, lifespan_state=state)
        group.start_soon(_relay, read, write, relayed, loop, protocol)
        await loop(relay, write)
        group.cancel_scope.cancel()


async def _relay(read: Any, write: Any, relayed: MemoryObjectSendStream[Any], loop: Loop, protocol: str) -> None:
    """Pass messages on, except probes before anything else, which are answered here and decide nothing.

    The SDK takes the client's first request for its era, so a client that probes for the new era and then goes on
    with `initialize` on the same pipe, as some versions of well-known ones do, would be refused.
    """
    deciding = True
    async with read, relayed:
        async for item in read:
            request = item.message if isinstance(item, SessionMessage) else None
            if deciding and isinstance(request, JSONRPCRequest):
                if _is_probe(request):
                    await (_refuse_probe(request, write) if protocol == "legacy" else _answer_probe(item, write, loop))
                    continue
                deciding = False
            await relayed.send(item)


def _is_probe(request: JSONRPCRequest) -> bool:
    meta = (request.params or {}).get("_meta")
    return request.method == PROBE and isinstance(meta, dict) and ENVELOPE in meta


async def _refuse_probe(request: JSONRPCRequest, write: Any) -> None:
    error = ErrorData(code=METHOD_NOT_FOUND, message="This server is set to the protocol with `initialize`.")
    await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))


async def _answer_probe(probe: SessionMessage, write: Any, loop: Loop) -> None:
    """Let a connection of its own answer."""
    send, source = anyio.create_memory_object_stream[Any](1)
    sink, receive = anyio.create_memory_object_stream[Any](1)
    async with send, receive, anyio.create_task_group() as group:
        group.start_soon(loop, source, sink)
        await send.send(probe)
        async for answer in receive:
            await write.send(answer)
            if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
                break
        group.cancel_scope.cancel()


def _claim_wire() -> tuple[TextIOWrapper, TextIOWrapper]:
    """Take standard input and output for the protocol alone.

    What anything else in the process or its children prints goes to standard error from now on, also what is still
    in a buffer; what reads finds the end of file.
    """
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(null, 1)
    os.close(null)
    return (
        TextIOWrapper(source, encoding="utf-8", errors="replace"),
        TextIOWrapper(sink, encoding="utf-8", newline="\n"),
    )


def _end() -> NoReturn:
    """End the process at once: taking the interpreter down would cost a fifth of a second and wait for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)
