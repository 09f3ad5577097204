"""Moving memories between folders, projects and programs: move, refile, export and import."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from kbhub.documents.markdown import decode, parse_document
from kbhub.documents.secrets import masked, refuse_secrets
from kbhub.documents.walk import Limits, open_contained, scan
from kbhub.errors import KbhubError, MemoryNotFound, SecretFound, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.side_files import Use
from kbhub.memory.catalog import active_shelves, all_known, check_writable, located, shelf_to_write, sync_shelves
from kbhub.memory.changes import ID_CHARACTERS, as_it_is, edit, filed, ids_of
from kbhub.memory.files import (
    MAX_FILE_BYTES,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    MemoryFile,
    changed_file,
    checked_text,
    discard,
    files_of,
    locked,
    new_file,
    parse_memory,
    read,
    slug,
    taken_ids,
    with_id,
    with_ids,
)
from kbhub.memory.results import Exported, Imported, Incoming, Memory, Moved, Record
from kbhub.search.document_signals import facts_of, timestamp, uses_of
from kbhub.types import Base, Problem, Workspace
from kbhub.workspace.discovery import ABOUT_NAME, SYNCED_NAME, MemoryFolder, Scope, described, project_folders
from kbhub.workspace.files import expand
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.git import Identity, git_root, identify
from kbhub.workspace.settings import first_error

MOST_FILES = 100_000
_NO_TAG = re.compile(r"[^\w./+-]+")
_NO_SEGMENT = re.compile(r"[^\w.-]+")

MAX_IMPORT_BYTES = 64 << 20
"""Limit of an imported file: 10,000 memories of a page each are 40 MB."""

MOST_USES = 1_000_000
"""Limit of imported uses of a memory: strength saturates at seven, and SQLite counts to 2^63."""

MOST_PROBLEMS = 200


def basic_memory(folder: Path, problems: list[Problem]) -> list[Record]:
    """Read the Markdown of a basic-memory folder, adding unreadable files to `problems`; links out are not followed."""
    base = Base(id="import", path=folder.resolve(), origin="argument")
    files = scan(base, Limits(MAX_FILE_BYTES, MOST_FILES))
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
        segments = (_NO_SEGMENT.sub("-", part).strip("-.") for part in path.split("/")[:-1])
        fields = {
            "title": document.title,
            "tags": _tags([*document.tags, _text(values.get("type"))]),
            "namespace": "/".join(filter(None, segments)),
            "created": _text(values.get("created")) or _text(values.get("date")),
            "updated": _text(values.get("modified")) or _text(values.get("updated")),
            "by": "basic-memory",
            "from": f"basic-memory: {_text(values.get('permalink')) or path}",
        }
        records.append(Record(file=new_file(fields, "\n".join(document.lines[document.body :]))))
    return records


def memory_graph(text: str, problems: list[Problem]) -> list[Record] | None:
    """Read the file of an MCP memory server, adding unreadable lines to `problems`; None if it is no such file."""
    entities: dict[str, dict[str, Any]] = {}
    relations: dict[str, list[str]] = {}
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    first = _json(lines[0][1]) if lines else None
    if not isinstance(first, dict) or first.get("type") not in ("entity", "relation"):
        return None
    for number, line in lines:
        match _json(line):
            case {"type": "entity", "name": str(name), **more} if name.strip():
                entity = entities.setdefault(name, {"entityType": more.get("entityType"), "observations": []})
                observations = more.get("observations")
                entity["observations"] += observations if isinstance(observations, list) else []
            case {"type": "relation", "from": str(name), "to": str(other), **more} if name.strip() and other.strip():
                relations.setdefault(name, []).append(f"{_text(more.get('relationType')) or 'relates_to'} {other}")
            case _:
                problems.append(Problem(subject=f"line {number}", message="Neither an entity nor a relation; skipped."))
    names = dict.fromkeys((*entities, *relations))
    return [_entity(name, entities.get(name, {}), relations.get(name, [])) for name in names]


def _entity(name: str, entity: dict[str, Any], relations: list[str]) -> Record:
    title = " ".join(name.split())
    lines = [f"# {title}", ""]
    lines += [f"- {text}" for observation in entity.get("observations", []) if (text := _text(observation))]
    if relations:
        lines += ["", "## Relations", "", *(f"- {_text(relation)}" for relation in relations)]
    fields = {
        "title": title,
        "tags": _tags([_text(entity.get("entityType"))]),
        "by": "mcp-memory",
        "from": f"MCP memory server: {title}",
    }
    return Record(file=new_file(fields, "\n".join(lines)))


def _tags(tags: list[str]) -> tuple[str, ...]:
    plain = (_NO_TAG.sub("-", tag).strip("-./+")[:MAX_TAG_CHARACTERS] for tag in tags)
    return tuple(dict.fromkeys(tag for tag in plain if tag))[:MAX_TAGS]


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def export(hub: Hub, *, scope: Scope | None = None, allow_secret: bool = False) -> Exported:
    """Return the active memories as one document: their files and uses."""
    records = []
    for memory in sorted(all_known(hub, scope), key=lambda one: (one.shelf.scope, one.facts.id)):
        if stored := read(memory.shelf, memory.path, uses_of(hub).all(memory.shelf.place)):
            file, use = decode(stored.data)[0], stored.use
            records.append(
                Record(
                    scope=memory.shelf.scope,
                    file=file if allow_secret else masked(file),
                    uses=use.uses if use else 0,
                    last_use=timestamp(use.last) if use else None,
                )
            )
    return Exported(format="kbhub-memories", version=1, memories=tuple(records))


def import_(hub: Hub, source: Path | str, *, scope: Scope | None = None, allow_secret: bool = False) -> Imported:
    """Import memories. Existing ones are left unchanged; a memory that cannot be imported does not stop the others."""
    check_writable(hub, new=True)
    form, records, problems = _read(source)
    shelves: dict[Scope, MemoryFolder] = {}
    taken = taken_ids(hub.data, active_shelves(hub))
    names: dict[str, str] = {}
    files: list[tuple[MemoryFolder, str]] = []
    known = 0
    for number, value in enumerate(records, 1):
        name = f"memory {number}"
        try:
            record = Record.model_validate(value)
            target = scope or record.scope
            if target not in shelves:
                shelves[target] = shelf_to_write(hub, target)
            shelf = shelves[target]
            # Neither JSON nor a terminal accepts a lone surrogate.
            memory = parse_memory(shelf, "", record.file.encode("utf-8", "backslashreplace"), 0)
            name = name if memory.problem else memory.title or name
            if not allow_secret:
                refuse_secrets("It", record.file)
            new_id, path = _placed(hub, shelf, _completed(hub, memory), taken)
            names |= {memory.facts.id: new_id} if memory.facts.id not in ("", new_id) else {}
            if path:
                files.append((shelf, path))
                used = facts_of("", {"created": record.last_use}, ()).created
                if record.uses and used is not None:
                    uses_of(hub).put(shelf.place, {new_id: Use(min(record.uses, MOST_USES), used)})
            else:
                known += 1
        except ValidationError as error:
            problems.append(Problem(subject=name, message=f"Not a memory of an export: {_reason(error)}."))
        except (UsageError, WriteRefused, SecretFound) as error:
            problems.append(Problem(subject=name, message=str(error)))
    follow(hub, files, names)
    sync_shelves(hub, shelves.values())
    return Imported(format=form, added=len(files), known=known, failed=tuple(problems[:MOST_PROBLEMS]))


def _read(source: Path | str) -> tuple[Literal["kbhub", "basic-memory", "mcp-memory"], Sequence[object], list[Problem]]:
    """Return the format, the records, and what could not be read."""
    problems: list[Problem] = []
    if not isinstance(source, str) and source.is_dir():
        records = basic_memory(source, problems)
        if not records and not problems:
            raise UsageError(f"{source} contains no Markdown. Name the folder of a basic-memory project.")
        return "basic-memory", records, problems
    if isinstance(source, str):
        text = source
    else:
        with source.open("rb") as file:
            data = file.read(MAX_IMPORT_BYTES + 1)
        if len(data) > MAX_IMPORT_BYTES:
            raise UsageError(f"{source} is larger than {MAX_IMPORT_BYTES:,} bytes. Split it.")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{source} is not UTF-8 (byte {error.start}). Convert it first.") from error
    if (graph := memory_graph(text, problems)) is not None:
        return "mcp-memory", graph, problems
    try:
        return "kbhub", Incoming.model_validate_json(text).memories, problems
    except ValidationError as error:
        raise UsageError(
            f"Unknown format: not a kbhub export ({_reason(error)}), the file of an MCP memory server, or a "
            "basic-memory folder."
        ) from error


def _reason(error: ValidationError) -> str:
    field, message = first_error(error)
    return f"{'.'.join(field)}: {message}" if field else message


def _completed(hub: Hub, memory: MemoryFile) -> MemoryFile:
    """Return a memory that comes in with all that kbhub writes; raise `UsageError` if it cannot be one."""
    text, facts, now = checked_text(memory.body), memory.facts, timestamp(hub.options.clock())
    if memory.problem:
        raise UsageError(memory.problem)
    created = now if facts.created is None else timestamp(facts.created)
    fields = {"title": memory.title, "author": None}  # of another database
    fields |= {"created": now} if facts.created is None else {}
    fields |= {"updated": created} if facts.updated is None else {}
    name = facts.id if facts.id.isascii() and facts.id.isalnum() and len(facts.id) == ID_CHARACTERS else ""
    path = f"{memory.shelf.prefix}{slug(text)}-{name}.md" if name else ""
    data = changed_file(memory.title, memory, fields, text if text != memory.body else None)
    completed = parse_memory(memory.shelf, path, data, 0)
    if completed.problem:
        raise UsageError("Its tags, subjects and other fields are too long to be read back. Shorten them.")
    return completed


def _placed(hub: Hub, shelf: MemoryFolder, memory: MemoryFile, taken: set[str]) -> tuple[str, str]:
    """Write a memory, with a new id if its own is taken or it has none; return that, and the path, empty if known."""
    words, own = memory.wording, [memory.facts.id] if memory.path else []
    with locked(hub.data, shelf.place):
        for existing in (*with_ids(shelf, own), filed([shelf], words)):
            if existing and existing.wording == words:
                return existing.facts.id, ""
        for name in chain(own, ids_of(words)):
            if name in taken:
                continue
            kept = name in own
            file = memory.path.rpartition("/")[2] if kept else f"{slug(memory.body)}-{name}.md"
            path = f"{shelf.prefix}{file}"
            whole = kept or memory.problem or len(memory.data) > MAX_FILE_BYTES  # or it cannot be edited safely
            data = memory.data if whole else changed_file(file, memory, {"id": name})
            with suppress(FileExistsError):
                files_of(shelf).create(path, data)
                taken.add(name)
                return name, path
    raise UsageError("All ids it could have are taken.")


def follow(hub: Hub, files: Iterable[tuple[MemoryFolder, str]], names: Mapping[str, str]) -> None:
    """Update `supersedes` and `superseded_by` of memories, as (folder, path), by a mapping of old to new ids."""

    def fields(stored: MemoryFile) -> dict[str, Any]:
        links = {key: getattr(stored.facts, key) for key in ("supersedes", "superseded_by", "may_supersede")}
        changed = {field: old for field, old in links.items() if names.keys() & set(old)}
        return {field: tuple(names.get(name, name) for name in old) for field, old in changed.items()}

    for shelf, path in files if names else ():
        with suppress(WriteRefused):  # its front matter cannot be edited safely; the memory works without
            edit(hub, shelf, path, fields)


def refile(hub: Hub, name: str, scope: Scope) -> Memory:
    """Move a memory to another scope, with its id and its uses."""
    check_writable(hub)
    data, old = hub.data, located(hub, name)
    if old.shelf.scope == scope:
        raise UsageError(f"The memory {old.facts.id} is already in the scope {scope!r}.")
    shelf = shelf_to_write(hub, scope)
    with locked(data, old.shelf.place):
        stored = files_of(old.shelf).read(old.path, -1)
    if stored is None:
        raise MemoryNotFound(name, [])
    with locked(data, shelf.place):
        if with_id(shelf, old.facts.id):
            raise UsageError(f"The scope {scope!r} already has a memory {old.facts.id}.")
        path = f"{shelf.prefix}{old.path.rpartition('/')[2]}"
        files_of(shelf).create(path, stored[0])
    uses_of(hub).put(shelf.place, {old.facts.id: old.use} if old.use else {})
    with locked(data, old.shelf.place):
        files_of(old.shelf).remove(old.path)
    uses_of(hub).forget(old.shelf.place, [old.facts.id])
    sync_shelves(hub, (old.shelf, shelf))
    return as_it_is(hub, shelf, path)


def move(hub: Hub, old: str) -> Moved:
    """Move the memories of another folder or project, named by path, digest or identity, to this project."""
    check_writable(hub)
    folder, target = _folder_of(hub, old), shelf_to_write(hub, "project")
    if folder == target.folder:
        raise UsageError(f"{old} is this project. Name the place the memories come from.")
    source = MemoryFolder("project", target.base.model_copy(update={"path": folder}))
    data, uses = hub.data, uses_of(hub)
    counted, renamed, duplicates = uses.all(source.place), 0, 0
    listed = sorted(file for file in files_of(source).names() if file.endswith(MARKDOWN_SUFFIX))
    stored = [one for file in listed if (one := read(source, file))]
    taken = taken_ids(data) - {one.facts.id for one in stored} | {one.facts.id for one in all_known(hub)}
    names: dict[str, str] = {}
    files: list[tuple[MemoryFolder, str]] = []
    for one in stored:
        content = files_of(source).read(one.path, -1)
        memory, own = replace(one, data=content[0] if content else one.data), one.facts.id
        name, path = _placed(hub, target, memory, taken)  # empty if its wording is here
        names |= {own: name} if name != own else {}
        uses.put(target.place, {name: use} if (use := counted.get(own)) else {})
        with locked(data, source.place):
            if path:
                files_of(source).remove(memory.path)
                files.append((target, path))
                renamed += name != own
            else:
                discard(memory, data, hub.options.clock())
                duplicates += 1
    uses.forget(source.place, counted)
    follow(hub, files, names)
    if (left := {entry.name for entry in folder.iterdir()}) <= {ABOUT_NAME, SYNCED_NAME}:
        for name in left:
            (folder / name).unlink()
        folder.rmdir()
    hub.rediscover()
    return Moved(moved=len(files), known=duplicates, renamed=renamed, source=folder, target=target.folder)


def _folder_of(hub: Hub, old: str) -> Path:
    """Find the memory folder for a path, a name or an identity."""
    data = hub.data
    for folder in project_folders(data):
        identity = described(folder)
        names = (folder.name, identity.digest, identity.text) if identity else (folder.name,)
        if old in names:
            return folder
    if "\0" not in old:
        home = Path(os.path.realpath(hub.options.home))
        directory = Path(os.path.realpath(expand(old, home, hub.options.cwd)))
        identities = [Identity("path", str(directory))]
        workspace = Workspace(directory=directory, source="an argument", git_root=git_root(directory, home))
        if os.path.isdir(directory) and (identity := identify(workspace)):  # noqa: PTH112 - Path.is_dir raises for a long name
            identities.append(identity)
        for identity in identities:
            if folders := project_folders(data, identity):
                return folders[0]
    known = ", ".join(identity.text for folder in project_folders(data) if (identity := described(folder)))
    raise UsageError(f"No memories found for {old!r}. Memories exist for: {known or 'no project yet'}.")
