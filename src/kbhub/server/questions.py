"""What the server asks the calling client for: its model, its user, its roots."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
)
from pydantic import ValidationError

from kbhub.documents.safe_text import one_line

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.types import ClientCapabilities

    from kbhub.hub import Hub

STATELESS_SINCE = "2026-07-28"
"""First version of the protocol in which the server asks by the result of a call, not by a request of its own."""


def is_stateless(context: Context[Any, Any] | ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client is asked by the result of a call, not by a request of the server."""
    return (context.protocol_version or "") >= STATELESS_SINCE


def offers_model(context: Context[Any, Any] | ServerRequestContext[Any, Any] | None) -> bool:
    """Return whether the client offers its model (sampling) and can be asked."""
    capabilities = _capabilities(context)
    return capabilities is not None and capabilities.sampling is not None and _can_be_asked(context)


def asks_user(context: Context[Any, Any] | ServerRequestContext[Any, Any] | None) -> bool:
    """Return whether the client can ask its user a question of the server (elicitation)."""
    capabilities = _capabilities(context)
    return capabilities is not None and capabilities.elicitation is not None and _can_be_asked(context)


def _capabilities(context: Context[Any, Any] | ServerRequestContext[Any, Any] | None) -> ClientCapabilities | None:
    if isinstance(context, Context):
        return context.client_capabilities if context.protocol_version is not None else None
    return context.session.client_capabilities if context is not None else None


def _can_be_asked(context: Any) -> bool:
    return (context.protocol_version or "") >= STATELESS_SINCE or context.session.can_send_request


log = logging.getLogger(__name__)

ANSWER_SECONDS = 50.0
"""How long a call waits for the user: several clients give up on it after 60 seconds."""

PATH_BYTES = 300
"""Most UTF-8 bytes shown of a path; one from a repository may be as long as it likes."""

Reply = Literal["accept", "decline", "cancel"]

_CHOICE: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing to fill in: to accept is yes."""


async def confirm(context: Context[Any, Any], key: str, question: str) -> Reply | InputRequiredResult | None:
    """Ask the user a question of yes or no; `key` tells questions apart, and the SDK seals it.

    Returns the reply, `cancel` without one in time; the result for the call to return so that the client asks and calls
    again; or None if the client cannot ask its user.
    """
    if not asks_user(context):
        return None
    if context.request_state == key:
        answer = (context.input_responses or {}).get(key)
        return answer.action if isinstance(answer, ElicitResult) else "cancel"
    request = ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=_CHOICE))
    if is_stateless(context):
        return InputRequiredResult(input_requests={key: request}, request_state=key)
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            metadata = ServerMessageMetadata(related_request_id=context.request_id)
            answered: ElicitResult = await context.session.send_request(request, ElicitResult, metadata=metadata)
            return answered.action
    except (MCPError, TimeoutError, ValidationError) as error:
        log.info("The user was asked and said nothing: %s", error)
        return "cancel"


class TrustQuestion:
    """The question whether the project's pointer may lead out of it: asked once a connection, never after a no."""

    def __init__(self) -> None:
        self._asked: tuple[Path, Path] | None = None

    async def ask(self, context: Context[Any, Any], hub: Hub, wanted: tuple[Path, Path]) -> InputRequiredResult | None:
        """Ask whether the pointer may lead to its target, unless that was done, and store the answer.

        Returns the result for the call to return, if the client is to call again with the answer.
        """
        # The answer comes with the question's state, and is of no use for another pointer or place.
        key = f"trust {wanted[0]} {wanted[1]}"
        if wanted == self._asked and context.request_state != key:
            return None
        self._asked = wanted
        pointer, target = (one_line(str(path), PATH_BYTES) for path in wanted)
        reply = await confirm(
            context,
            key,
            f"{pointer}, which came with the project, says that the project's knowledge is in {target}, outside "
            "the project. Allow kbhub to read and index that folder? Only allow it if you know the folder.",
        )
        if isinstance(reply, InputRequiredResult):
            return reply
        if reply in ("accept", "decline"):
            await run_sync(_keep, hub, wanted, reply == "accept")
        return None


def _keep(hub: Hub, wanted: tuple[Path, Path], allowed: bool) -> None:
    # What was shown is allowed, not what the pointer says by now.
    hub.trust.add(*wanted, use="knowledge" if allowed else "refused")
    hub.rediscover()


ROOTS_SECONDS = 2.0
"""Timeout for the client's roots. Clients have them in memory; a few never answer."""

_KEY = "roots"


class RootsQuestion:
    """The request for a client's roots: sent at most once, and only if the client can answer.

    `again` means that an earlier answer is outdated.
    """

    def __init__(self, *, again: bool = False) -> None:
        self.again = again
        self._asked = False
        self._done = anyio.Event()

    async def ask(self, context: Context[Any, Any]) -> tuple[str, ...] | InputRequiredResult:
        """Get the URIs of the client's roots, or the result with which the client calls again.

        The URIs are empty if the client has none or was asked before; after them, `settle` must be called.
        """
        capabilities = context.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return ()
        if (answer := (context.input_responses or {}).get(_KEY)) is not None or context.request_state == _KEY:
            return _uris(answer)
        if self._asked:
            # Another call is waiting for the answer, so wait with it.
            with anyio.move_on_after(ROOTS_SECONDS):
                await self._done.wait()
            return ()
        self._asked = True
        if is_stateless(context):
            return InputRequiredResult(input_requests={_KEY: ListRootsRequest()}, request_state=_KEY)
        return await self._request(context)

    def settle(self) -> None:
        """Release the calls that wait for the answer: it has been applied, or there is none."""
        self.again = False
        self._done.set()

    async def _request(self, context: Context[Any, Any]) -> tuple[str, ...]:
        try:
            if not context.session.can_send_request:
                return ()
            with anyio.fail_after(ROOTS_SECONDS):
                # `session.list_roots` does the same, with a deprecation warning.
                return _uris(await context.session.send_request(ListRootsRequest(), ListRootsResult))
        except (MCPError, TimeoutError, ValidationError) as error:
            log.info("The client gave no roots: %s", error)
            return ()


def _uris(answer: Any) -> tuple[str, ...]:
    return tuple(str(root.uri) for root in answer.roots) if isinstance(answer, ListRootsResult) else ()
