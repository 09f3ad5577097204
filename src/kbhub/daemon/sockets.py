"""TCP connections of the HTTP endpoint: how long one may wait with its request, and how many may."""

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
"""Connections of one address that wait with their request, or between two: clients have one or two. Beyond it the
one that has waited longest is closed, so that who knows what to say is never kept out by who does not."""

MOST_WAITING = 256
"""The same of all addresses, of which a machine has many for itself (127.0.0.0/8). With the requests that may be
answered at a time it stays below the 1,024 descriptors that a process usually has."""


class Waiting:
    """The connections that have not said what they want, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._since: dict[Patient, str] = {}

    def add(self, connection: Patient) -> None:
        """Take note that one waits; closes one if there are too many."""
        address = connection.client[0] if connection.client else ""
        self._since[connection] = address
        same = [one for one, its in self._since.items() if its == address]
        if len(same) > WAITING_OF_ADDRESS:
            same[0].close()
        elif len(self._since) > MOST_WAITING:
            next(iter(self._since)).close()

    def remove(self, connection: Patient) -> None:
        """Take note that one waits no more."""
        self._since.pop(connection, None)


class Patient(H11Protocol):
    """A connection that is closed when its patience with the client ends; uvicorn's own waits for ever."""

    waiting: Waiting
    """Shared by the connections of one endpoint."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._forget()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch(idle=True)

    def close(self) -> None:
        """Hang up on a client that has not said what it wants."""
        self._forget()
        self.transport.abort()

    def _watch(self, *, idle: bool = False) -> None:
        """Wait for the rest of a header, or for nothing while a request is being answered.

        Args:
            idle: whether nothing of a header has come; uvicorn has a timer of its own for that.
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


def patient() -> type[Patient]:
    """Make the class of one endpoint's connections."""
    shared: dict[str, Any] = {"waiting": Waiting()}
    return type("Connection", (Patient,), shared)
