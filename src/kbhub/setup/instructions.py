"""Instructions for agents to search before guessing: lines in AGENTS.md, CLAUDE.md and GEMINI.md, and a skill."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kbhub.errors import ConfigError
from kbhub.setup.clients import SERVER, Client, Machine
from kbhub.setup.entries import edit, read_bytes
from kbhub.setup.plan import Action, PlannedStep, Step, done, failed

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
"""Files that agents read when they start. If a project has none, the first is created."""

LINES = """\
<!-- kbhub:start, kept up to date by `kbhub setup --agents-md` -->
## Search what is written down first

This project has knowledge in Markdown, served by the MCP server `kbhub`.

- Before you answer a question about this project, or plan or change something in it: call `search` with the question
  in plain words, then `read` what looks right. Do this before searching files or relying on memory.
- Name the refs that your answer is based on. If you find nothing, say so; do not guess.
- `remember` what will matter again: a decision, a pitfall, a convention.
- Without the server, `kbhub search "…"` and `kbhub read REF` in a shell do the same.
<!-- kbhub:end -->"""
"""The inserted text, without a final newline."""

_START = re.compile(rb"<!-- kbhub:start\b[^>]*-->")
_END = re.compile(rb"<!-- kbhub:end -->")
_IMPORT = re.compile(rb"^@(?:\./)?AGENTS\.md\s*$", re.MULTILINE)
"""An import of AGENTS.md, as Claude Code and Gemini CLI write it."""


SKILL = Path(__file__).parent / "skill" / "SKILL.md"
"""The skill as shipped with kbhub."""

OURS = b"<!-- Written by `kbhub setup --skill`"
"""Marks a skill that kbhub may change and delete."""

_OURS_NO_MORE = "is no longer marked as kbhub's, so it was left unchanged"


def agents_tasks(root: Path, *, remove: bool) -> list[PlannedStep]:
    """Plan to write the lines into the files of a project (its symlinks resolved), or to remove them."""
    present = [root / name for name in NAMES if os.path.lexists(root / name)]
    if not present and not remove:
        present = [root / NAMES[0]]
    tasks: dict[str, PlannedStep] = {}
    for file in present:
        tasks.setdefault(os.path.realpath(file), _lines_task(file, root, remove=remove))
    return list(tasks.values())


def _lines_task(file: Path, root: Path, *, remove: bool) -> PlannedStep:
    step = Step(subject="agents-md", title=file.name, action="delete" if remove else "write", file=file)
    try:
        if not os.path.realpath(file).startswith(f"{root}{os.sep}"):
            raise ConfigError(file, f"points outside {root}; it was left unchanged")
        before = read_bytes(file)
        if before is not None and not remove and _START.search(before) is None and _imports_agents_md(file, before):
            return PlannedStep(step.model_copy(update={"action": "nothing", "notes": (f"It imports {NAMES[0]}.",)}))
        if _edited(before, file, remove=remove) == before:
            return PlannedStep(step.model_copy(update={"action": "nothing"}))
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))
    return PlannedStep(step, partial(_write_lines, step, file, root, remove=remove))


def _write_lines(step: Step, file: Path, root: Path, *, remove: bool) -> Step:
    edit(file, lambda content: _edited(content, file, remove=remove), within=root)
    return done(step)


def _imports_agents_md(file: Path, content: bytes) -> bool:
    """Return whether a file imports AGENTS.md, which has the lines already."""
    return file.name != NAMES[0] and (file.parent / NAMES[0]).is_file() and _IMPORT.search(content) is not None


def _edited(content: bytes | None, file: Path, *, remove: bool) -> bytes | None:
    """Return the file with the lines up to date, or without them; None for no file."""
    text = content or b""
    if b"\0" in text:
        raise ConfigError(file, "is not UTF-8 text; it was left unchanged")
    newline = b"\r\n" if b"\r\n" in text else b"\n"
    lines = LINES.encode().replace(b"\n", newline)
    span = _find_span(text, file)
    if span is None:
        return content if remove else _appended(text, lines, newline)
    start, end = span
    if not remove:
        return text[:start] + lines + text[end:]
    return _without(text, start, end, newline) or None


def _find_span(text: bytes, file: Path) -> tuple[int, int] | None:
    starts, ends = list(_START.finditer(text)), list(_END.finditer(text))
    if not starts and not ends:
        return None
    if len(starts) != 1 or len(ends) != 1 or ends[0].start() < starts[0].end():
        raise ConfigError(
            file, "its kbhub:start and kbhub:end are not a single pair; fix them, the file was left unchanged"
        )
    return starts[0].start(), ends[0].end()


def _appended(text: bytes, lines: bytes, newline: bytes) -> bytes:
    """Append the lines after a blank line; the file ends with a newline only if it did before."""
    if not text:
        return lines + newline
    if text.endswith(b"\n"):
        return text + newline + lines + newline
    return text + newline * 2 + lines


def _without(text: bytes, start: int, end: int, newline: bytes) -> bytes:
    """Remove the lines along with the newlines that `_appended` added."""
    head, tail = text[:start], text[end:]
    if tail:
        tail = tail.removeprefix(newline)
        return (head.removesuffix(newline) if head.endswith(newline * 2) else head) + tail
    return head.removesuffix(newline * 2)


def skill_tasks(clients: Sequence[Client], machine: Machine, *, remove: bool) -> list[PlannedStep]:
    """Plan to write or delete the skill, once per skill folder even if several clients share it."""
    readers: dict[Path, list[str]] = {}
    for client in clients:
        if client.skills:
            file = machine.path(client.skills) / SERVER / SKILL.name
            readers.setdefault(file, []).append(client.title)
    return [_skill_task(file, ", ".join(titles), remove=remove) for file, titles in readers.items()]


def _skill_task(file: Path, title: str, *, remove: bool) -> PlannedStep:
    action: Action = "delete" if remove else "write"
    step = Step(subject="skill", title=f"Skill for {title}", action=action, file=file)
    try:
        content = _skill(read_bytes(file), file, remove=remove)
        if content == read_bytes(file):
            return PlannedStep(step.model_copy(update={"action": "nothing"}))
    except ConfigError as error:
        return PlannedStep(failed(step, str(error)))
    return PlannedStep(step, partial(_write_skill, step, file, remove=remove))


def _write_skill(step: Step, file: Path, *, remove: bool) -> Step:
    edit(file, lambda content: _skill(content, file, remove=remove))
    if remove and not any(file.parent.iterdir()):
        file.parent.rmdir()
    return done(step)


def _skill(content: bytes | None, file: Path, *, remove: bool) -> bytes | None:
    """Return the new content of the file; raises ConfigError if the current one is not kbhub's."""
    if content is not None and OURS not in content:
        raise ConfigError(file, _OURS_NO_MORE)
    return None if remove else SKILL.read_bytes()
