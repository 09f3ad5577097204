"""Render the results of `audit` for a terminal, for a model, and as records for programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import one_line as cut_line
from kbhub.render.formats import Listing
from kbhub.render.layout import passed_over_text, visible_line
from kbhub.render.model import ERROR_BYTES, FULL_ANSWER_BYTES, cut_lines, size_of
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.editing.audit import AuditFinding, AuditReport, Fixed
    from kbhub.render.terminal import Painter

_COLOURS = {"error": "1;31", "warning": "33", "info": "2"}
"""SGR parameters (ECMA-48): bold red, yellow, faint."""

_NARROWER = "pass a single one of `checks` or `bases` to see more, or fix what is shown"
_LARGER = f"pass a larger `limit`, or {_NARROWER}"
"""How a model gets the findings that do not fit, in terms of the tool."""

_FIELDS = (
    "severity",
    "check",
    "ref",
    "line",
    "message",
    "remedy",
    "docid",
    "base",
    "path",
    "others",
    "before",
    "after",
)


def audit_text(report: AuditReport, paint: Painter) -> str:
    """Return the fixes, the findings by document with their remedies, and the totals per check."""
    parts = ["\n".join(_fixed_lines(report.fixed))] if report.fixed else []
    for (_, ref), findings in groupby(report.findings, key=lambda finding: (finding.severity, finding.ref)):
        parts.append("\n".join([visible_line(ref), *(line for finding in findings for line in _lines(finding, paint))]))
    left = report.total - len(report.findings)
    summary = "\n".join([_summary(report, left, "use `--limit` to see more"), *_passed_over(report)])
    return "\n\n".join([*(part for part in parts if part), summary])


def audit_for_model(report: AuditReport) -> tuple[str, AuditReport]:
    """Return the findings for a model, grouped by severity, and the report with only the findings that fit.

    Each has a line with its remedy. The text, at most `FULL_ANSWER_BYTES` of UTF-8, counts the findings that do not
    fit.
    """
    lines = [f"- not checked: {visible_line(note)}" for note in report.notes]
    lines += [f"- skipped {visible_line(skip.base)}: {visible_line(skip.reason)}" for skip in report.skipped]
    lines += [f"- {line}" for line in _passed_over(report)]
    lines += _fixed_lines(report.fixed) if report.fixed else []
    head = [cut_lines([(line, None) for line in lines], FULL_ANSWER_BYTES // 2, _NARROWER)[0]] if lines else []
    room = FULL_ANSWER_BYTES - sum(map(size_of, (*head, _summary(report, report.total, _LARGER))))
    shown, listed, severity = 0, list[str](), ""
    for finding in report.findings:
        entry = [] if finding.severity == severity else ["", f"## {finding.severity}"]
        place, message, remedy = map(visible_line, (_place(finding), finding.message, finding.remedy))
        line = f"- {place} [{finding.check}] {message} {remedy}"
        entry.append(cut_line(line, ERROR_BYTES))
        room -= sum(map(size_of, entry))
        if room < 0:
            break
        shown, severity = shown + 1, finding.severity
        listed += entry
    more = _NARROWER if shown < len(report.findings) else _LARGER
    return "\n".join([_summary(report, report.total - shown, more), *head, *listed]), report.cut(shown)


def audit_listing(report: AuditReport) -> Listing:
    """Return findings as records."""
    records = [
        {
            **finding.model_dump(mode="json", exclude={"fix", "others"}),
            "others": list(finding.others),
            "before": finding.fix.before if finding.fix else None,
            "after": finding.fix.after if finding.fix else None,
            "context": finding.message,
        }
        for finding in report.findings
    ]
    return Listing("finding", _FIELDS, records)


def _passed_over(report: AuditReport) -> list[str]:
    return [f"{visible_line(name)}: {passed_over_text(counts)}" for name, counts in report.passed_over.items()]


def _lines(finding: AuditFinding, paint: Painter) -> Iterator[str]:
    line = "" if finding.line is None else f"{finding.line}: "
    label = paint(finding.severity, _COLOURS[finding.severity])
    yield f"  {line}{label} {finding.check}: {visible_line(finding.message)}"
    yield f"      → {visible_line(finding.remedy)}"


def _place(finding: AuditFinding) -> str:
    return finding.ref if finding.line is None else f"{finding.ref}:{finding.line}"


def _fixed_lines(fixed: Fixed) -> list[str]:
    head = f"{counted(len(fixed.changes), 'change')} {'would be made' if fixed.dry_run else 'made'}."
    lines = [
        f"  {visible_line(change.ref)}{'' if change.line is None else f':{change.line}'}: "
        f"{visible_line(change.before)} → {visible_line(change.after)}"
        for change in fixed.changes
    ]
    return [head, *lines]


def _summary(report: AuditReport, left: int, more: str) -> str:
    """Return the totals, how many findings are not shown, and how to see more of them."""
    scope = f"{counted(report.documents, 'document')} in {counted(len(report.bases), 'base')}"
    if not report.total:
        return f"{scope}: no problems found."
    sums = {noun: sum(getattr(count, f"{noun}s") for count in report.counts) for noun in ("error", "warning")}
    infos = sum(count.infos for count in report.counts)
    parts = [counted(number, noun) for noun, number in sums.items() if number]
    parts += [f"{infos} to review"] if infos else []
    checks = ", ".join(f"{count.check} {count.total}" for count in report.counts)
    text = f"{scope}: {', '.join(parts)} ({checks})."
    if left:
        text += f" Not shown: {left}; {more}."
    if report.fixable:
        text += f" `kbhub audit --fix` can fix {report.fixable}."
    return text
