"""Import of other memory servers' formats as records.

basic-memory: a folder of Markdown with front matter (`title`, `type`, `permalink`, `tags`), observations and relations
as list items; the text is kept as it is. MCP reference memory server: one JSON object per line, entities with
observations, and relations between them; each entity becomes one memory.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kbhub.documents.markdown import parse_document
from kbhub.documents.walk import open_contained, scan
from kbhub.errors import KbhubError
from kbhub.memory.documents import MAX_FILE_BYTES, MAX_TAG_CHARACTERS, MAX_TAGS
from kbhub.memory.models import Record
from kbhub.types import Base, Problem

if TYPE_CHECKING:
    from pathlib import Path

MOST_FILES = 100_000
"""Limit of files read from a folder."""

MOST_RELATIONS = 1000
"""Limit of relations of one entity that are written into its memory."""

_NO_TAG = re.compile(r"[^\w./+-]+")
_NO_SEGMENT = re.compile(r"[^\w.-]+")
_GRAPH_TYPES = ("entity", "relation")


def basic_memory(folder: Path, problems: list[Problem]) -> list[Record]:
    """Read a basic-memory folder.

    Args:
        folder: its Markdown files; links out of it are not followed.
        problems: receives the files that could not be read.
    """
    base = Base(id="import", path=folder.resolve(), origin="argument")
    files = scan(base, max_bytes=MAX_FILE_BYTES, max_files=MOST_FILES)
    problems += files.skipped
    records = []
    for path in files.files:
        try:
            with open_contained(base, path) as file:
                document = parse_document(path, file.read(MAX_FILE_BYTES))
        except (OSError, KbhubError) as error:
            problems.append(Problem(subject=path, message=str(error)))
            continue
        values = document.front_matter
        records.append(
            Record(
                text="\n".join(document.lines[document.body :]),
                title=document.title,
                tags=_tags([*document.tags, _text(values.get("type"))]),
                namespace=_namespace(path.rpartition("/")[0]),
                created=_text(values.get("created")) or _text(values.get("date")) or None,
                updated=_text(values.get("modified")) or _text(values.get("updated")) or None,
                by="basic-memory",
                origin=f"basic-memory: {_text(values.get('permalink')) or path}",
            )
        )
    return records


def is_memory_graph(text: str) -> bool:
    """Return whether a text is the file of an MCP memory server, or the output of its `read_graph`."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    value = _json(first)
    if isinstance(value, dict) and value.get("type") in _GRAPH_TYPES:
        return True
    whole = _json(text) if '"entities"' in text else None
    return isinstance(whole, dict) and isinstance(whole.get("entities"), list)


def memory_graph(text: str, problems: list[Problem]) -> list[Record]:
    """Read the file of an MCP memory server.

    Args:
        text: JSON objects, one per line, or one object with `entities` and `relations`.
        problems: receives the lines that could not be read.
    """
    entities: dict[str, dict[str, Any]] = {}
    relations: dict[str, list[str]] = {}
    for number, item in _items(text):
        name = item.get("name") if isinstance(item, dict) and item.get("type") == "entity" else None
        ends = (item.get("from"), item.get("to")) if isinstance(item, dict) and item.get("type") == "relation" else ()
        if isinstance(name, str) and name.strip():
            entity = entities.setdefault(name, {"entityType": item.get("entityType"), "observations": []})
            observations = item.get("observations")
            entity["observations"] += observations if isinstance(observations, list) else []
        elif ends and all(isinstance(end, str) and end.strip() for end in ends):
            relations.setdefault(str(ends[0]), []).append(
                f"{_text(item.get('relationType')) or 'relates_to'} {ends[1]}"
            )
        else:
            problems.append(Problem(subject=f"line {number}", message="It is no entity and no relation; left out."))
    names = dict.fromkeys((*entities, *relations))
    return [_entity(name, entities.get(name, {}), relations.get(name, [])) for name in names]


def _items(text: str) -> list[tuple[int, Any]]:
    whole = _json(text)
    if isinstance(whole, dict) and isinstance(whole.get("entities"), list):
        relations = whole.get("relations")
        items = [("entity", entity) for entity in whole["entities"]]
        items += [("relation", relation) for relation in (relations if isinstance(relations, list) else [])]
        return [
            (number, {"type": kind, **item} if isinstance(item, dict) else item)
            for number, (kind, item) in enumerate(items, 1)
        ]
    return [(number, _json(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _entity(name: str, entity: dict[str, Any], relations: list[str]) -> Record:
    title = " ".join(name.split())
    lines = [f"# {title}", ""]
    lines += [f"- {text}" for observation in entity.get("observations", []) if (text := _text(observation))]
    if relations:
        lines += ["", "## Relations", "", *(f"- {_text(relation)}" for relation in relations[:MOST_RELATIONS])]
    return Record(
        text="\n".join(lines),
        title=title,
        tags=_tags([_text(entity.get("entityType"))]),
        by="mcp-memory",
        origin=f"MCP memory server: {title}",
    )


def _tags(tags: list[str]) -> tuple[str, ...]:
    plain = (_NO_TAG.sub("-", tag).strip("-./+")[:MAX_TAG_CHARACTERS] for tag in tags)
    return tuple(dict.fromkeys(tag for tag in plain if tag))[:MAX_TAGS]


def _namespace(folder: str) -> str:
    segments = (_NO_SEGMENT.sub("-", part).strip("-.") for part in folder.split("/"))
    return "/".join(segment for segment in segments if segment)


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
