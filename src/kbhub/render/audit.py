"""What `audit` found and mended → text for a person, text for a model, and flat records for programs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kbhub.render.formats import Listing
from kbhub.render.plain import one_line
from kbhub.render.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.audit import AuditFinding, AuditReport, Fixed
    from kbhub.render.terminal import Painter

_COLOURS = {"error": "1;31", "warning": "33", "info": "2"}
"""SGR parameters (ECMA-48): bold red, yellow, faint."""

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
    """Give what was mended, the findings by document, each with what to do, and the sum per check.

    Args:
        report: what was found, cut to what is to be shown.
        paint: puts colours.
    """
    parts = ["\n".join(_fixed_lines(report.fixed))] if report.fixed else []
    for (_, ref), findings in groupby(report.findings, key=lambda one: (one.severity, one.ref)):
        parts.append("\n".join([one_line(ref), *(line for one in findings for line in _lines(one, paint))]))
    return "\n\n".join([*(part for part in parts if part), _sum(report)])


def audit_for_model(report: AuditReport) -> str:
    """Give the findings for a model: one line each, grouped by check, with what to do.

    Args:
        report: what was found, cut to what is to be shown.
    """
    lines = [_sum(report)]
    lines += [f"- not looked at: {one_line(note)}" for note in report.notes]
    lines += [f"- skipped {one_line(one.base)}: {one_line(one.reason)}" for one in report.skipped]
    lines += _fixed_lines(report.fixed) if report.fixed else []
    for severity, findings in groupby(report.findings, key=lambda one: one.severity):
        lines += ["", f"## {severity}"]
        lines += [
            f"- {one_line(_place(one))} [{one.check}] {one_line(one.message)} {one_line(one.remedy)}"
            for one in findings
        ]
    return "\n".join(lines)


def audit_listing(report: AuditReport) -> Listing:
    """Give findings as records."""
    records = [
        {
            **one.model_dump(mode="json", exclude={"fix", "others"}),
            "others": list(one.others),
            "before": one.fix.before if one.fix else None,
            "after": one.fix.after if one.fix else None,
            "context": one.message,
        }
        for one in report.findings
    ]
    return Listing("finding", _FIELDS, records)


def _lines(finding: AuditFinding, paint: Painter) -> Iterator[str]:
    line = "" if finding.line is None else f"{finding.line}: "
    label = paint(finding.severity, _COLOURS[finding.severity])
    yield f"  {line}{label} {finding.check}: {one_line(finding.message)}"
    yield f"      → {one_line(finding.remedy)}"


def _place(finding: AuditFinding) -> str:
    return finding.ref if finding.line is None else f"{finding.ref}:{finding.line}"


def _fixed_lines(fixed: Fixed) -> list[str]:
    head = f"{counted(len(fixed.changes), 'change')} {'would be made' if fixed.dry_run else 'made'}."
    lines = [
        f"  {one_line(one.ref)}{'' if one.line is None else f':{one.line}'}: "
        f"{one_line(one.before)} → {one_line(one.after)}"
        for one in fixed.changes
    ]
    return [head, *lines]


def _sum(report: AuditReport) -> str:
    looked = f"{counted(report.documents, 'document')} in {counted(len(report.bases), 'base')}"
    if not report.total:
        return f"{looked}: nothing found."
    sums = {noun: sum(getattr(one, f"{noun}s") for one in report.counts) for noun in ("error", "warning")}
    infos = sum(one.infos for one in report.counts)
    parts = [counted(number, noun) for noun, number in sums.items() if number]
    parts += [f"{infos} to look at"] if infos else []
    checks = ", ".join(f"{one.check} {one.total}" for one in report.counts)
    text = f"{looked}: {', '.join(parts)} ({checks})."
    if len(report.findings) < report.total:
        text += f" {report.total - len(report.findings)} are not shown; `--limit` shows more."
    if report.fixable:
        text += f" `kbhub audit --fix` can mend {report.fixable}."
    return text
