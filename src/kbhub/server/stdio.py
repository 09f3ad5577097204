"""Serve a client: its conversation over any transport, and the process that serves one on standard streams."""

# ruff: noqa: E402 - the imports stand between two calls on purpose
import gc

_COLLECTING = gc.isenabled()
gc.disable()  # the SDK creates thousands of classes; collecting garbage meanwhile takes a tenth of the startup

import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from io import RawIOBase
from typing import Any, NoReturn, Protocol

import anyio
from anyio.to_thread import run_sync
from mcp import types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from kbhub.errors import UsageError
from kbhub.hub import Hub, HubOptions
from kbhub.server.daemon.protocol import PROTOCOLS
from kbhub.server.frames import ENVELOPE, LAST_WORDS_SECONDS, LISTEN, PIECE_BYTES, Frames
from kbhub.server.server import KbhubServer, log_level
from kbhub.workspace.child_processes import serve_frugally
from kbhub.workspace.config import parse_base_arguments

gc.freeze()  # all of it is permanent, and the first collection would scan it (90 ms)
if _COLLECTING:
    gc.enable()
from anyio.streams.memory import MemoryObjectSendStream

log = logging.getLogger(__name__)

GRACE_SECONDS = 0.5
"""Time for a signalled server to end its calls; clients kill after two seconds, some much sooner."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Streams:
    """The client on unbuffered standard input and output."""

    def __init__(self, source: RawIOBase, sink: RawIOBase) -> None:
        self._source, self._sink, self._ended = source, sink, False

    async def hear(self) -> bytes:
        """Return the next data; empty at the end."""
        data = await run_sync(self._source.read, PIECE_BYTES) or b""
        self._ended = not data
        return data

    async def say(self, line: bytes) -> None:
        """Send a line."""
        await run_sync(self._write, line, abandon_on_cancel=True)

    def gone(self) -> bool:
        """Return whether the client has closed its end, even if there is data left to read."""
        if self._ended or not hasattr(select, "poll"):
            return self._ended
        look = select.poll()
        look.register(self._source.fileno(), 0)
        return bool(look.poll(0))

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:  # a pipe may accept only a part
            left = left[self._sink.write(left) or 0 :]


def protocol_of(wanted: str | None, env: Mapping[str, str]) -> str:
    """Return the one of `PROTOCOLS` that an option or a variable names; raise `UsageError` if it is none."""
    protocol = wanted or env.get("KBHUB_PROTOCOL") or "auto"
    if protocol not in PROTOCOLS:
        raise UsageError(f"KBHUB_PROTOCOL is {protocol!r}; it must be `auto` or `legacy`.")
    return protocol


def serve(options: HubOptions, *, structured: bool = False, protocol: str | None = None) -> NoReturn:
    """Serve MCP on standard input and output until the client closes it or a signal comes, then end the process."""
    chosen = protocol_of(protocol, options.env)
    client = _claim_wire()
    hub = Hub(options)
    logging.basicConfig(level=log_level(hub), format=LOG_FORMAT, stream=sys.stderr)
    server = KbhubServer(hub, structured=structured)
    serve_frugally()

    async def run() -> None:
        closed = anyio.Event()
        async with anyio.create_task_group() as group:
            if sys.platform != "win32":
                group.start_soon(_end_on_signal, group.cancel_scope, closed)
            try:
                await converse(server, client, chosen)
            finally:
                closed.set()
            group.cancel_scope.cancel()

    try:
        anyio.run(run)
    except* (KeyboardInterrupt, BrokenPipeError) as ends:  # Ctrl-C on Windows; client gone
        log.info("Ending: %s", ends.exceptions)
    _end()


def serve_plainly() -> NoReturn:
    """Serve as `kbhub serve` does without options."""
    env = dict(os.environ)
    serve(HubOptions(bases=parse_base_arguments((), env), serve=True, env=env))


async def _end_on_signal(scope: anyio.CancelScope, closed: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("Stopping on %s.", signal.Signals(number).name)
            scope.cancel()
            with anyio.move_on_after(GRACE_SECONDS, shield=True):
                await closed.wait()
            # The thread that reads the client's next line cannot be woken; the process ends without it.
            _end()


def _claim_wire() -> Streams:
    """Reserve standard input and output for the protocol.

    Whatever else the process or its children print, including buffered output, goes to standard error from now on;
    other readers of standard input get the end of file.
    """
    source, sink = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(null, 1)
    os.close(null)
    return Streams(source, sink)


def _end() -> NoReturn:
    """End the process at once: interpreter shutdown would take a fifth of a second and wait for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(0)


Loop = Callable[[Any, Any], Coroutine[Any, Any, None]]
"""Serves one connection on a stream of messages from the client and one to it."""

PROBE = "server/discover"

LAST_ANSWERS_SECONDS = 1.5
"""Time for calls that run when the client ends its input; clients kill after two seconds."""


class Transport(Protocol):
    """The client of a conversation."""

    async def hear(self) -> bytes:
        """Return the next data; empty at the end."""

    async def say(self, line: bytes) -> None:
        """Send a line. Can be cancelled even while the client does not read."""

    def gone(self) -> bool:
        """Return whether the client has closed its end, even if there is data left to read."""


