"""All tools with their titles and hints, as the SDK registers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp.types import ToolAnnotations

from kbhub.tools.names import ALL, WRITERS
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.tools.calls import Calls
    from kbhub.tools.names import ToolName

PLACES: dict[ToolName, tuple[str, str, str]] = {
    "search": ("Search knowledge", "searching", "Searching"),
    "read": ("Read documents", "reading", "Reading"),
    "ask": ("Answer a question", "asking", "Asking"),
    "related": ("Related documents", "graph", "Graph"),
    "tags": ("Tags and their documents", "graph", "Graph"),
    "status": ("Knowledge status", "status", "Statuses"),
    "remember": ("Remember", "memories", "Memories"),
    "memories": ("List memories", "memories", "Memories"),
    "forget": ("Forget memories", "memories", "Memories"),
    "write_document": ("Write a document", "writing", "Writing"),
    "delete_document": ("Delete a document", "writing", "Writing"),
    "rename_document": ("Rename a document", "writing", "Writing"),
    "audit": ("Audit documents", "auditing", "Auditing"),
}
"""Tool → its title, and the module and class whose method of the tool's name does the work. A module is loaded with the
first of its tools: all of them and their schemas take 0.4 s, and a client may call one without asking for the list."""

DESTRUCTIVE: frozenset[ToolName] = frozenset(("forget", "write_document", "delete_document"))
"""Tools that may take away what was there."""


@struct
class Registered:
    """A tool as it is registered."""

    name: ToolName
    title: str
    body: Callable[..., Any]

    @property
    def description(self) -> str:
        """What the docstring of the body says, on one line."""
        return " ".join((self.body.__doc__ or "").split())

    @property
    def hints(self) -> ToolAnnotations:
        """What a client may rely on when it decides whether to ask its user."""
        writes = self.name in WRITERS
        return ToolAnnotations(
            title=self.title,
            read_only_hint=not writes,
            destructive_hint=self.name in DESTRUCTIVE if writes else None,
            idempotent_hint=not writes,
            open_world_hint=False,
        )


def tools_of(calls: Calls, names: Sequence[str] = ALL) -> tuple[Registered, ...]:
    """Give tools, in the order of their list.

    Args:
        calls: what they work with.
        names: which ones.
    """
    return tuple(Registered(name, PLACES[name][0], _body(name, calls)) for name in ALL if name in names)


def _body(name: ToolName, calls: Calls) -> Callable[..., Any]:
    _, module, kind = PLACES[name]
    body: Callable[..., Any] = getattr(getattr(import_module(f"kbhub.tools.{module}"), kind)(calls), name)
    return body
