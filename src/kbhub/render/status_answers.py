"""Render the state of a workspace as Markdown for a model; see `model` for the rules of all answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, one_line, quoted
from kbhub.render import memories
from kbhub.render.model import ANSWER_BYTES, NAME_BYTES, PROBLEM_BYTES, SENTENCE_BYTES, listed, sentences, size_of
from kbhub.render.words import message_of, passed_over_text
from kbhub.types import Discovery, Problem
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.reading.reports import BaseStatus, Status

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
