"""The client of a connection: what it can do, what it is asked (its model, user, roots), and what it is told."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter, methodcaller
from typing import Any, Literal, TypeVar
from urllib.parse import quote, unquote

import anyio
from anyio.from_thread import BlockingPortal
from anyio.to_thread import run_sync
from mcp import MCPError, types
from mcp.server import ServerRequestContext
from mcp.server.apps import client_supports_apps
from mcp.server.extension import Extension
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from kbhub.errors import IndexUnavailable, KbhubError
from kbhub.hub import Hub
from kbhub.index import catalogue
from kbhub.server.definitions import offered
from kbhub.server.frames import LISTEN
from kbhub.types import Base

AnyContext = Context[Any, Any] | ServerRequestContext[Any, Any]

STATELESS_SINCE = "2026-07-28"
"""First version of the protocol in which the server asks by the result of a call, not by a request of its own."""


def is_stateless(context: AnyContext) -> bool:
    """Return whether the client is asked by the result of a call, not by a request of the server."""
    return (context.protocol_version or "") >= STATELESS_SINCE


def offers(context: AnyContext | None, capability: str) -> bool:
    """Return whether the client can be asked for `sampling` by its model, `elicitation` of its user, or its `roots`."""
    if context is None or (isinstance(context, Context) and context.protocol_version is None):
        return False
    offered_to_us = getattr(context.session.client_capabilities, capability, None) is not None
    return offered_to_us and (is_stateless(context) or context.session.can_send_request)


def client_name(context: Context[None, Any]) -> str | None:
    """Return the name of the calling client, as it states it, or None."""
    if context.protocol_version is None:
        return None
    params = context.session.client_params
    return params.client_info.name if params else None


class ServerExtension(Extension):
    """What an extension adds to the MCP server of a hub: the SDK's tools, resources and methods, and these."""

    has_views = False
    """Whether it shows results as views, in clients that have MCP Apps."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def definition(self, tool: types.Tool) -> types.Tool:
        """Return a tool's definition for a client that shows views."""
        return tool

    def answer(self, answer: types.CallToolResult, _result: Any) -> types.CallToolResult:
        """Return an answer for a client that shows views; hits have their traces in `_result`."""
        return answer

    async def read(self, _uri: str) -> list[ReadResourceContents] | None:
        """Return the resource at an address; None if this extension has none there."""
        return None


def view_for(added: Iterable[ServerExtension], context: AnyContext) -> ServerExtension | None:
    """Return the extension whose views the calling client shows, if any."""
    called_directly = isinstance(context, Context) and context.protocol_version is None
    shows = not called_directly and client_supports_apps(context)
    return next(filter(attrgetter("has_views"), added), None) if shows else None


ANSWER_SECONDS = 50.0
"""How long a call waits for the user: several clients give up on it after 60 seconds."""

Reply = Literal["accept", "decline", "cancel"]

Answer = TypeVar("Answer", bound=types.Result)

_CHOICE: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing to fill in: to accept is yes."""


async def asked_for(context: Context[Any, Any], request: Any, kind: type[Answer], seconds: float) -> Answer:
    """Ask the client by a request of our own; raise `TimeoutError`, `MCPError` or `ValidationError`."""
    with anyio.fail_after(seconds):
        metadata = ServerMessageMetadata(related_request_id=context.request_id)
        answer: Answer = await context.session.send_request(request, kind, metadata=metadata)
        return answer


async def answer_of(
    context: Context[Any, Any], key: str, request: Any, kind: type[Answer], seconds: float
) -> Answer | types.InputRequiredResult | None:
    """Ask the client and return its answer, None without one in time, or the result for the call to return instead."""
    if context.request_state == key:
        answer = (context.input_responses or {}).get(key)
        return answer if isinstance(answer, kind) else None
    if is_stateless(context):
        return types.InputRequiredResult(input_requests={key: request}, request_state=key)
    try:
        return await asked_for(context, request, kind, seconds)
    except (MCPError, TimeoutError, ValidationError) as error:
        log.info("The client gave no answer: %s", error)
        return None


async def confirm(context: Context[Any, Any], key: str, question: str) -> Reply | types.InputRequiredResult | None:
    """Ask the user yes or no, as `answer_of`; `cancel` without a reply in time, None if the client cannot ask."""
    if not offers(context, "elicitation"):
        return None
    request = types.ElicitRequest(params=types.ElicitRequestFormParams(message=question, requested_schema=_CHOICE))
    answer = await answer_of(context, key, request, types.ElicitResult, ANSWER_SECONDS)
    return answer.action if isinstance(answer, types.ElicitResult) else answer or "cancel"


ROOTS_SECONDS = 2.0
"""Timeout for the client's roots. Clients have them in memory; a few never answer."""