async def converse(server: KbhubServer, client: Transport, protocol: str) -> None:
    """Serve a client by a server of its own until it ends the conversation; every line with an id is answered."""
    received, read = anyio.create_memory_object_stream[Any](0)
    write, sent = anyio.create_memory_object_stream[Any](0)
    calls = _Calls()
    async with anyio.create_task_group() as group:
        group.start_soon(_say, sent, client, group.cancel_scope, calls)
        group.start_soon(_hear, client, received, write.clone(), calls)
        low = server._lowlevel_server
        async with low.lifespan(low) as state, anyio.create_task_group() as serving:
            relayed, relay = anyio.create_memory_object_stream[Any](0)
            loop = partial(serve_dual_era_loop, low, lifespan_state=state)
            serving.start_soon(_relay, read, write, relayed, loop, protocol)
            await loop(relay, write)
            serving.cancel_scope.cancel()


class _Calls:
    """The requests of a client that are still to be answered."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._answered = anyio.Event()

    def heard(self, message: types.JSONRPCMessage) -> None:
        """Take note of a message from the client."""
        if isinstance(message, types.JSONRPCRequest) and message.method != LISTEN:
            self._ids.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId"))

    def said(self, message: types.JSONRPCMessage) -> None:
        """Take note of a message to the client."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._ids.discard(message.id)
            self._answered.set()

    async def over(self) -> None:
        """Wait until all are answered."""
        while self._ids:
            self._answered = anyio.Event()
            await self._answered.wait()


async def _hear(
    client: Transport, received: MemoryObjectSendStream[Any], write: MemoryObjectSendStream[Any], calls: _Calls
) -> None:
    """Pass on readable frames, and answer unreadable ones."""
    frames, over = Frames(), False
    async with received, write:
        while not over:
            data = await client.hear()
            over = not data
            for frame in frames.feed(data):
                if frame.refusal:
                    await write.send(frame.refusal)
                elif frame.message is not None and (message := _message(frame.message)):
                    calls.heard(message)
                    await received.send(SessionMessage(message))
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):  # the SDK cancels what runs when its input ends
            await calls.over()


async def _say(sent: Any, client: Transport, conversation: anyio.CancelScope, calls: _Calls) -> None:
    async def end_if_unheard() -> None:
        """End a conversation with a client that is gone and does not read."""
        while True:
            await anyio.sleep(LAST_WORDS_SECONDS)
            if client.gone():
                log.info("The client is gone, and does not read the remaining messages.")
                conversation.cancel()

    async with sent:
        async for item in sent:
            line = item if isinstance(item, bytes) else _line(item.message)
            async with anyio.create_task_group() as group:
                group.start_soon(end_if_unheard)
                await client.say(line)
                group.cancel_scope.cancel()
            if not isinstance(item, bytes):
                calls.said(item.message)


def _message(message: dict[str, Any]) -> types.JSONRPCMessage | None:
    """Convert a message to the SDK's type; None for a malformed answer."""
    if "method" in message:
        kind: type[types.JSONRPCMessage] = types.JSONRPCRequest if "id" in message else types.JSONRPCNotification
    else:
        kind = types.JSONRPCResponse if "result" in message else types.JSONRPCError
    try:
        return kind.model_validate(message, by_name=False)
    except ValidationError:
        log.info("The client sent a malformed answer.")
        return None


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        if not isinstance(message, types.JSONRPCResponse):
            raise
        log.exception("Cannot send an answer.")
        error = types.ErrorData(
            code=types.INTERNAL_ERROR, message="The answer cannot be encoded as JSON. The log has the cause."
        )
        return _line(types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error))


async def _relay(read: Any, write: Any, relayed: MemoryObjectSendStream[Any], loop: Loop, protocol: str) -> None:
    """Relay messages, except initial probes, which are answered here without fixing the era.

    The SDK infers the era from the client's first request, so a client that probes for the new era and then continues
    with `initialize` on the same pipe, as some versions of well-known ones do, would be refused.
    """
    deciding = True
    async with read, relayed:
        async for item in read:
            request = item.message if isinstance(item, SessionMessage) else None
            if deciding and isinstance(request, types.JSONRPCRequest):
                meta = (request.params or {}).get("_meta")
                deciding = request.method == PROBE and isinstance(meta, dict) and ENVELOPE in meta
                if deciding and protocol == "legacy":
                    only = "This server is set to serve only the protocol with `initialize`."
                    error = types.ErrorData(code=types.METHOD_NOT_FOUND, message=only)
                    await write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))
                    continue
                if deciding:
                    await _answer_probe(item, write, loop)
                    continue
            await relayed.send(item)


async def _answer_probe(probe: SessionMessage, write: Any, loop: Loop) -> None:
    """Answer a probe on a separate connection."""
    send, source = anyio.create_memory_object_stream[Any](1)
    sink, receive = anyio.create_memory_object_stream[Any](1)
    async with send, receive, anyio.create_task_group() as group:
        group.start_soon(loop, source, sink)
        await send.send(probe)
        async for answer in receive:
            await write.send(answer)
            if isinstance(answer.message, types.JSONRPCResponse | types.JSONRPCError):
                break
        group.cancel_scope.cancel()
