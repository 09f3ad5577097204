"""The requests of the skills extension, answered from the bases that may speak."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import INVALID_PARAMS

from kbhub.errors import KbhubError
from kbhub.hooks.sessions import speaking_bases
from kbhub.reading.skills import children_of, read_skill_file, skill_at, skills_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kbhub.hub import Hub
    from kbhub.reading.skills import Skill
    from kbhub.types import Base

T = TypeVar("T")

PAGE = 50
"""Skills per page, and children of a folder."""

CACHED: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
"""Files may change at any time, and digests say whether they did."""

DIRECTORY = "inode/directory"


async def list_skills(hub: Hub, cursor: str | None) -> dict[str, Any]:
    """Return a page of the skills."""
    found = await run_sync(lambda: skills_of(speaking_bases(hub), hub.limits()))
    page, more = _page(found, cursor, lambda skill: skill.uri)
    return {"resultType": "complete", "skills": [_entry(skill) for skill in page], **more, **CACHED}


async def get_skill(hub: Hub, uri: str) -> dict[str, Any]:
    """Return the entry of one skill."""
    return {"resultType": "complete", "skill": _entry(await _or_refuse(skill_at, hub, uri)), **CACHED}


async def read_folder(hub: Hub, uri: str, cursor: str | None) -> dict[str, Any]:
    """Return a page of the entries in a skill's folder."""
    page, more = _page(await _or_refuse(children_of, hub, uri), cursor, lambda child: child[0])
    listed = [
        {"uri": child, "name": PurePosixPath(child).name, "mimeType": DIRECTORY if is_folder else _media_type(child)}
        for child, is_folder in page
    ]
    return {"resultType": "complete", "resources": listed, **more}


async def read_skill(hub: Hub, uri: str) -> list[ReadResourceContents]:
    """Return a file of a skill, as text if it is text."""
    content = await _or_refuse(read_skill_file, hub, uri)
    try:
        return [ReadResourceContents(content.decode("utf-8"), _media_type(uri))]
    except UnicodeDecodeError:
        return [ReadResourceContents(content, _media_type(uri))]


async def _or_refuse(look: Callable[[str, Iterable[Base]], T], hub: Hub, uri: str) -> T:
    try:
        return await run_sync(lambda: look(uri, speaking_bases(hub)))
    except KbhubError as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


def _entry(skill: Skill) -> dict[str, Any]:
    files = [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in skill.files]
    return {"uri": skill.uri, "frontmatter": skill.front_matter, "resources": files}


def _page(found: Sequence[T], cursor: str | None, name: Callable[[T], str]) -> tuple[Sequence[T], dict[str, str]]:
    """Return the page after a cursor, which is the last address of the page before, and the next cursor, if any."""
    after = next((number for number, one in enumerate(found) if name(one) == cursor), -1) if cursor else -1
    if cursor and after < 0:
        raise MCPError(code=INVALID_PARAMS, message="Unknown cursor; list again from the beginning.")
    rest = found[after + 1 :]
    return rest[:PAGE], {"nextCursor": name(rest[PAGE - 1])} if len(rest) > PAGE else {}


def _media_type(uri: str) -> str:
    name = PurePosixPath(uri).name
    return "text/markdown" if name.endswith(".md") else mimetypes.guess_type(name)[0] or "application/octet-stream"
