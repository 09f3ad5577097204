"""What to tell and ask a new daemon after one died. Light: every editor window loads it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kbhub.workspace.tool_names import ALL, WRITERS

LISTEN = "subscriptions/listen"
"""The request whose answer is a stream of notifications, open as long as the client wants."""

READING_METHODS = frozenset(
    (
        *("initialize", "ping", "server/discover", "logging/setLevel", "completion/complete"),
        *("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get"),
        *("resources/subscribe", "resources/unsubscribe"),
    )
)
"""Requests that can be repeated."""

READING_TOOLS = frozenset(ALL) - WRITERS
"""Tools that can be called again."""

MOST_SENDINGS = 2
"""How often a request is sent: what crashed two daemons would crash the third."""

SUBSCRIBED = 10_000
"""Most subscriptions that are restored, the oldest first."""

_VERSION = "io.modelcontextprotocol/protocolVersion"
_LOST = -32000
"""Error code for a request whose server went away; the SDKs use it too."""


def key_of(identifier: Any) -> str:
    """Return a key for the id of a request: 1 and "1" are different."""
    return json.dumps(identifier)


class Pending(NamedTuple):
    """A request of the client without an answer yet."""

    id: Any
    line: bytes
    method: str
    tool: str
    modern: bool
    """Whether it belongs to the protocol era without a handshake."""
    sent: int = 0

    @property
    def may_repeat(self) -> bool:
        """Whether repeating it does no harm."""
        if not self.sent or self.method == LISTEN:
            return True
        reads = self.tool in READING_TOOLS if self.method == "tools/call" else self.method in READING_METHODS
        return reads and self.sent < MOST_SENDINGS

    def failure(self) -> bytes:
        """Return an answer in place of the daemon: for a tool a result that a model reads, else an error."""
        again = "Nothing was changed; try again."
        if self.tool in WRITERS:
            again = "Whether it was done is not known: look before you call it again."
        text = f"The kbhub daemon ended while this was being done. {again}"
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id}
        if self.method == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": text}], "isError": True}
            if self.modern:
                answer["result"]["resultType"] = "complete"
        else:
            answer["error"] = {"code": _LOST, "message": text}
        return json.dumps(answer).encode() + b"\n"


def pending(message: dict[str, Any], line: bytes) -> Pending:
    """Build the record of a request.

    Args:
        message: the request.
        line: as received from the client.
    """
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    name = params.get("name")
    modern = isinstance(meta, dict) and _VERSION in meta
    tool = name if message["method"] == "tools/call" and isinstance(name, str) else ""
    return Pending(message["id"], line, message["method"], tool, modern)


class Conversation:
    """What a new daemon must know of a client: its handshake, its log level, its subscriptions."""

    def __init__(self) -> None:
        self._initialize: dict[str, Any] | None = None
        self._shaken = False
        """Whether the handshake was answered."""
        self._initialized: dict[str, Any] | None = None
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}

    def hear(self, message: dict[str, Any]) -> None:
        """Record a message of the client."""
        method, params = message.get("method"), message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        if method == "initialize":
            self._initialize, self._shaken, self._initialized = message, False, None
        elif method == "notifications/initialized":
            self._initialized = message
        elif method == "logging/setLevel":
            self._level = message
        elif method == "resources/subscribe" and isinstance(uri, str) and len(self._subscribed) < SUBSCRIBED:
            self._subscribed[uri] = message
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self._subscribed.pop(uri, None)

    def answered(self, asked: Pending) -> None:
        """Record that a request was answered."""
        if asked.method == "initialize":
            self._shaken = True

    @property
    def shaken(self) -> bool:
        """Whether the client has completed a handshake, so that a new daemon needs it too."""
        return self._shaken

    def again(self) -> list[dict[str, Any]]:
        """Return what to tell a new daemon before anything else, the handshake first."""
        messages = (
            [self._initialize, self._initialized, self._level, *self._subscribed.values()] if self._shaken else []
        )
        return [message for message in messages if message]