_KEY = "roots"


class RootsQuestion:
    """The request for a client's roots, sent once if it can answer; `again` if an earlier answer is outdated."""

    def __init__(self, *, again: bool = False) -> None:
        self.again = again
        self._asked = False
        self._done = anyio.Event()

    async def ask(self, context: Context[Any, Any]) -> tuple[str, ...] | types.InputRequiredResult:
        """Get the client's roots, after which to `settle`, none if it was asked before, or a result to return."""
        if not offers(context, "roots"):
            return ()
        if self._asked and context.request_state != _KEY:
            # Another call is waiting for the answer, so wait with it.
            with anyio.move_on_after(ROOTS_SECONDS):
                await self._done.wait()
            return ()
        self._asked = True
        answer = await answer_of(context, _KEY, types.ListRootsRequest(), types.ListRootsResult, ROOTS_SECONDS)
        if isinstance(answer, types.ListRootsResult):
            return tuple(str(root.uri) for root in answer.roots)
        return answer or ()

    def settle(self) -> None:
        """Release the calls that wait for the answer: it has been applied, or there is none."""
        self.again = False
        self._done.set()


TEMPLATE = "kbhub://{base}/{+path}"

# What RFC 6570 does not escape in `{+path}`, without `?`, `#` and brackets, which would end or break the path.
_KEPT = ":/@!$&'()*+,;="

_ADDRESS = re.compile(r"kbhub://([^/?#]+)/([^?#]+)", re.IGNORECASE)
_ODD = re.compile(r"[%?#\[\]]")

Address = tuple[str, str]

State = tuple[object, dict[str, bytes]]
"""A value that changes with the index, and path → hash of its documents."""

_NOTHING: State = (None, {})


def uri_of(base: str, path: str) -> str:
    """Return the address of a document by base id and path relative to the base, with `/`."""
    return f"kbhub://{quote(base, safe='')}/{quote(path, safe=_KEPT)}"


