"""Extensions of the protocol: views of results (MCP Apps, SEP-1865), and skills (SEP-2640)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.extension import Extension, MethodBinding
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import PaginatedRequestParams, RequestParams

from kbhub import __version__

if TYPE_CHECKING:
    from mcp.server.extension import RequestHandler
    from mcp.types import CallToolResult, Tool

    from kbhub.hub import Hub
    from kbhub.memory.results import MemoryList
    from kbhub.render import html as templates
    from kbhub.types import SearchResult

VIEWS: dict[str, templates.View] = {"search": "search", "memories": "memories"}
"""Tool → the view of its results."""

HTML = "kbhub/html"
"""Key of the part in `_meta`."""


class Apps(Extension):
    """Tells clients that results have views."""

    identifier = EXTENSION_ID


def address_of(view: templates.View) -> str:
    """Return the address of a view's page."""
    return f"ui://kbhub/{view}"


def with_view(tool: Tool) -> Tool:
    """Return a tool's definition that names its view, if it has one."""
    if tool.name not in VIEWS:
        return tool
    return tool.model_copy(update={"meta": {"ui": {"resourceUri": address_of(VIEWS[tool.name])}}})


def page_at(address: str) -> list[ReadResourceContents] | None:
    """Return the page at an address; None if there is none."""
    view = next((view for view in VIEWS.values() if address_of(view) == address), None)
    if view is None:
        return None
    html = _views().page(view, __version__)
    return [ReadResourceContents(html, APP_MIME_TYPE, {"ui": {"prefersBorder": True}})]


def with_hits(answer: CallToolResult, result: SearchResult) -> CallToolResult:
    """Return the answer of `search` with the data of its view; the result must have traces."""
    return _filled(answer, _views().hits(result))


def with_memories(answer: CallToolResult, hub: Hub, found: MemoryList) -> CallToolResult:
    """Return the answer of `memories` with the data of its view."""
    writable = not hub.config().settings.read_only
    return _filled(answer, _views().memories(hub, found, writable=writable))


def _filled(answer: CallToolResult, html: str) -> CallToolResult:
    return answer.model_copy(update={"meta": {**(answer.meta or {}), HTML: html}})


def _views() -> Any:
    # The templates take 0.1 s to load, and most clients show no views.
    from kbhub.render import html as templates  # noqa: PLC0415

    return templates


SCHEME = "skill://"


class SkillParams(RequestParams):
    """Names a skill."""

    uri: str


class FolderParams(PaginatedRequestParams):
    """Names a folder of a skill."""

    uri: str


class Skills(Extension):
    """Serves the skills of a hub's bases; those of a project only after `kbhub trust --documents`."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def settings(self) -> dict[str, Any]:
        """Announce that folders of skills are listed, too."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the extension's methods."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, self._answered("list_skills", "cursor")),
            MethodBinding("skills/get", SkillParams, self._answered("get_skill", "uri")),
            MethodBinding("resources/directory/read", FolderParams, self._answered("read_folder", "uri", "cursor")),
        )

    def _answered(self, request: str, *parameters: str) -> RequestHandler:
        async def handle(_context: Any, params: Any) -> dict[str, Any]:
            values = [getattr(params, name) for name in parameters]
            result: dict[str, Any] = await getattr(_requests(), request)(self._hub, *values)
            return result

        return handle


async def read_skill(hub: Hub, uri: str) -> list[ReadResourceContents]:
    """Return a file of a skill."""
    contents: list[ReadResourceContents] = await _requests().read_skill(hub, uri)
    return contents


def _requests() -> Any:
    # Few clients ask for skills, and all wait for the handshake.
    from kbhub.server import resources  # noqa: PLC0415

    return resources
