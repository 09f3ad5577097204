"""One client's conversation with a server over any transport: bytes in, lines out, either protocol era."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from kbhub.server.frames import Frame, Frames
from kbhub.server.notifications import LISTEN

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream

    from kbhub.server.server import KbhubServer

log = logging.getLogger(__name__)

Loop = Callable[[Any, Any], Coroutine[Any, Any, None]]
"""Serves one connection on a stream of messages from the client and one to it."""

PROBE = "server/discover"
ENVELOPE = "io.modelcontextprotocol/protocolVersion"
"""Key in `_meta` that only requests of 2026-07-28 and later have."""

LAST_WORDS_SECONDS = 0.4
"""Time for a client that has closed its end to read the last output; clients kill after two seconds."""


LAST_ANSWERS_SECONDS = 1.5
"""Time for calls that run when the client ends its input; clients kill after two seconds."""


class Transport(Protocol):
    """The client of a conversation."""

    async def hear(self) -> bytes:
        """Return the next data; empty at the end."""

    async def say(self, line: bytes) -> None:
        """Send a line. Can be cancelled even while the client does not read."""

    def say_at_once(self, line: bytes) -> bool:
        """Send a line if that cannot block; return whether it was sent."""

    def gone(self) -> bool:
        """Return whether the client has closed its end, even if there is data left to read."""


async def converse(server: KbhubServer, client: Transport, protocol: str) -> None:
    """Serve one client of either era until it ends the conversation. Every line with an id is answered.

    The server must be for this client only; `protocol` is one of `PROTOCOLS`.
    """
    received, read = anyio.create_memory_object_stream[Any](0)
    write, sent = anyio.create_memory_object_stream[Any](0)
    calls = _Calls()
    async with anyio.create_task_group() as group:
        group.start_soon(_say, sent, client, group.cancel_scope, calls)
        group.start_soon(_hear, client, received, write.clone(), calls)
        await serve_messages(server, read, write, protocol)


class _Calls:
    """The requests of a client that are still to be answered."""

    def __init__(self) -> None:
        self._ids: set[RequestId] = set()
        self._answered = anyio.Event()

    def heard(self, message: JSONRPCMessage) -> None:
        """Take note of a message from the client."""
        if isinstance(message, JSONRPCRequest) and message.method != LISTEN:
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId"))

    def said(self, message: JSONRPCMessage) -> None:
        """Take note of a message to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
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
    frames = Frames()

    async def take(frame: Frame) -> None:
        if frame.refusal is not None:
            await write.send(frame.refused)
        elif frame.message is not None and (message := _message(frame.message)):
            calls.heard(message)
            await received.send(SessionMessage(message))

    async with received, write:
        while data := await client.hear():
            for frame in frames.feed(data):
                await take(frame)
        await take(frames.end())
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):  # the SDK cancels what runs when its input ends
            await calls.over()


async def _say(sent: Any, client: Transport, conversation: anyio.CancelScope, calls: _Calls) -> None:
    async with sent:
        async for item in sent:
            line = item if isinstance(item, bytes) else _line(item.message)
            if not client.say_at_once(line):  # a thread and two tasks cost half a millisecond of two busy cores
                async with anyio.create_task_group() as group:
                    group.start_soon(_end_if_unheard, client, conversation)
                    await client.say(line)
                    group.cancel_scope.cancel()
            if not isinstance(item, bytes):
                calls.said(item.message)


async def _end_if_unheard(client: Transport, conversation: anyio.CancelScope) -> None:
    """End a conversation with a client that is gone and does not read."""
    while True:
        await anyio.sleep(LAST_WORDS_SECONDS)
        if client.gone():
            log.info("The client is gone, and does not read the remaining messages.")
            conversation.cancel()


def _message(message: dict[str, Any]) -> JSONRPCMessage | None:
    """Convert a message to the SDK's type; None for a malformed answer."""
    if "method" in message:
        kind: type[JSONRPCMessage] = JSONRPCRequest if "id" in message else JSONRPCNotification
    else:
        kind = JSONRPCResponse if "result" in message else JSONRPCError
    try:
        return kind.model_validate(message, by_name=False)
    except ValidationError:
        log.info("The client sent a malformed answer.")
        return None


def _line(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        if not isinstance(message, JSONRPCResponse):
            raise
        log.exception("Cannot send an answer.")
        error = ErrorData(code=INTERNAL_ERROR, message=("The answer cannot be encoded as JSON. The log has the cause."))
        return _line(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))


async def serve_messages(server: KbhubServer, read: Any, write: Any, protocol: str) -> None:
    """Serve one client of either era, by messages instead of bytes, until it ends the conversation.

    The server must be for this client only; `protocol` is one of `PROTOCOLS`.
    """
    low = server._lowlevel_server
    async with low.lifespan(low) as state, anyio.create_task_group() as group:
        relayed, relay = anyio.create_memory_object_stream[Any](0)
        loop = partial(serve_dual_era_loop, low, lifespan_state=state)
        group.start_soon(_relay, read, write, relayed, loop, protocol)
        await loop(relay, write)
        group.cancel_scope.cancel()


async def _relay(read: Any, write: Any, relayed: MemoryObjectSendStream[Any], loop: Loop, protocol: str) -> None:
    """Relay messages, except initial probes, which are answered here without fixing the era.

    The SDK infers the era from the client's first request, so a client that probes for the new era and then continues
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
    error = ErrorData(
        code=METHOD_NOT_FOUND, message=("This server is set to serve only the protocol with `initialize`.")
    )
    await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))


async def _answer_probe(probe: SessionMessage, write: Any, loop: Loop) -> None:
    """Answer a probe on a separate connection."""
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
