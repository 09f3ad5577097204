"""Tells the clients of both protocol eras that the tools or resources are others now."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import BlockingPortal
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ToolsListChanged

from kbhub.errors import KbhubError
from kbhub.roots import STATELESS_SINCE

if TYPE_CHECKING:
    from kbhub.hub import Hub

log = logging.getLogger(__name__)

TOOL_SETTINGS = frozenset(("read_only", "tools"))
"""Settings that decide which tools there are."""


class Announcer:
    """Knows what the lists of tools and resources are made of, and tells the client when that changes.

    A client of 2026-07-28 hears what it listens for on the bus. One of the handshake era is told through the session
    of its last message: the SDK makes one for each, and a notification through any of them takes the connection's own
    way.

    Args:
        hub: whose bases and settings count.
    """

    def __init__(self, hub: Hub) -> None:
        self.bus = InMemorySubscriptionBus()
        self._hub = hub
        self._lock = threading.Lock()
        self._told = self._made_of()
        self._session: Any = None
        self._portal: BlockingPortal | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[None]:
        """Announce to the client of one connection what is looked at meanwhile."""
        async with BlockingPortal() as portal:
            self._portal, self._session = portal, None
            try:
                yield
            finally:
                self._portal = self._session = None
                # A client that does not read any more must not hold up the end.
                await portal.stop(cancel_remaining=True)

    async def remember(self, ctx: Any, call_next: Any) -> Any:
        """Middleware: keep the session of a client of the handshake era, in which nobody subscribes to lists."""
        if (ctx.protocol_version or "") < STATELESS_SINCE:
            self._session = ctx.session
        return await call_next(ctx)

    def look(self) -> None:
        """Announce what has changed since the last look; not to be called on the event loop's thread."""
        with self._lock:
            before, now = self._told, self._made_of()
            if now is None or now == before:
                return
            self._told = now
        tools, resources = (before is None or old != new for old, new in zip(before or now, now, strict=True))
        portal = self._portal
        try:
            if portal:
                portal.start_task_soon(self._announce, tools, resources)
        except RuntimeError:  # the connection has just ended
            log.debug("Nobody is left to be told of a change.")

    def _made_of(self) -> tuple[object, object] | None:
        """Give what decides about the tools and about the resources; none while the configuration is wrong."""
        try:
            settings, bases = self._hub.config().settings, self._hub.discovery().bases
        except KbhubError:  # every answer says so; what there is meanwhile is what there was
            return None
        tools = settings.model_dump(include=set(TOOL_SETTINGS)), any(base.writable for base in bases)
        return tools, [base.model_dump(exclude={"weight", "writable"}) for base in bases]

    async def _announce(self, tools: bool, resources: bool) -> None:
        session = self._session
        try:
            if tools:
                await self.bus.publish(ToolsListChanged())
                if session:
                    await session.send_tool_list_changed()
            if resources:
                await self.bus.publish(ResourcesListChanged())
                if session:
                    await session.send_resource_list_changed()
        except (MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            log.debug("The client could not be told of a change: %s", error)
