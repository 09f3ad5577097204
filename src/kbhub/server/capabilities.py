"""What the calling client can do for the server: lend its model, ask its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.types import ClientCapabilities

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
