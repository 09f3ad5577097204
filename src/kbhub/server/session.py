"""Everything after the handshake: tools, resources, prompts, indexing and watching.

The server imports this module on a thread once a client has its tool list, or when a call needs it sooner, so that it
does not delay startup. Imports in it are ordinary; only numpy waits for the first query (see `search.search`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.types import ToolAnnotations

from kbhub.server.parameters import Arguments
from kbhub.server.prompts import prompts_of
from kbhub.server.resources.documents import Resources
from kbhub.server.tools.ask import Asking
from kbhub.server.tools.calls import Calls
from kbhub.server.tools.memories import Memories
from kbhub.server.tools.read import GraphTools, ReadTool
from kbhub.server.tools.search import Searching
from kbhub.server.tools.status import AuditTool, Statuses
from kbhub.server.tools.write import Writing
from kbhub.values import struct
from kbhub.workspace.tool_names import ALL, TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.server.mcpserver.prompts.base import Prompt
    from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata

    from kbhub.hub import Hub
    from kbhub.server.notifications import Announcer
    from kbhub.workspace.tool_names import ToolName

CLASSES = (Searching, ReadTool, Asking, GraphTools, Statuses, Memories, Writing, AuditTool)
"""Each has a method per tool, of the tool's name."""


class ServerSession:
    """Answers the requests of a connection; `structured` adds structured content to the text of results."""

    def __init__(self, hub: Hub, announcer: Announcer, *, structured: bool) -> None:
        self.calls = Calls(hub, announcer, structured=structured)
        self.resources = Resources(self.calls)

    def tools(self, names: Sequence[str]) -> tuple[Tool, ...]:
        """Return the tools with these names, in the order of their list."""
        return tools_of(self.calls, names)

    def prompts(self, offered: Callable[[], Sequence[str]]) -> tuple[Prompt, ...]:
        """Return every prompt; `offered` returns the tools that they may name."""
        return prompts_of(self.calls.hub, offered)

    def arguments(self, metadata: FuncMetadata) -> Arguments:
        """Return the parser of a tool's arguments, which replaces the SDK's."""
        return Arguments.model_construct(**dict(metadata))


@struct
class Tool:
    """A tool as the SDK registers it."""

    name: ToolName
    title: str
    body: Callable[..., Any]

    @property
    def description(self) -> str:
        """The docstring of the method, on one line."""
        return " ".join((self.body.__doc__ or "").split())

    @property
    def hints(self) -> ToolAnnotations:
        """Hints by which a client decides whether to ask its user."""
        kind = TOOLS[self.name]
        return ToolAnnotations(
            title=self.title,
            read_only_hint=kind.writes is None,
            destructive_hint=kind.destructive if kind.writes else None,
            idempotent_hint=kind.writes is None,
            open_world_hint=False,
        )


def tools_of(calls: Calls, names: Sequence[str] = ALL) -> tuple[Tool, ...]:
    """Return the tools with these names, in list order."""
    classes = {name: kind for kind in CLASSES for name in ALL if hasattr(kind, name)}
    return tuple(Tool(name, TOOLS[name].title, getattr(classes[name](calls), name)) for name in ALL if name in names)
