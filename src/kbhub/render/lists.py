"""Render bases, documents and contexts for a terminal, and as records for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.render.formats import Listing
from kbhub.render.layout import table
from kbhub.render.terminal import ago_text, size_text
from kbhub.render.words import shortened, visible_line
from kbhub.values import counted
from kbhub.workspace.config import shown_url

if TYPE_CHECKING:
    from kbhub.reading.lists import Listed
    from kbhub.reading.reports import BaseStatus
    from kbhub.setup.bases import BaseChange, KnownBase
    from kbhub.setup.cleanup import Cleanup, Removable, Spared
    from kbhub.setup.contexts import Context

TITLE_CHARACTERS = 60
"""Maximum length of a title in a table."""

TAGS_CHARACTERS = 40
"""Maximum length of the tags in a table."""

EVERYWHERE_TEXT = "all projects"


def bases_text(bases: Sequence[KnownBase], config: Path, *, width: int | None = None) -> str:
    """Return a table of bases, followed by their problems."""
    if not bases:
        return (
            f"No bases: none in {visible_line(str(config))}, and none active here. Add one with `kbhub bases add PATH`."
        )
    header = ("base", "active", "for", "documents", "path")
    rows = [header, *(_base_row(base) for base in bases)]
    problems = [visible_line(f"{base.id}: {base.problem}") for base in bases if base.problem]
    return "\n".join([*table(rows, right=frozenset({3}), width=width), *(["", *problems] if problems else [])])


def base_text(base: KnownBase, *, width: int | None = None) -> str:
    """Return everything known about a base, a line each."""
    facts = [
        ("base", base.id),
        ("name", base.name or ""),
        ("about", base.description or ""),
        ("path", base.engine or str(base.path)),
        ("found by", base.origin),
        ("active", "here" if base.active else "not here"),
        ("for", places_text(base.places)),
        ("writable", "yes" if base.writable else "no"),
        ("weight", f"{base.weight:g}"),
        ("include", ", ".join(base.include)),
        ("exclude", ", ".join(base.exclude)),
        ("documents", str(base.documents)),
        ("index", f"{base.index} ({size_text(base.index_bytes)})" if base.index else "" if base.engine else "none yet"),
        ("synced", base.synced or "never"),
        ("problem", base.problem or ""),
    ]
    lines = table([(name, visible_line(value)) for name, value in facts if value], width=width)
    if base.contexts:
        lines += [
            "contexts",
            *(f"  {visible_line(path or '(all)')}: {visible_line(text)}" for path, text in base.contexts.items()),
        ]
    return "\n".join(lines)


def bases_listing(bases: Sequence[KnownBase]) -> Listing:
    """Return bases as records."""
    fields = ("id", "path", "origin", "active", "for", "documents", "writable", "name", "description", "problem")
    records = [
        {
            **base.model_dump(
                mode="json", include={"id", "origin", "active", "documents", "writable", "name", "problem"}
            ),
            "path": base.engine or str(base.path),
            "for": list(base.places),
            "description": base.description,
            "context": base.contexts.get("") or base.description,
        }
        for base in bases
    ]
    return Listing("base", fields, records)


def change_text(change: BaseChange, verb: str) -> str:
    """Return the result of a change (`Added`, `Removed` or `Renamed`), and where the base is active."""
    place = shown_url(change.engine) if change.engine else change.path
    lines = [visible_line(f"{f'{verb} ' if change.changed else ''}{change.id}: {place}")]
    if verb != "Removed":
        here = "and here" if change.active else "but not here"
        everywhere = "*" in change.places and change.active
        where = places_text(change.places)
        lines.append(visible_line(f"Active in {where}." if everywhere else f"Active in {where}, {here}."))
    return "\n".join([*lines, *map(visible_line, change.notes)])


def places_text(places: Sequence[str]) -> str:
    """Return where a base is active."""
    if "*" in places:
        return EVERYWHERE_TEXT
    return ", ".join(f"projects below {place}" for place in places) or "no project"


def documents_text(documents: Sequence[Listed], *, width: int | None = None) -> str:
    """Return a table of documents, empty if there are none."""
    if not documents:
        return ""
    rows = [
        (
            document.docid,
            document.date or "",
            visible_line(document.ref),
            shortened(visible_line(document.title), TITLE_CHARACTERS),
            shortened(visible_line(" ".join(f"#{tag}" for tag in document.tags)), TAGS_CHARACTERS),
        )
        for document in documents
    ]
    return "\n".join(table(rows, width=width))


def documents_listing(documents: Sequence[Listed]) -> Listing:
    """Return documents as records."""
    fields = ("docid", "ref", "base", "path", "title", "date", "tags", "kind", "size")
    records = [
        {**document.model_dump(mode="json", include=set(fields)), "context": " / ".join(document.contexts)}
        for document in documents
    ]
    return Listing("document", fields, records)


def status_listing(bases: Sequence[BaseStatus]) -> Listing:
    """Return the active bases and the state of their indexes as records."""
    fields = ("id", "path", "origin", "documents", "chunks", "vectors", "index", "index_bytes", "synced", "problems")
    records = [
        {
            **status.model_dump(
                mode="json", include={"documents", "chunks", "vectors", "index", "index_bytes", "synced"}
            ),
            **status.base.model_dump(mode="json", include={"id", "path", "origin"}),
            "problems": len(status.problems),
            "context": status.base.contexts.get("") or status.base.description,
        }
        for status in bases
    ]
    return Listing("base", fields, records)


def contexts_text(contexts: Sequence[Context], *, width: int | None = None) -> str:
    """Return contexts, a line each, empty if there are none."""
    rows = [(visible_line(_place(context)), visible_line(context.context)) for context in contexts]
    return "\n".join(table(rows, width=width)) if rows else ""


def contexts_listing(contexts: Sequence[Context]) -> Listing:
    """Return contexts as records."""
    records = [{**context.model_dump(mode="json"), "ref": _place(context)} for context in contexts]
    return Listing("context", ("base", "path", "context", "file"), records)


def cleanup_text(cleanup: Cleanup, *, width: int | None = None) -> str:
    """Return what would be deleted, and how much space that frees."""
    lines = [f"Nothing to delete in {visible_line(str(cleanup.cache))}."]
    if cleanup.found:
        total = f"{counted(len(cleanup.found), 'item')}, {size_text(cleanup.bytes)}"
        lines = [*table([_place_row(entry) for entry in cleanup.found], right=frozenset({0}), width=width), total]
    if cleanup.spared:
        heading = "Kept texts of deleted documents whose base is gone; they cannot be recreated, so they are kept:"
        lines += [
            "",
            heading,
            *table([_place_row(entry) for entry in cleanup.spared], right=frozenset({0}), width=width),
        ]
    return "\n".join(lines)


def _place_row(entry: Removable | Spared) -> tuple[str, ...]:
    return size_text(entry.bytes), ago_text(entry.age), visible_line(str(entry.path)), visible_line(entry.reason)


def _place(context: Context) -> str:
    if context.base is None:
        return f"/{context.path}"
    return f"{context.base}/{context.path}" if context.path else context.base


def _base_row(base: KnownBase) -> tuple[str, ...]:
    where = places_text(base.places) if base.places else "" if base.origin == "config" else f"found: {base.origin}"
    state = "yes" if base.active else "no"
    known = base.index or (base.engine and not base.problem)
    documents = str(base.documents) if known else "-"  # unknown without an index, rather than 0
    return (visible_line(base.id), state, visible_line(where), documents, visible_line(base.engine or str(base.path)))
