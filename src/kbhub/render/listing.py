"""Bases, documents and contexts → text for a person, and flat records for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.render.formats import Listing
from kbhub.render.layout import table
from kbhub.render.plain import one_line
from kbhub.render.terminal import ago_text, size_text
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kbhub.reading.listing import Listed
    from kbhub.reading.reports import BaseStatus
    from kbhub.setup.base_changes import BaseChange
    from kbhub.setup.bases import KnownBase
    from kbhub.setup.cleanup import Cleanup, Removable, Spared
    from kbhub.setup.contexts import Context

TITLE_CHARACTERS = 60
"""Of a title in a table for people."""

TAGS_CHARACTERS = 40
"""Of a document's tags there."""

EVERYWHERE_TEXT = "every project"


def bases_text(bases: Sequence[KnownBase], config: Path, *, width: int | None = None) -> str:
    """Give a table of bases, with what is wrong with them below it."""
    if not bases:
        return f"No bases: none in {one_line(str(config))}, and none is active here. `kbhub bases add PATH` adds one."
    header = ("base", "active", "for", "documents", "path")
    rows = [header, *(_base_row(one) for one in bases)]
    problems = [one_line(f"{one.id}: {one.problem}") for one in bases if one.problem]
    return "\n".join([*table(rows, right=frozenset({3}), width=width), *(["", *problems] if problems else [])])


def base_text(base: KnownBase, *, width: int | None = None) -> str:
    """Give all there is to know of a base, a line each."""
    facts = [
        ("base", base.id),
        ("name", base.name or ""),
        ("about", base.description or ""),
        ("path", str(base.path)),
        ("found by", base.origin),
        ("active", "here" if base.active else "not here"),
        ("for", places_text(base.places)),
        ("writable", "yes" if base.writable else "no"),
        ("weight", f"{base.weight:g}"),
        ("include", ", ".join(base.include)),
        ("exclude", ", ".join(base.exclude)),
        ("documents", str(base.documents)),
        ("index", f"{base.index} ({size_text(base.index_bytes)})" if base.index else "none yet"),
        ("synced", base.synced or "never"),
        ("problem", base.problem or ""),
    ]
    lines = table([(name, one_line(value)) for name, value in facts if value], width=width)
    if base.contexts:
        lines += [
            "contexts",
            *(f"  {one_line(path or '(all)')}: {one_line(text)}" for path, text in base.contexts.items()),
        ]
    return "\n".join(lines)


def bases_listing(bases: Sequence[KnownBase]) -> Listing:
    """Give bases as records."""
    fields = ("id", "path", "origin", "active", "for", "documents", "writable", "name", "description", "problem")
    records = [
        {
            **one.model_dump(
                mode="json", include={"id", "origin", "active", "documents", "writable", "name", "problem"}
            ),
            "path": str(one.path),
            "for": list(one.places),
            "description": one.description,
            "context": one.contexts.get("") or one.description,
        }
        for one in bases
    ]
    return Listing("base", fields, records)


def change_text(change: BaseChange, verb: str) -> str:
    """Say what became of a base, and where it is active.

    Args:
        change: what was done.
        verb: what was done, in a word: `Added`, `Removed`, `Renamed`.
    """
    said = f"{verb} {change.id}: {change.path}" if change.changed else f"{change.id}: {change.path}"
    lines = [one_line(said)]
    if verb != "Removed":
        here = "and here" if change.active else "but not here"
        everywhere = "*" in change.places and change.active
        where = places_text(change.places)
        lines.append(one_line(f"Active in {where}." if everywhere else f"Active in {where}, {here}."))
    return "\n".join([*lines, *map(one_line, change.notes)])


def places_text(places: Sequence[str]) -> str:
    """Say where a base is active."""
    if "*" in places:
        return EVERYWHERE_TEXT
    return ", ".join(f"projects below {place}" for place in places) or "no project"


def documents_text(documents: Sequence[Listed], *, width: int | None = None) -> str:
    """Give a table of documents; empty if there are none."""
    if not documents:
        return ""
    rows = [
        (
            one.docid,
            one.date or "",
            one_line(one.ref),
            _cut(one_line(one.title), TITLE_CHARACTERS),
            _cut(one_line(" ".join(f"#{tag}" for tag in one.tags)), TAGS_CHARACTERS),
        )
        for one in documents
    ]
    return "\n".join(table(rows, width=width))


def documents_listing(documents: Sequence[Listed]) -> Listing:
    """Give documents as records."""
    fields = ("docid", "ref", "base", "path", "title", "date", "tags", "kind", "size")
    records = [
        {**one.model_dump(mode="json", include=set(fields)), "context": " / ".join(one.contexts)} for one in documents
    ]
    return Listing("document", fields, records)


def status_listing(bases: Sequence[BaseStatus]) -> Listing:
    """Give the active bases with the state of their indexes as records."""
    fields = ("id", "path", "origin", "documents", "chunks", "vectors", "index", "index_bytes", "synced", "problems")
    records = [
        {
            **one.model_dump(mode="json", include={"documents", "chunks", "vectors", "index", "index_bytes", "synced"}),
            **one.base.model_dump(mode="json", include={"id", "path", "origin"}),
            "problems": len(one.problems),
            "context": one.base.contexts.get("") or one.base.description,
        }
        for one in bases
    ]
    return Listing("base", fields, records)


def contexts_text(contexts: Sequence[Context], *, width: int | None = None) -> str:
    """Give contexts, a line each; empty if there are none."""
    rows = [(one_line(_place(one)), one_line(one.context)) for one in contexts]
    return "\n".join(table(rows, width=width)) if rows else ""


def contexts_listing(contexts: Sequence[Context]) -> Listing:
    """Give contexts as records."""
    records = [{**one.model_dump(mode="json"), "ref": _place(one)} for one in contexts]
    return Listing("context", ("base", "path", "context", "file"), records)


def cleanup_text(cleanup: Cleanup, *, width: int | None = None) -> str:
    """Say what would be deleted, and what that frees."""
    lines = [f"Nothing to delete in {one_line(str(cleanup.cache))}."]
    if cleanup.found:
        total = f"{counted(len(cleanup.found), 'thing')}, {size_text(cleanup.bytes)}"
        lines = [*table([_place_row(one) for one in cleanup.found], right=frozenset({0}), width=width), total]
    if cleanup.spared:
        told = "Kept texts of deleted documents, of no base any more; they cannot be made anew, so they stay:"
        lines += ["", told, *table([_place_row(one) for one in cleanup.spared], right=frozenset({0}), width=width)]
    return "\n".join(lines)


def _place_row(one: Removable | Spared) -> tuple[str, ...]:
    return size_text(one.bytes), ago_text(one.age), one_line(str(one.path)), one_line(one.reason)


def _place(context: Context) -> str:
    if context.base is None:
        return f"/{context.path}"
    return f"{context.base}/{context.path}" if context.path else context.base


def _base_row(one: KnownBase) -> tuple[str, ...]:
    where = places_text(one.places) if one.places else "" if one.origin == "config" else f"found: {one.origin}"
    state = "yes" if one.active else "no"
    documents = str(one.documents) if one.index else "-"  # not looked at yet, which is not none
    return (one_line(one.id), state, one_line(where), documents, one_line(str(one.path)))


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
