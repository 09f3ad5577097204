"""Setup, doctor and hooks as text."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.hooks.events import BY_PLUGIN
from kbhub.render.layout import visible_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.hooks.delivery import HooksState
    from kbhub.hooks.inbox import Inbox, Settled
    from kbhub.reading.reports import Diagnosis, Finding
    from kbhub.render.terminal import Painter
    from kbhub.setup.plan import Paste, Step

WIDTH = 80
"""Columns of a line; longer words are not broken."""

_LEVELS = {"ok": "32", "warning": "33", "error": "1;31"}
"""SGR parameters (ECMA-48): green, yellow, bold red."""

_GAP = "  "


_PLANNED = {
    "register": "register",
    "update": "update",
    "remove": "remove",
    "write": "write",
    "delete": "remove",
}

_DONE = {
    "register": "registered",
    "update": "updated",
    "remove": "removed",
    "write": "written",
    "delete": "removed",
}

_FAILED = "failed"

_COLOURS = {_FAILED: "1;31", "registered": "32", "updated": "32", "written": "32", "removed": "32"}
"""SGR parameters (ECMA-48): bold red, green."""

_WIDTH = 10
"""Columns of the first word, such as `registered`."""


def diagnosis_text(diagnosis: Diagnosis, paint: Painter) -> str:
    """Return the repairs, the findings with their remedies, and a summary."""
    repairs = [("fixed", "ok", text) for text in diagnosis.fixed] + [
        ("failed", "error", text) for text in diagnosis.failed
    ]
    blocks = []
    if repairs:
        blocks.append("\n".join(_lines(label, level, "", text, paint) for label, level, text in repairs))
    column = max(len(finding.check) for finding in diagnosis.findings)
    blocks.append("\n".join(_finding(finding, column, paint) for finding in diagnosis.findings))
    return "\n\n".join([*blocks, _summary(diagnosis)])


def _finding(finding: Finding, column: int, paint: Painter) -> str:
    message = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
    text = _lines(finding.level, finding.level, finding.check.ljust(column) + _GAP, message, paint)
    if finding.remedy:
        indent = " " * (len("warning") + len(_GAP) + column + len(_GAP))
        text += "\n" + _filled(finding.remedy, f"{indent}→ ", f"{indent}  ")
    return text


def _lines(label: str, level: str, middle: str, message: str, paint: Painter) -> str:
    head = label.ljust(len("warning")) + _GAP + middle
    text = _filled(message, head, " " * len(head))
    return paint(label, _LEVELS[level]) + text[len(label) :]


def _filled(text: str, first: str, following: str) -> str:
    return textwrap.fill(
        visible_line(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(diagnosis: Diagnosis) -> str:
    levels = [finding.level for finding in diagnosis.findings]
    errors, warnings = levels.count("error"), levels.count("warning")
    if not errors and not warnings:
        return "No problems found."
    fixable = sum(finding.fixable for finding in diagnosis.findings)
    counts = ", ".join(counted(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number)
    return f"{counts}." + (f" `kbhub doctor --fix` can fix {fixable}." if fixable else "")


def plan_text(steps: Sequence[Step], home: Path, paint: Painter) -> str:
    """Return a paragraph for each planned step, with the home directory as `~`."""
    return "\n".join(_paragraph(step, _PLANNED, home, paint) for step in steps)


def report_text(steps: Sequence[Step], home: Path, paint: Painter) -> str:
    """Return a paragraph for each finished step. Arguments as for `plan_text`."""
    return "\n".join(_paragraph(step, _DONE, home, paint) for step in steps)


def pastes_text(pastes: Sequence[Paste], paint: Painter) -> str:
    """Return a paragraph for each settings dialog, with what to paste there on lines of its own."""
    return "\n".join(_paste(paste, paint) for paste in pastes)


def _paste(paste: Paste, paint: Painter) -> str:
    word = "paste" if paste.entry else "delete"
    indent = " " * (_WIDTH + 2)
    lines = [f"{paint(word, _LEVELS['warning'])}{' ' * (_WIDTH - len(word))}  {paste.title}"]
    lines.append(f"{indent}in {paste.where}{', Add:' if paste.entry else ', the server `kbhub`'}")
    lines += paste.entry.splitlines()
    lines += [f"{indent}{visible_line(note)}" for note in paste.notes]
    return "\n".join(lines)


def question(steps: Sequence[Step]) -> str:
    """Return the question whether to make the changes."""
    number = sum(step.state == "planned" and step.action != "nothing" for step in steps)
    return f"Make {'this' if number == 1 else 'these'} {counted(number, 'change')}?"


def _paragraph(step: Step, words: dict[str, str], home: Path, paint: Painter) -> str:
    word = _FAILED if step.state == "failed" else words.get(step.action, _unchanged(step))
    lines = [f"{paint(word, _COLOURS[word]) if word in _COLOURS else word}{' ' * (_WIDTH - len(word))}  {step.title}"]
    if step.state != "failed":
        lines += _details(step, home)
    lines += [*step.notes]
    indent = " " * (_WIDTH + 2)
    return "\n".join([lines[0], *(f"{indent}{visible_line(line)}" for line in lines[1:])])


def _unchanged(step: Step) -> str:
    """Return the word for a step that has nothing to do."""
    return "unchanged" if step.command or step.subject in ("skill", "agents-md", "hooks") else "not found"


def _details(step: Step, home: Path) -> list[str]:
    lines = []
    if step.before and step.action == "update":
        lines.append(_detail("old command", shlex.join(step.before)))
    if step.command:
        lines.append(_detail("new command" if step.action == "update" else "command", shlex.join(step.command)))
    lines.append(_detail("using", step.through) if step.through else _detail("file", _short(step.file, home)))
    if step.backup:
        lines.append(_detail("backup", _short(step.backup, home)))
    return lines


def _detail(label: str, text: str) -> str:
    return f"{label:<11}  {text}"


def _short(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


_INDENT = "  "

_HOOKS_WIDTH = 96
"""Columns of wrapped text."""


def state_text(state: HooksState) -> str:
    """Return the state of the hooks in a project."""
    clients = ", ".join(state.clients) or "none; register them with `kbhub setup --hooks`"
    speaks = "yes" if state.allowed else "only memories that you wrote; allow the rest with `kbhub trust --documents`"
    lines = [f"clients   {visible_line(clients)}", f"allowed   {speaks}", f"delivered {summary_line(state)}"]
    lines += (
        f"twice     {visible_line(one)} runs every hook twice; remove the plugin, or what `kbhub setup` registered "
        "(`kbhub setup --remove`)"
        for one in state.clients
        if f"{one}{BY_PLUGIN}" in state.clients
    )
    if state.proposals:
        lines.append(f"inbox     {counted(state.proposals, 'proposed memory', 'proposed memories')}; list them "
                     "with `kbhub memories inbox`")  # fmt: skip
    return "\n".join(lines)


def summary_line(state: HooksState) -> str:
    """Return a line on what was delivered and read."""
    if not state.deliveries:
        return f"nothing in the last {state.days} days"
    sessions = counted(state.sessions, "session")
    named = counted(state.delivered, "note")
    return f"{named} in {sessions} of the last {state.days} days, {state.read} read afterwards; {state.tokens:,} tokens"


def inbox_text(inbox: Inbox) -> str:
    """Return the proposals with the calls that settle them."""
    blocks = []
    for one in inbox.proposals:
        said = textwrap.fill(visible_line(one.text), _HOOKS_WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        blocks.append(f"{one.id}  {visible_line(one.origin)}\n{said}")
    last = "Accept with `kbhub memories inbox --accept ID…` (or `all`); dismiss with `--dismiss ID…`."
    return "\n\n".join([*blocks, last])


def settled_text(done: Settled) -> str:
    """Return the outcome of proposals."""
    lines = [f"Remembered {one.memory.ref}: {visible_line(one.memory.title)}" for one in done.accepted]
    if done.dismissed:
        lines.append(f"Dismissed {', '.join(done.dismissed)}")
    if done.left:
        lines.append(f"{done.left} left in the inbox")
    return "\n".join(lines)
