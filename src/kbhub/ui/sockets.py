"""TCP connections of the HTTP endpoint: timeouts for requests and limits on waiting connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEADER_SECONDS = 10.0
"""From the opening of a connection, or the first byte of a further request, to the end of the request's header."""

IDLE_SECONDS = 5
"""Between two requests of one connection."""

WAITING_OF_ADDRESS = 64
"""Most connections of one address that wait for a request: clients have one or two. Beyond it the oldest is closed, so
that idle connections cannot lock out real clients."""

MOST_WAITING = 256
"""The same for all addresses, of which a machine has many for itself (127.0.0.0/8). With the concurrent requests it
stays below the usual limit of 1,024 descriptors per process."""


class Waiting:
    """Connections without a request, oldest first."""

    def __init__(self) -> None:
        self._since: dict[HeaderTimeout, str] = {}

    def add(self, connection: HeaderTimeout) -> None:
        """Add a connection; closes one if there are too many."""
        address = connection.client[0] if connection.client else ""
        self._since[connection] = address
        same = [other for other, its in self._since.items() if its == address]
        if len(same) > WAITING_OF_ADDRESS:
            same[0].close()
        elif len(self._since) > MOST_WAITING:
            next(iter(self._since)).close()

    def remove(self, connection: HeaderTimeout) -> None:
        """Remove a connection."""
        self._since.pop(connection, None)


class HeaderTimeout(H11Protocol):
    """A connection with a timeout for requests; uvicorn's own waits forever."""

    waiting: Waiting
    """Shared by the connections of one endpoint."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for a request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle received data."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch(idle=True)

    def close(self) -> None:
        """Disconnect a client that has not sent a request."""
        self._forget()
        self.transport.abort()

    def _watch(self, *, idle: bool = False) -> None:
        """Set the timeout for the rest of a header, unless a request is being answered.

        `idle` means that no byte of a header has come, for which uvicorn has its own timer.
        """
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._forget()
            return
        if self._timer is None and not idle:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.close)
        self.waiting.add(self)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waiting.remove(self)


def patient() -> type[HeaderTimeout]:
    """Create the protocol class for one endpoint."""
    shared: dict[str, Any] = {"waiting": Waiting()}
    return type("Connection", (HeaderTimeout,), shared)