def parse_uri(uri: str) -> Address | None:
    """Return the base and path of an address, however it is escaped, or None if it is not one of ours."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        return None
    base, path = map(unquote, match.groups())
    return (base, path) if base and path else None


def template_value(path: str) -> str:
    """Return a path as a value of `{+path}`, which leaves escaped characters as they are (RFC 6570, 3.2.3)."""
    return _ODD.sub(lambda match: quote(match[0], safe=""), path)


log = logging.getLogger(__name__)

LIST_SECONDS = 2.0
"""Least time between two announcements of a changed document list: a client fetches the list again each time."""

SESSION = "mcp-session-id"
"""The header that names a session over HTTP."""

MOST_SESSIONS = 200
"""Most HTTP sessions that are notified; the one silent longest is dropped first."""

MAX_LISTENED = 10_000
"""Most documents per client of 2026-07-28; its streams have their own limits."""


class Announcer:
    """Tracks what the lists of tools and resources depend on, and notifies clients of changes.

    Clients of 2026-07-28 receive what they subscribed to on the bus. Those of the handshake era are notified through
    the session of their last message: the SDK makes one per message, and a notification through any of them uses the
    connection's own channel. Over HTTP one server has several of them.
    """

    def __init__(self, hub: Hub) -> None:
        self.bus = InMemorySubscriptionBus()
        self.subscribed: set[str] = set()
        """Addresses of documents, as the client wrote them."""
        self._hub = hub
        self._lock = threading.Lock()
        self._told = self._made_of()
        self._known: dict[str, State] | None = None
        """Base → its documents as of the last look; None while they are not followed."""
        self._sessions: dict[str | None, Any] = {}
        """HTTP session (None on other transports) → channel to a client of the handshake era."""
        self._portal: BlockingPortal | None = None
        self._list_due: float | None = None
        """When the resource list may be announced again; None if no announcement is pending."""
        self._list_at = float("-inf")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[None]:
        """Send announcements to the client of one connection meanwhile."""
        async with BlockingPortal() as portal:
            self._portal, self._sessions = portal, {}
            self.subscribed, self._list_due, self._list_at = set(), None, float("-inf")
            with self._lock:
                self._known = None
            try:
                yield
            finally:
                self._portal, self._sessions = None, {}
                # A client that stops reading must not block shutdown.
                await portal.stop(cancel_remaining=True)

    async def remember(self, ctx: Any, call_next: Any) -> Any:
        """Middleware: remember how to notify the client, and its subscriptions; the SDK rejects malformed ones."""
        notifications = (ctx.params or {}).get("notifications") if ctx.method == LISTEN else None
        if (ctx.protocol_version or "") < STATELESS_SINCE:
            # The channel to a client of the handshake era; over HTTP one per session.
            name = ctx.request.headers.get(SESSION) if ctx.request else None
            if not ctx.request or name is not None:  # else it is the handshake itself
                self._sessions.pop(name, None)
                while len(self._sessions) >= MOST_SESSIONS:
                    del self._sessions[next(iter(self._sessions))]
                self._sessions[name] = ctx.session
        elif isinstance(notifications, Mapping):
            uris = notifications.get("resourceSubscriptions")
            if isinstance(uris, list):
                room = MAX_LISTENED - len(self.subscribed)
                self.subscribed |= {uri for uri in uris[:room] if isinstance(uri, str)}
            if uris or notifications.get("resourcesListChanged"):
                try:
                    await run_sync(self.follow_documents)
                except KbhubError:  # the next answer reports it, and the next list or subscription tries again
                    log.debug("Documents are not followed while the configuration is wrong.")
        return await call_next(ctx)

    def follow_documents(self) -> None:
        """Compare documents from now on, 10 ms for a large base after each change; not on the event loop's thread."""
        with self._lock:
            if self._known is None:
                self._known = {base.id: self._state(base, _NOTHING) for base in self._hub.discovery().bases}

    def look(self) -> None:
        """Announce changes since the last look; do not call it on the event loop's thread."""
        with self._lock:
            before, now = self._told, self._made_of()
            if now is None:
                return
            known, states = self._known, dict[str, State]()
            listed, changed, bases = False, set[Address](), tuple[Base, ...]()
            try:
                bases = self._hub.discovery().bases if known is not None else ()
                for base in bases:
                    earlier = (known or {}).get(base.id)
                    states[base.id] = latest = self._state(base, earlier or _NOTHING)
                    if earlier and earlier[1] is not latest[1]:
                        listed = listed or earlier[1].keys() != latest[1].keys()
                        changed |= {(base.id, path) for path, _ in earlier[1].items() ^ latest[1].items()}
            except KbhubError:  # the configuration has just become invalid
                return
            self._told, self._known = now, None if known is None else states
        tools, resources = before is None or before[0] != now[0], before is None or before[1] != now[1]
        uris = []
        if changed and self.subscribed:
            names = {name: base.id for base in bases for name in (base.id, *base.names)}
            addresses = ((uri, parse_uri(uri)) for uri in set(self.subscribed))
            uris = sorted(uri for uri, at in addresses if at and (names.get(at[0], at[0]), at[1]) in changed)
        portal = self._portal
        try:
            if portal and (tools or resources or uris):
                portal.start_task_soon(self._announce, tools, resources, uris)
            if portal and listed and not resources:
                portal.start_task_soon(self._announce_list)
        except RuntimeError:  # the connection has just ended
            log.debug("Nobody is left to be told of a change.")

    def _made_of(self) -> tuple[object, object] | None:
        """Return the states behind the lists of tools and resources; None while the configuration is invalid."""
        try:
            tools, bases = offered(self._hub), self._hub.discovery().bases
        except KbhubError:  # every answer reports it; the lists stay as they were
            return None
        return tools, [base.model_copy(update={"weight": 1.0, "writable": False}) for base in bases]

    def _state(self, base: Base, before: State) -> State:
        index = self._hub.index(base)
        try:
            with index.snapshot():
                mark = (index.path, index.generation())
                return before if mark == before[0] else (mark, catalogue.content_hashes(index))
        except IndexUnavailable:  # it is being built or rebuilt; keep the recorded state
            return before

    async def _announce(self, tools: bool, resources: bool, uris: Iterable[str]) -> None:
        for uri in uris:
            await self._tell(ResourceUpdated(uri=uri), methodcaller("send_resource_updated", uri))
        if tools:
            await self._tell(ToolsListChanged(), methodcaller("send_tool_list_changed"))
        if resources:
            self._list_at = anyio.current_time()
            await self._tell(ResourcesListChanged(), methodcaller("send_resource_list_changed"))

    async def _tell(self, event: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """Notify the clients: those of 2026-07-28 of an event, those of the handshake era by a method of a session."""
        await self.bus.publish(event)
        for name, session in list(self._sessions.items()):
            try:
                await send(session)
            except (MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                log.debug("The client could not be told of a change: %s", error)
                if name is not None:
                    self._sessions.pop(name, None)

    async def _announce_list(self) -> None:
        """Announce a changed document list, at most every `LIST_SECONDS`."""
        if self._list_due is not None:
            return
        self._list_due = self._list_at + LIST_SECONDS
        await anyio.sleep_until(self._list_due)
        self._list_due = None
        await self._announce(tools=False, resources=True, uris=())
