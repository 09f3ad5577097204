"""Setup, doctor, hooks and the figures of `kbhub eval` as text."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.hooks.events import BY_PLUGIN
from kbhub.render.terminal import Painter, table, visible_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.evaluation.report import (
        Comparison,
        DatasetFigures,
        EvalReport,
        Figures,
        RunFigures,
        Verdicts,
        WithheldFigures,
    )
    from kbhub.hooks.inbox import Inbox, Settled
    from kbhub.hooks.sessions import HooksState
    from kbhub.reading.reports import Diagnosis
    from kbhub.setup.plan import Paste, Step

WIDTH = 80
"""Columns of a line; longer words are not broken."""

_LEVELS = {"ok": "32", "warning": "33", "error": "1;31"}
"""SGR parameters (ECMA-48): green, yellow, bold red."""

_PLANNED = {"register": "register", "update": "update", "remove": "remove", "write": "write", "delete": "remove"}
_DONE = {"register": "registered", "update": "updated", "remove": "removed", "write": "written", "delete": "removed"}

_WORD = 12
"""Columns of the first word of a step, such as `registered`."""


def diagnosis_text(diagnosis: Diagnosis, paint: Painter) -> str:
    """Return the repairs, the findings with their remedies, and a summary."""
    column = max(len(finding.check) for finding in diagnosis.findings)
    repairs = [_filled("fixed", "ok", "", text, paint) for text in diagnosis.fixed]
    repairs += [_filled("failed", "error", "", text, paint) for text in diagnosis.failed]
    lines = []
    for finding in diagnosis.findings:
        message = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
        lines.append(_filled(finding.level, finding.level, f"{finding.check:<{column}}  ", message, paint))
        if finding.remedy:
            lines.append(_filled("", "", f"{'':<{column}}  → ", finding.remedy, paint))
    levels = [finding.level for finding in diagnosis.findings]
    counts = [(levels.count(level), level) for level in ("error", "warning") if level in levels]
    fixable = sum(finding.fixable for finding in diagnosis.findings)
    summary = f"{', '.join(counted(*count) for count in counts)}." if counts else "No problems found."
    summary += f" `kbhub doctor --fix` can fix {fixable}." if counts and fixable else ""
    return "\n\n".join([*(["\n".join(repairs)] if repairs else []), "\n".join(lines), summary])


def _filled(label: str, level: str, middle: str, text: str, paint: Painter) -> str:
    head = f"{label:<7}  {middle}"
    filled = textwrap.fill(
        visible_line(text),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return paint(label, _LEVELS.get(level, "")) + filled[len(label) :]


def plan_text(steps: Sequence[Step], home: Path, paint: Painter, *, done: bool = False) -> str:
    """Return a paragraph for each step, planned or done, with the home directory as `~`."""
    return "\n".join(_paragraph(step, _DONE if done else _PLANNED, home, paint) for step in steps)


def pastes_text(pastes: Sequence[Paste], paint: Painter) -> str:
    """Return a paragraph for each settings dialog, with what to paste there on lines of its own."""
    lines = []
    for paste in pastes:
        word, where = ("paste", ", Add:") if paste.entry else ("delete", ", the server `kbhub`")
        lines += [_labelled(word, _LEVELS["warning"], paste.title, paint), f"{' ' * _WORD}in {paste.where}{where}"]
        lines += [*paste.entry.splitlines(), *(f"{' ' * _WORD}{visible_line(note)}" for note in paste.notes)]
    return "\n".join(lines)


def _labelled(word: str, colour: str, title: str, paint: Painter) -> str:
    return f"{paint(word, colour) if colour else word}{' ' * (_WORD - len(word))}{title}"


def _paragraph(step: Step, words: dict[str, str], home: Path, paint: Painter) -> str:
    unchanged = "unchanged" if step.command or step.subject in ("skill", "agents-md", "hooks") else "not found"
    word = words.get(step.action, unchanged)
    colour = _LEVELS["ok"] if word in _DONE.values() else ""
    if step.state == "failed":
        word, colour = "failed", _LEVELS["error"]
    changed = step.action == "update"
    details = [
        ("old command", shlex.join(step.before) if step.before and changed else ""),
        ("new command" if changed else "command", shlex.join(step.command) if step.command else ""),
        ("file", _short(step.file, home)),
        ("backup", _short(step.backup, home) if step.backup else ""),
    ]
    lines = [f"{label:<11}  {text}" for label, text in details if text and step.state != "failed"]
    indented = (f"{' ' * _WORD}{visible_line(line)}" for line in (*lines, *step.notes))
    return "\n".join([_labelled(word, colour, step.title, paint), *indented])


def _short(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def question(steps: Sequence[Step]) -> str:
    """Return the question whether to make the changes."""
    number = sum(step.state == "planned" and step.action != "nothing" for step in steps)
    return f"Make {'this' if number == 1 else 'these'} {counted(number, 'change')}?"


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
    """Return a line on deliveries and reads."""
    if not state.deliveries:
        return f"nothing in the last {state.days} days"
    sessions = counted(state.sessions, "session")
    named = counted(state.delivered, "note")
    return f"{named} in {sessions} of the last {state.days} days, {state.read} read afterwards; {state.tokens:,} tokens"


def inbox_text(inbox: Inbox) -> str:
    """Return the proposals with the calls that settle them."""
    blocks = []
    for one in inbox.proposals:
        said = textwrap.fill(visible_line(one.text), WIDTH, initial_indent="  ", subsequent_indent="  ")
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


HEADS = {
    "ndcg5": "nDCG@5",
    "ndcg10": "nDCG@10",
    "recall5": "recall@5",
    "recall10": "recall@10",
    "mrr10": "MRR@10",
    "hit1": "hit@1",
}
"""Metric → column heading."""

SIGNIFICANT = 0.05
"""p-value below which a difference is marked with a star."""

FELL_BACK = "only part of this mode could run for {} of the queries, which have no vector."
_TIMES = ("empty", "p50 ms", "p95 ms")
_CHANGE = "Δ nDCG@10"
_VERDICTS = ("strong", "weak", "none")


def evaluation_text(report: EvalReport) -> str:
    """Return a table per data set, the means over several, and the values below the floor."""
    blocks = [_dataset(figures) for figures in report.datasets]
    if report.means:
        rows = [[name, *(_share(figures[metric]) for metric in HEADS)] for name, figures in report.means.items()]
        blocks.append(f"Mean over {counted(len(report.datasets), 'data set')}\n" + _table(["", *HEADS.values()], rows))
    blocks += [visible_line(sentence) for sentence in report.below]
    return "\n\n".join(blocks)


def _dataset(dataset: DatasetFigures) -> str:
    queries = dataset.runs[0].overall.queries if dataset.runs else 0
    sizes = (counted(dataset.documents, "document"), counted(dataset.chunks, "chunk"))
    counts = ", ".join((*sizes, counted(queries, "query", "queries")))
    rows = []
    for run in dataset.runs:
        rows.append([run.name, *_cells(run.overall), *_change(run.comparison)])
        rows += [[f"  {name}", *_cells(figures), "", "", ""] for name, figures in run.strata.items()]
    table = _table(["", *HEADS.values(), *_TIMES, _CHANGE, "p", "against"], rows)
    lines = [f"{visible_line(dataset.name)}: {counts}; answers are {dataset.unit}s", table]
    lines += [_changes(run, run.comparison) for run in dataset.runs if run.comparison and run.bases > 1]
    lines += [_changes(run, run.earlier) for run in dataset.runs if run.earlier]
    lines += [_verdicts(run, verdicts) for run in dataset.runs for verdicts in run.verdicts]
    lines += [_withheld(dataset.withheld)] if dataset.withheld else []
    lines += [f"{run.name}: {FELL_BACK.format(run.fell_back)}" for run in dataset.runs if run.fell_back]
    remarks = ["\n".join(map(visible_line, text.split("\n"))) for text in (*lines[2:], *dataset.notes)]
    return "\n".join([*lines[:2], *remarks])


def _cells(figures: Figures) -> list[str]:
    times = (f"{figures.p50_ms:.1f}", f"{figures.p95_ms:.1f}")
    return [*(_share(getattr(figures, metric)) for metric in HEADS), _share(figures.empty), *times]


def _change(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return ["", "", ""]
    change = comparison.changes["ndcg10"]
    return [_signed(change.difference), _chance(change.p), comparison.other]


def _changes(run: RunFigures, comparison: Comparison) -> str:
    changes = (
        f"{HEADS[metric]} {_signed(change.difference)} (p {_chance(change.p)})"
        for metric, change in comparison.changes.items()
    )
    return f"{run.name} against {comparison.other}: {', '.join(changes)}"


def _verdicts(run: RunFigures, verdicts: Verdicts) -> str:
    counts = f"{verdicts.answerable_queries} answerable, {verdicts.unanswerable_queries} not"
    text = f"{run.name}, {verdicts.unanswerable}: AUC of the best score {_share(verdicts.auc)} ({counts})"
    if verdicts.answerable_shares or verdicts.unanswerable_shares:
        text += f"; answerable {_shares(verdicts.answerable_shares)}; not {_shares(verdicts.unanswerable_shares)}"
    return text


def _withheld(rows: Sequence[WithheldFigures]) -> str:
    """Return a table of the verdicts with the answering document present and left out."""
    heads = ["documents", "mode", "questions", "AUC"]
    heads += [f"{verdict}, {case}" for case in ("answered", "left out") for verdict in _VERDICTS]
    cells = []
    for row in rows:
        shares = [row.answered_shares[verdict] for verdict in _VERDICTS]
        shares += [row.withheld_shares[verdict] for verdict in _VERDICTS]
        cells.append([f"{row.documents:,}", row.mode, str(row.queries), *map(_share, (row.auc, *shares))])
    return _table(heads, cells)


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) or "without a verdict"


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def _chance(p: float) -> str:
    return f"{_share(p) if p >= 0.001 else '<.001'}{'*' if p < SIGNIFICANT else ''}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align a table: names and the last column to the left, numbers to the right."""
    cells = [[visible_line(cell) for cell in row] for row in (heads, *rows)]
    numbers = frozenset(column for column, head in enumerate(heads) if column and head != "against")
    return "\n".join(table(cells, right=numbers))
