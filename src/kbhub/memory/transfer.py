"""Memories out of kbhub and into it: its own JSON, and what two other memory servers keep."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kbhub.checking import first_error
from kbhub.errors import UsageError, WriteRefused
from kbhub.index.uses import Use
from kbhub.memory.changing import bring_in_step
from kbhub.memory.documents import checked_text, new_file, parse_memory, slug, title_of
from kbhub.memory.facts import facts_of, timestamp
from kbhub.memory.folders import Shelf, shelf_for_writing
from kbhub.memory.foreign import basic_memory, is_memory_graph, memory_graph
from kbhub.memory.known import active_shelves, all_known, known_as_stored
from kbhub.memory.likeness import ID_CHARACTERS, id_of, wording
from kbhub.memory.models import Exported, Imported, Incoming, Record
from kbhub.memory.renumbering import ATTEMPTS, follow
from kbhub.memory.standing import data_of, uses_of
from kbhub.memory.store import create, locked, read, taken_ids, with_id
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from kbhub.hub import Hub
    from kbhub.memory.folders import Scope

MAX_IMPORT_BYTES = 64 << 20
"""Bytes of a file that is imported: 10,000 memories of a page each are 40 MB."""

MOST_USES = 1_000_000
"""Uses of a memory that are taken over: seven say all (see `strength`), and SQLite counts no further than 2^63."""

LIKELY = 3
"""Ids under which a text that is known may be: the first, and those it has where other folders know it, too."""

MOST_PROBLEMS = 200
"""Memories that are named as not imported; more of them tell nobody more."""


def export(hub: Hub, *, scope: Scope | None = None) -> Exported:
    """Give the active memories as one document: all of what their files and their uses say.

    Args:
        hub: what owns the bases.
        scope: only those of `project`, `user` or `shared`.
    """
    found = []
    for one in all_known(hub, scope):
        if stored := read(one.shelf, one.path):
            now = known_as_stored(hub, stored)
            facts, body = now.facts, stored.content.body
            title = stored.content.title
            found.append(
                Record(
                    id=facts.id,
                    scope=one.shelf.scope,
                    text=body,
                    title="" if title == title_of(body) else title,
                    tags=facts.tags,
                    namespace=facts.namespace,
                    created=_iso(facts.created),
                    updated=_iso(facts.updated),
                    by=facts.by,
                    source=facts.source,
                    project=facts.project,
                    commit=facts.commit,
                    origin=facts.origin,
                    about=facts.about,
                    about_hash=dict(facts.about_hash or {}),
                    refers=facts.refers,
                    supersedes=facts.supersedes,
                    superseded_by=facts.superseded_by,
                    uses=now.use.uses if now.use else 0,
                    last_use=_iso(now.use.last if now.use else None),
                )
            )
    return Exported(
        format="kbhub-memories", version=1, memories=tuple(sorted(found, key=lambda record: (record.scope, record.id)))
    )


def import_(hub: Hub, source: Path | str, *, scope: Scope | None = None) -> Imported:
    """Take memories in. What is known already is left as it is; a memory that cannot be taken stops no other.

    Args:
        hub: what owns the bases.
        source: kbhub's own export (its text, or its file), the `.jsonl` file of the MCP reference memory server, or a
            folder of basic-memory's Markdown.
        scope: where to put them; none keeps the scope of an export, and is `project` for the others.

    Raises:
        UsageError: it is none of these.
        WriteRefused: the settings allow no writing.
        MemoriesUnavailable: nothing can be written.
        OSError: the file cannot be read.
    """
    settings = hub.config().settings
    if settings.read_only or not settings.memory.enabled:
        reason = "`readOnly` is set" if settings.read_only else "`memory.enabled` is false"
        raise WriteRefused("memories", f"{reason} in ~/.kbhub.json")
    form, records, problems = _read(source)
    shelves: dict[Scope, Shelf] = {}
    taken = taken_ids(data_of(hub), active_shelves(hub))
    names: dict[str, str] = {}
    files: list[tuple[Shelf, str]] = []
    known = 0
    for number, one in enumerate(records, 1):
        name = f"memory {number}"
        try:
            record = Record.model_validate(one)
            # A lone surrogate is none that JSON or a terminal takes.
            name = (record.title or record.id or name).encode("utf-8", "backslashreplace").decode()
            wanted = scope or record.scope
            if wanted not in shelves:
                with locked(data_of(hub), "folders"):
                    shelves[wanted] = shelf_for_writing(hub.discovery(), data_of(hub), settings, wanted)
            name_here, path = _take(hub, shelves[wanted], record, taken)
            names |= {record.id: name_here} if record.id not in ("", name_here) else {}
            if path:
                files.append((shelves[wanted], path))
            else:
                known += 1
        except ValidationError as error:
            problems.append(Problem(subject=name, message=f"It is no memory of an export: {_reason(error)}."))
        except (UsageError, WriteRefused) as error:
            problems.append(Problem(subject=name, message=str(error)))
    follow(hub, files, names)
    hub.rediscover()
    for shelf in shelves.values():
        bring_in_step(hub, shelf)
    return Imported(format=form, added=len(files), known=known, failed=tuple(problems[:MOST_PROBLEMS]))


def _read(source: Path | str) -> tuple[Literal["kbhub", "basic-memory", "mcp-memory"], Sequence[object], list[Problem]]:
    """Give the format, what is to be taken in, and what could not be read."""
    problems: list[Problem] = []
    if not isinstance(source, str) and source.is_dir():
        records = basic_memory(source, problems)
        if not records and not problems:
            raise UsageError(f"{source} holds no Markdown; name the folder of a basic-memory project.")
        return "basic-memory", records, problems
    if isinstance(source, str):
        text = source
    else:
        with source.open("rb") as file:
            data = file.read(MAX_IMPORT_BYTES + 1)
        if len(data) > MAX_IMPORT_BYTES:
            raise UsageError(f"{source} is longer than {MAX_IMPORT_BYTES:,} bytes; split it.")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{source} is no UTF-8 from byte {error.start}; convert it first.") from error
    if is_memory_graph(text):
        return "mcp-memory", memory_graph(text, problems), problems
    try:
        return "kbhub", Incoming.model_validate_json(text).memories, problems
    except ValidationError as error:
        raise UsageError(
            f"This is neither an export of kbhub ({_reason(error)}), nor the file of an MCP memory server, nor a "
            "folder of basic-memory."
        ) from error


def _reason(error: ValidationError) -> str:
    field, message = first_error(error)
    return f"{'.'.join(field)}: {message}" if field else message


def _take(hub: Hub, shelf: Shelf, record: Record, taken: set[str]) -> tuple[str, str]:
    """Write one record; gives its id, and its path if it is new, else nothing."""
    text = checked_text(record.text)
    ours = wording(text)
    fields = _fields(hub, record, text)
    own = [record.id] if _could_be_ours(record.id) else []
    likely = (*own, *(id_of(text, attempt) for attempt in range(LIKELY)))
    with locked(data_of(hub), shelf.place):
        for name in (one for one in likely if one in taken):
            other = with_id(shelf, name)
            if other and wording(other.content.body) == ours:
                return name, ""
        for name in chain(likely, (id_of(text, attempt) for attempt in range(LIKELY, ATTEMPTS))):
            if name in taken or with_id(shelf, name):
                continue
            file, whole = f"{slug(text)}-{name}.md", new_file({**fields, "id": name}, text)
            if parse_memory(file, whole.encode()).problem:
                raise UsageError("Its tags, subjects and other fields are too long to be read again; shorten them.")
            try:
                path = create(shelf, file, whole)
            except FileExistsError:
                continue
            uses_of(hub).put(shelf.place, {name: use} if (use := _use(record)) else {})
            taken.add(name)
            return name, path
    raise UsageError("All ids that would be its own are taken.")


def _could_be_ours(name: str) -> bool:
    return name.isascii() and name.isalnum() and len(name) == ID_CHARACTERS


def _fields(hub: Hub, record: Record, text: str) -> dict[str, Any]:
    now = timestamp(hub.options.clock())
    # What came from elsewhere is read as our own files are: a moment that is none counts as missing, and tags and a
    # namespace that somebody wrote by hand are kept, whatever they are.
    facts = facts_of("", record.model_dump(include={"created", "updated", "namespace"}), ())
    created = _iso(facts.created) or now
    return {
        "title": " ".join(record.title.split()) or title_of(text),
        "created": created,
        "updated": _iso(facts.updated) or created,
        "by": record.by,
        "source": record.source,
        "project": record.project,
        "commit": record.commit,
        "from": record.origin,
        "tags": tuple(dict.fromkeys(" ".join(tag.split()) for tag in record.tags if tag.strip())),
        "namespace": facts.namespace,
        "about": record.about,
        "about_hash": record.about_hash,
        "refers": record.refers,
        "supersedes": record.supersedes,
        "superseded_by": record.superseded_by,
    }


def _use(record: Record) -> Use | None:
    facts = facts_of("", {"created": record.last_use}, ())
    return Use(min(record.uses, MOST_USES), facts.created) if record.uses and facts.created is not None else None


def _iso(moment: float | None) -> str | None:
    return None if moment is None else timestamp(moment)
