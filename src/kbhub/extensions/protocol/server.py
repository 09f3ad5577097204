"""Views of results, and what is announced of skills; all clients wait for this module during the handshake."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.extension import MethodBinding
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import INVALID_PARAMS, CallToolResult, PaginatedRequestParams, Tool

from kbhub import __version__
from kbhub.errors import KbhubError
from kbhub.server.client import ServerExtension
from kbhub.types import SearchResult
from kbhub.workspace.extensions import load

if TYPE_CHECKING:
    from kbhub.memory.results import MemoryList

VIEWS = {"search": "ui://kbhub/search", "memories": "ui://kbhub/memories"}

HTML = "kbhub/html"

MOST_SHOWN = 20
"""Hits or memories of one view; the text for the model has all."""

HERE = Path(__file__).parent


class Apps(ServerExtension):
    """Shows hits and memories as HTML, in clients that have MCP Apps."""

    identifier = EXTENSION_ID
    has_views = True

    def definition(self, tool: Tool) -> Tool:
        """Name the view of a tool."""
        address = VIEWS.get(tool.name)
        return tool.model_copy(update={"meta": {"ui": {"resourceUri": address}}}) if address else tool

    def answer(self, answer: CallToolResult, result: SearchResult | MemoryList) -> CallToolResult:
        """Add the data of the view."""
        if isinstance(result, SearchResult):
            leading = load("kbhub.search.judge:LEADING_NOTES")
            notes = [note for note in result.notes if note not in leading]
            html = _rendered("view_hits.html", result=result, shown=result.hits[:MOST_SHOWN], notes=notes)
        else:  # for reviewing memories, with what changes them if they may be changed
            curve, known = load("kbhub.render.html:strength_curve"), load("kbhub.memory.catalog:all_known")(self.hub)
            now, files = self.hub.options.clock(), {memory.facts.id: memory for memory in known}
            listed = [memory for memory in result.memories[:MOST_SHOWN] if memory.id in files]
            shown = [(memory, curve(files[memory.id], now)) for memory in listed]
            writable = not self.hub.config().settings.read_only
            html = _rendered("view_memories.html", shown=shown, total=result.total, now=now, writable=writable)
        return answer.model_copy(update={"meta": {**(answer.meta or {}), HTML: html}})

    async def read(self, uri: str) -> list[ReadResourceContents] | None:
        """Return the page of a view, with its style and script inline, and kbhub's version for the host."""
        if uri not in VIEWS.values():
            return None
        html = await run_sync(lambda: _rendered("view.html", view=uri.rpartition("/")[2], version=__version__))
        return [ReadResourceContents(html, APP_MIME_TYPE, {"ui": {"prefersBorder": True}})]


def _rendered(name: str, **values: Any) -> str:
    # The templates take 0.3 s to load, and most clients show no views.
    from jinja2 import ChoiceLoader, FileSystemLoader  # noqa: PLC0415

    from kbhub.render.html import STATIC, environment  # noqa: PLC0415

    shared = environment()
    assert shared.loader
    templates = shared.overlay(loader=ChoiceLoader([FileSystemLoader([HERE, STATIC]), shared.loader]))
    return templates.get_template(name).render(values)


class SkillParams(PaginatedRequestParams):
    """Names a skill, or a folder of it."""

    uri: str


class Skills(ServerExtension):
    """Serves the skills of a hub's bases; those of a project only after `kbhub base trust --documents`."""

    identifier = "io.modelcontextprotocol/skills"

    def settings(self) -> dict[str, Any]:
        """Announce that folders of skills are listed, too."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the extension's methods."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, partial(self._requested, "list_skills")),
            MethodBinding("skills/get", SkillParams, partial(self._requested, "get_skill")),
            MethodBinding("resources/directory/read", SkillParams, partial(self._requested, "read_folder")),
        )

    async def read(self, uri: str) -> list[ReadResourceContents] | None:
        """Return a file of a skill."""
        return [await self._requested("read_skill", None, uri)] if uri.startswith("skill://") else None

    async def _requested(self, request: str, _context: Any, asked: Any) -> Any:
        try:
            return await run_sync(lambda: load(f"kbhub.extensions.protocol.skills:{request}")(self.hub, asked))
        except KbhubError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from error
