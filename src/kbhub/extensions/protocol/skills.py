"""Skills in bases: folders with a `SKILL.md` in the form of agentskills.io, and the requests about them.

Addresses, limits and digests are those of the extension `io.modelcontextprotocol/skills` (SEP-2640).
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import PaginatedRequestParams

from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decode
from kbhub.documents.walk import read_contained, scan
from kbhub.errors import BaseUnavailable, DocumentNotFound, UsageError
from kbhub.extensions.protocol.server import SkillParams
from kbhub.hooks.sessions import speaking_bases
from kbhub.hub import Hub
from kbhub.types import Base

FILE = "SKILL.md"

MOST_FILES, MOST_BYTES = 512, 16 << 20
"""Files of a skill, and their bytes together, that every client takes: the extension's limits."""

NAME_CHARACTERS, DESCRIPTION_CHARACTERS = 64, 1024
"""Longest name and description: agentskills.io/specification."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ADDRESS = re.compile(r"skill://([^/?#]+)/([^?#]+)")

Skill = dict[str, Any]
"""The entry of a skill: `uri` of its `SKILL.md`, `frontmatter` as written, and `resources`: all its files, by path."""


def _bases(hub: Hub) -> list[Base]:
    return [base for base in speaking_bases(hub) if base.kind == "document" and not base.engine]


def _located(uri: str, hub: Hub) -> tuple[Base, str]:
    match = _ADDRESS.fullmatch(uri)
    base = next((base for base in _bases(hub) if match and base.id == unquote(match[1])), None)
    if match is None or base is None:
        raise DocumentNotFound(uri, "no skill is available there")
    return base, unquote(match[2])


def _address(base: Base, path: str) -> str:
    return f"skill://{quote(base.id, safe='')}/{quote(path, safe='/')}"


def _skill_folders(base: Base, path: str) -> Iterator[str]:
    """Yield the folders above a file that are skills, the outermost first: a file of an inner one is in both."""
    for parent in reversed(PurePosixPath(path).parents):
        folder = str(parent)
        if folder != "." and _front_matter(base, folder) is not None:
            yield folder


def _skill(base: Base, folder: str) -> Skill | None:
    front = _front_matter(base, folder)
    paths = _paths(base, folder) if front is not None else ()
    if front is None or len(paths) > MOST_FILES:
        return None
    files, size = [], 0
    for path in paths:
        content = read_contained(base, path, MOST_BYTES - size)
        if content is None:
            return None
        size += len(content)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        files.append({"uri": _address(base, path), "digest": digest, "size": len(content)})
    return {"uri": _address(base, f"{folder}/{FILE}"), "frontmatter": front, "resources": files}


def _front_matter(base: Base, folder: str) -> dict[str, Any] | None:
    """Return the front matter of a folder's `SKILL.md`; None if there is none, or not in the form of a skill."""
    if (data := read_contained(base, f"{folder}/{FILE}", MOST_BYTES)) is None:
        return None
    found = read_front_matter(decode(data)[0].splitlines())
    name, description = found.values.get("name"), found.values.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS:
        return None
    if not isinstance(description, str) or not 0 < len(description.strip()) <= DESCRIPTION_CHARACTERS:
        return None
    return dict(found.values) if name == PurePosixPath(folder).name else None


def _paths(base: Base, folder: str) -> Sequence[str]:
    """Return the files below a folder, without hidden ones and links; one over the limit if there are more."""
    found: list[str] = []
    root = base.path / folder
    for where, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = PurePosixPath(folder, os.path.relpath(where, root).replace(os.sep, "/"))
        plain = (name for name in names if not name.startswith(".") and not Path(where, name).is_symlink())
        found += [str(inside / name) for name in plain]
        if len(found) > MOST_FILES:
            break
    return sorted(found)[: MOST_FILES + 1]


SKILLS_PAGE = 50
"""Skills per page, and children of a folder."""

CACHED: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"}
"""Files may change at any time, and digests say whether they did."""

DIRECTORY = "inode/directory"


def list_skills(hub: Hub, asked: PaginatedRequestParams) -> dict[str, Any]:
    """Return a page of the skills, by base and path; folders with a faulty `SKILL.md` are left out."""
    limits, found = hub.limits(), list[Skill]()
    for base in _bases(hub):
        with suppress(BaseUnavailable):
            files = map(PurePosixPath, scan(base, limits).files)
            folders = sorted(str(file.parent) for file in files if file.name == FILE)
            found += [skill for folder in folders if (skill := _skill(base, folder))]
    page, more = _page_after(found, asked.cursor)
    return {"resultType": "complete", "skills": page, **more, **CACHED}


def get_skill(hub: Hub, asked: SkillParams) -> dict[str, Any]:
    """Return the entry of the skill whose `SKILL.md` has an untrusted address."""
    base, path = _located(asked.uri, hub)
    folder, _, name = path.rpartition("/")
    skill = _skill(base, folder) if name == FILE else None
    if skill is None:
        raise DocumentNotFound(asked.uri, "no skill is available there")
    return {"resultType": "complete", "skill": skill, **CACHED}


def read_folder(hub: Hub, asked: SkillParams) -> dict[str, Any]:
    """Return a page of what a folder of a skill holds; raise `DocumentNotFound` if it is none."""
    base, path = _located(asked.uri.rstrip("/"), hub)
    held: dict[str, bool] = {}
    """Path → whether it is a folder."""
    for folder in _skill_folders(base, f"{path}/{FILE}"):
        for file in _paths(base, folder):
            if file.startswith(f"{path}/"):
                child, below, _ = file.removeprefix(f"{path}/").partition("/")
                held[f"{path}/{child}"] = bool(below)
    if not held:
        raise DocumentNotFound(asked.uri, "it is not a folder of a skill")
    children = [
        {
            "uri": _address(base, child),
            "name": PurePosixPath(child).name,
            "mimeType": DIRECTORY if held[child] else _media_type(child),
        }
        for child in sorted(held)
    ]
    page, more = _page_after(children, asked.cursor)
    return {"resultType": "complete", "resources": page, **more}


def read_skill(hub: Hub, uri: str) -> ReadResourceContents:
    """Return a file of a skill, as text if it is text; raise `DocumentNotFound` if it belongs to none."""
    base, path = _located(uri, hub)
    held = any(path in _paths(base, folder) for folder in _skill_folders(base, path))
    if not held or (content := read_contained(base, path, MOST_BYTES)) is None:
        raise DocumentNotFound(uri, "no skill has this file")
    with suppress(UnicodeDecodeError):
        return ReadResourceContents(content.decode("utf-8"), _media_type(uri))
    return ReadResourceContents(content, _media_type(uri))


def _page_after(found: Sequence[dict[str, Any]], cursor: str | None) -> tuple[Sequence[dict[str, Any]], dict[str, str]]:
    """Return the page after a cursor, which is the last address of the page before, and the next cursor, if any."""
    after = next((number for number, one in enumerate(found) if one["uri"] == cursor), -1) if cursor else -1
    if cursor and after < 0:
        raise UsageError("Unknown cursor; list again from the beginning.")
    rest = found[after + 1 :]
    return rest[:SKILLS_PAGE], {"nextCursor": rest[SKILLS_PAGE - 1]["uri"]} if len(rest) > SKILLS_PAGE else {}


def _media_type(uri: str) -> str:
    name = PurePosixPath(uri).name
    return "text/markdown" if name.endswith(".md") else mimetypes.guess_type(name)[0] or "application/octet-stream"
