"""Setup, doctor, hooks and the figures of `kbhub eval` as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.hooks.events import BY_PLUGIN
from kbhub.render.report import Item, Line, Report, Text
from kbhub.render.terminal import table, visible_line
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

_PLANNED = {"register": "register", "update": "update", "remove": "remove", "write": "write", "delete": "remove"}
_DONE = {"register": "registered", "update": "updated", "remove": "removed", "write": "written", "delete": "removed"}


def diagnosis_report(diagnosis: Diagnosis) -> Report:
    """Return the repairs, the findings with their remedies, and a summary."""
    repairs = [Item(label="fixed", title=Line(text)) for text in diagnosis.fixed]
    repairs += [Item(label="failed", title=Line(text)) for text in diagnosis.failed]
    items = []
    for finding in diagnosis.findings:
        message = f"{finding.subject}: {finding.message}" if finding.subject else finding.message
        items.append(Item(label=finding.level, title=finding.check, marks=(Line(message),), row=True))
        items += [Item(marks=(Line(f"→ {finding.remedy}"),), row=True)] if finding.remedy else []
    levels = [finding.level for finding in diagnosis.findings]
    counts = [(levels.count(level), level) for level in ("error", "warning") if level in levels]
    fixable = sum(finding.fixable for finding in diagnosis.findings)
    summary = f"{', '.join(counted(*count) for count in counts)}." if counts else "No problems found."
    summary += f" `kbhub doctor --fix` can fix {fixable}." if counts and fixable else ""
    return Report(parts=[*repairs, *([""] if repairs else []), *items], foot=summary)


def setup_report(steps: Sequence[Step], pastes: Sequence[Paste], home: Path, *, done: bool = False) -> Report:
    """Return each step, planned or done, with the home directory as `~`, and what to paste into settings dialogs."""
    parts: list[Text | Item] = [_step(step, _DONE if done else _PLANNED, home) for step in steps]
    for paste in pastes:
        word, where = ("paste", ", Add:") if paste.entry else ("delete", ", the server `kbhub`")
        parts.append(Item(label=word, title=Line(paste.title), lines=(Line(f"in {paste.where}{where}"),)))
        parts += [*map(Line, paste.entry.splitlines()), *(Line(f"    {note}") for note in paste.notes)]
    return Report(parts=parts)


def _step(step: Step, words: dict[str, str], home: Path) -> Item:
    unchanged = "unchanged" if step.command or step.subject in ("skill", "agents-md", "hooks") else "not found"
    changed = step.action == "update"
    details = [
        ("old command", shlex.join(step.before) if changed else ""),
        ("new command" if changed else "command", shlex.join(step.command)),
        ("file", _short(step.file, home)),
        ("backup", _short(step.backup, home) if step.backup else ""),
    ]
    failed = step.state == "failed"
    lines = [Line(f"{label:<11}  {text}") for label, text in details if text and not failed]
    word = "failed" if failed else words.get(step.action, unchanged)
    return Item(label=word, title=Line(step.title), lines=(*lines, *map(Line, step.notes)))


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
    facts = [
        ("clients", ", ".join(state.clients) or "none; register them with `kbhub setup --hooks`"),
        (
            "allowed",
            "yes" if state.allowed else "only memories that you wrote; allow the rest with `kbhub trust --documents`",
        ),
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
