"""Take the workspace from an MCP client's roots, requested in the first call as its protocol era requires."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
from mcp import MCPError
from mcp.types import InputRequiredResult, ListRootsRequest, ListRootsResult
from pydantic import ValidationError

from kbhub.server.capabilities import is_stateless

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

log = logging.getLogger(__name__)

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
