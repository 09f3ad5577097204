"""Limits on the size and number of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.types import Message, Receive

BODY_BYTES = 1 << 20
"""Largest form: the longest memory percent-encoded, and the ids of hundreds of others."""

MOST_AT_A_TIME = 128
"""Concurrent requests, including streams of events: more tabs and clients than one user has."""

BODY_SECONDS = 30.0
"""Timeout for the body of a request: 4 MiB over a slow network."""

DRAIN_BYTES, DRAIN_SECONDS = 64 << 20, 2.0
"""How much of a refused request is still read before the answer: most clients send everything before they read, and
would otherwise only see a broken connection."""


async def read_body(receive: Receive, most: int) -> bytes | None:
    """Read a body; None if it has more than `most` bytes.

    Raises `ClientDisconnect` if the client leaves early, `TimeoutError` if it takes longer than `BODY_SECONDS`.
    """
    body = bytearray()
    with anyio.fail_after(BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > most:
                return None
            if not message.get("more_body", False):
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
