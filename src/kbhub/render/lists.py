"""Lists and the state of bases as text, for terminals and for models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, one_line, quoted
from kbhub.render import memories
from kbhub.render.formats import Listing
from kbhub.render.layout import message_of, passed_over_text, shortened, table, visible_line
from kbhub.render.model import ANSWER_BYTES, PROBLEM_BYTES, listed, sentences, size_of
from kbhub.render.report import NAME_BYTES, SENTENCE_BYTES
from kbhub.render.terminal import ago_text, size_text
from kbhub.types import Discovery, Problem
from kbhub.values import counted
from kbhub.workspace.config import shown_url

if TYPE_CHECKING:
    from kbhub.reading.lists import Listed
    from kbhub.reading.reports import BaseStatus, Status
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


BASES = 20
"""Maximum of bases that `status` writes out."""


def status_answer(status: Status) -> str:
    """Return the answer to `status`: workspace, bases, problems and, without bases, where they were looked for."""
    config = one_line(str(status.config or "none"), NAME_BYTES)
    embedder = one_line(status.embedder, TITLE_BYTES)
    lines = [f"kbhub {status.version} · workspace: {_workspace(status)} · config: {config} · embedder: {embedder}"]
    if not status.bases:
        lines.append(_nothing(status.looked_for))
    problems = [*sentences("Note", status.notes), *_problems(status.problems)]
    room = ANSWER_BYTES - sum(map(size_of, lines + problems)) - 100
    for number, base in enumerate(status.bases):
        line = _base(base)
        room -= size_of(line)
        if room < 0 or number == BASES:
            lines.append(f"… and {counted(len(status.bases) - number, 'more base')}.")
            break
        lines.append(line)
    if status.queries and (status.queries.asked or status.queries.gaps):
        lines += [
            f"Queries: {line}" if number == 0 else line
            for number, line in enumerate(memories.summary_lines(status.queries))
        ]
    return "\n".join(lines + problems)


def nothing_here(discovery: Discovery, notes: Sequence[str] = ()) -> str:
    """Return the answer for a workspace without bases: where they were looked for, and what to do."""
    off = f"No knowledge is searched here: {one_line(discovery.looked_for[-1], NAME_BYTES)}." if discovery.off else ""
    head = off or _nothing(discovery.looked_for)
    return "\n".join([head, *sentences("Note", notes), *_problems(discovery.problems)])


def _base(status: BaseStatus) -> str:
    base = status.base
    unsynced = "first index not finished" if status.documents else "not indexed yet"
    state = f"synced {status.synced}" if status.synced else unsynced
    if status.watched:
        state += (
            f", watched {status.watched}"
            if status.watched == "live"
            else f", {one_line(status.watched, SENTENCE_BYTES)}"
        )
    fields = [
        f"- {one_line(base.id, TITLE_BYTES)}: {one_line(base.place, NAME_BYTES)} ({base.origin})",
        ", ".join(
            (
                counted(status.documents, "document"),
                counted(status.chunks, "chunk"),
                counted(status.vectors, "vector"),
                *([f"{status.reranked} for reranking"] if status.reranked else []),
            )
        ),
        f"being indexed, {status.indexing}" if status.indexing else state,
    ]
    if base.names:
        fields.append(f"also known as {listed(base.names)}")
    if about := ": ".join(filter(None, (base.name if base.name != base.id else None, base.description))):
        fields.append(quoted(about, SENTENCE_BYTES))
    problems = [f"{quoted(problem.subject, TITLE_BYTES)}: {message_of(problem)}" for problem in status.problems]
    passed = passed_over_text(status.passed_over)
    lines = [f"{passed[0].upper()}{passed[1:]}."] if passed else []
    lines += sentences("Problem", problems, PROBLEM_BYTES)
    return "\n".join([" · ".join(fields), *(f"  {line}" for line in lines)])


def _workspace(status: Status) -> str:
    workspace = status.workspace
    if workspace.directory is None:
        return "none (global bases only)"
    return f"{one_line(str(workspace.directory), NAME_BYTES)} (from {one_line(workspace.source, TITLE_BYTES)})"


def _problems(problems: Sequence[Problem]) -> list[str]:
    texts = [f"{one_line(problem.subject, NAME_BYTES)}: {message_of(problem)}" for problem in problems]
    return sentences("Problem", texts, PROBLEM_BYTES)


def _nothing(looked_for: Sequence[str]) -> str:
    if not looked_for:
        return (
            "No knowledge is active here: no project, and no global base. `kbhub bases add DIR` adds a folder of notes."
        )
    what = "`kbhub init` in the project chooses or creates some"
    return f"No knowledge is active here (looked for {listed(looked_for)}). {what}."
