"""All tools with their titles and hints, as the SDK registers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.types import ToolAnnotations

from kbhub.tools.asking import Asking
from kbhub.tools.auditing import Auditing
from kbhub.tools.graph import Graph
from kbhub.tools.memories import Memories
from kbhub.tools.names import WRITERS
from kbhub.tools.reading import Reading
from kbhub.tools.searching import Searching
from kbhub.tools.status import Statuses
from kbhub.tools.writing import Writing

if TYPE_CHECKING:
    from kbhub.tools.calls import Calls
    from kbhub.tools.names import ToolName

DESTRUCTIVE: frozenset[ToolName] = frozenset(("forget", "write_document", "delete_document"))
"""Tools that may take away what was there."""


@dataclass(frozen=True, slots=True)
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


def tools_of(calls: Calls) -> tuple[Registered, ...]:
    """Give every tool, in the order of their list."""
    graph, memories, writing = Graph(calls), Memories(calls), Writing(calls)
    return (
        Registered("search", "Search knowledge", Searching(calls).search),
        Registered("read", "Read documents", Reading(calls).read),
        Registered("ask", "Answer a question", Asking(calls).ask),
        Registered("related", "Related documents", graph.related),
        Registered("tags", "Tags and their documents", graph.tags),
        Registered("status", "Knowledge status", Statuses(calls).status),
        Registered("remember", "Remember", memories.remember),
        Registered("memories", "List memories", memories.memories),
        Registered("forget", "Forget memories", memories.forget),
        Registered("write_document", "Write a document", writing.write_document),
        Registered("delete_document", "Delete a document", writing.delete_document),
        Registered("rename_document", "Rename a document", writing.rename_document),
        Registered("audit", "Audit documents", Auditing(calls).audit),
    )
