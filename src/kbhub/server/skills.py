"""Skills over MCP (SEP-2640): the methods of the extension; light, as the handshake waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.extension import Extension, MethodBinding
from mcp.types import PaginatedRequestParams, RequestParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.extension import RequestHandler
    from mcp.server.lowlevel.helper_types import ReadResourceContents

    from kbhub.hub import Hub

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
    from kbhub.server.resources import skills  # noqa: PLC0415

    return skills
