"""Setup, doctor, hooks and the figures of `kbhub dev eval` as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.hooks.events import BY_PLUGIN
from kbhub.render.report import Item, Line, Report, Text
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.hooks.inbox import Inbox, Settled
    from kbhub.hooks.sessions import HooksState
    from kbhub.reading.reports import Diagnosis
    from kbhub.setup.plan import Paste, Step

_PLANNED = {"register": "register", "update": "update", "remove": "remove", "write": "write", "delete": "remove"}
_DONE = {"register": "registered", "update": "updated", "remove": "removed", "write": "written", "delete": "removed"}


def diagnosis_report(diagnosis: Diagnosis) -> Report:
    """Return the repairs, the findings with their remedies, and a summary."""
    repairs = [Item(label="fixed", title=Line(text)) for text in diagnosis.fixed]
    repairs += [Item(label="failed", title=Line(text)) for text in diagnosis.failed]
    items = []
    for remedy, findings in groupby(diagnosis.findings, key=lambda finding: finding.remedy):
        for finding in findings:
            message = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
            items.append(Item(label=finding.level, title=finding.check, marks=(Line(message),), row=True))
        items += [Item(marks=(Line(f"→ {remedy}"),), row=True)] if remedy else []
    levels = [finding.level for finding in diagnosis.findings]
    counts = [(levels.count(level), level) for level in ("error", "warning") if level in levels]
    fixable = sum(finding.fixable for finding in diagnosis.findings)
    summary = f"{', '.join(counted(*count) for count in counts)}." if counts else "No problems found."
    summary += f" `kbhub doctor --fix` can fix {fixable}." if counts and fixable else ""
    return Report(parts=[*repairs, *([""] if repairs else []), *items], foot=summary)


def setup_report(steps: Sequence[Step], pastes: Sequence[Paste], home: Path, *, done: bool = False) -> Report:
    """Return each step, planned or done, with the home directory as `~`, and what to paste into settings dialogs."""
    parts: list[Text | Item] = []
    for step in steps:
        ours = ("skill", "subagent", "agents-md", "hooks")
        unchanged = "unchanged" if step.command or step.subject in ours else "not found"
        changed = bool(step.before) and step.action == "update"
        details = [
            ("old command", shlex.join(step.before) if changed else ""),
            ("new command" if changed else "command", shlex.join(step.command)),
            ("file", _short(step.file, home)),
            ("backup", _short(step.backup, home) if step.backup else ""),
        ]
        failed = step.state == "failed"
        lines = [Line(f"{label:<11}  {text}") for label, text in details if text and not failed]
        word = "failed" if failed else (_DONE if done else _PLANNED).get(step.action, unchanged)
        parts.append(Item(label=word, title=Line(step.title), lines=(*lines, *map(Line, step.notes))))
    for paste in pastes:
        word, where = ("paste", ", Add:") if paste.entry else ("delete", ", the server `kbhub`")
        parts.append(Item(label=word, title=Line(paste.title), lines=(Line(f"in {paste.where}{where}"),)))
        parts += [*map(Line, paste.entry.splitlines()), *(Line(f"    {note}") for note in paste.notes)]
    return Report(parts=parts)


def _short(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def question(steps: Sequence[Step]) -> str:
    """Return the question whether to make the changes."""
    number = sum(step.state == "planned" and step.action != "nothing" for step in steps)
    return f"Make {'this' if number == 1 else 'these'} {counted(number, 'change')}?"


def state_report(state: HooksState) -> Report:
    """Return the state of the hooks in a project."""
    twice = "runs every hook twice; remove the plugin, or what `kbhub setup` registered (`kbhub setup --remove`)"
    waiting = counted(state.proposals, "proposed memory", "proposed memories")
    some = "only memories that you wrote; allow the rest with `kbhub base trust --documents`"
    facts = [
        ("clients", ", ".join(state.clients) or "none; register them with `kbhub setup --hooks`"),
        ("allowed", "yes" if state.allowed else some),
        ("delivered", summary_line(state)),
        *(("twice", f"{one} {twice}") for one in state.clients if f"{one}{BY_PLUGIN}" in state.clients),
        *([("inbox", f"{waiting}; list them with `kbhub memories inbox`")] if state.proposals else []),
    ]
    return Report(parts=[Item(label=name, title=Line(value), row=True) for name, value in facts])


def summary_line(state: HooksState) -> str:
    """Return a line on deliveries and reads."""
    if not state.deliveries:
        return f"nothing in the last {state.days} days"
    sessions = counted(state.sessions, "session")
    named = counted(state.delivered, "note")
    return f"{named} in {sessions} of the last {state.days} days, {state.read} read afterwards; {state.tokens:,} tokens"


def inbox_report(inbox: Inbox) -> Report:
    """Return the proposals with the calls that settle them."""
    items = [Item(label=one.id, title=Line(one.origin), lines=(Line(one.text),)) for one in inbox.proposals]
    foot = "Accept with `kbhub memories inbox --accept ID…` (or `all`); dismiss with `--dismiss ID…`."
    return Report(parts=items, foot=foot if items else "")


def settled_report(done: Settled) -> Report:
    """Return the outcome of proposals."""
    lines = [f"Remembered {one.memory.ref}: {one.memory.title}" for one in done.accepted]
    lines += [f"Dismissed {', '.join(done.dismissed)}"] if done.dismissed else []
    lines += [f"{done.left} left in the inbox"] if done.left else []
    return Report(parts=[*map(Line, lines)])
