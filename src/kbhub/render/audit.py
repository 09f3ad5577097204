"""What `audit` found and mended → text for a person, text for a model, and flat records for programs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import one_line as cut_line
from kbhub.render.formats import Listing
from kbhub.render.model import ERROR_BYTES, FULL_ANSWER_BYTES, cut_lines, size_of
from kbhub.render.plain import one_line
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.editing.audit import AuditFinding, AuditReport, Fixed
    from kbhub.render.terminal import Painter

_COLOURS = {"error": "1;31", "warning": "33", "info": "2"}
"""SGR parameters (ECMA-48): bold red, yellow, faint."""

_NARROWER = "one of `checks` or of `bases` at a time shows more of it, and so does mending what is shown"
_LARGER = f"a larger `limit` shows more, or {_NARROWER}"
"""What a model does for the findings that are left out, in the words of the tool."""

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
    left = report.total - len(report.findings)
    return "\n\n".join([*(part for part in parts if part), _sum(report, left, "`--limit` shows more")])


def audit_for_model(report: AuditReport) -> tuple[str, AuditReport]:
    """Give the findings for a model: one line each, grouped by severity, with what to do.

    Args:
        report: what was found, cut to what is to be shown.

    Returns:
        At most `FULL_ANSWER_BYTES` of UTF-8, in which findings that do not fit are counted with those that were cut,
        and the report with the findings that are in it.
    """
    lines = [f"- not looked at: {one_line(note)}" for note in report.notes]
    lines += [f"- skipped {one_line(one.base)}: {one_line(one.reason)}" for one in report.skipped]
    lines += _fixed_lines(report.fixed) if report.fixed else []
    head = [cut_lines([(line, None) for line in lines], FULL_ANSWER_BYTES // 2, _NARROWER)[0]] if lines else []
    room = FULL_ANSWER_BYTES - sum(map(size_of, (*head, _sum(report, report.total, _LARGER))))
    shown, listed, severity = 0, list[str](), ""
    for one in report.findings:
        entry = [] if one.severity == severity else ["", f"## {one.severity}"]
        line = f"- {one_line(_place(one))} [{one.check}] {one_line(one.message)} {one_line(one.remedy)}"
        entry.append(cut_line(line, ERROR_BYTES))
        room -= sum(map(size_of, entry))
        if room < 0:
            break
        shown, severity = shown + 1, one.severity
        listed += entry
    more = _NARROWER if shown < len(report.findings) else _LARGER
    return "\n".join([_sum(report, report.total - shown, more), *head, *listed]), report.cut(shown)


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


def _sum(report: AuditReport, left: int, more: str) -> str:
    """Say what was found in all, how many findings of it are not shown, and what shows more of them."""
    looked = f"{counted(report.documents, 'document')} in {counted(len(report.bases), 'base')}"
    if not report.total:
        return f"{looked}: nothing found."
    sums = {noun: sum(getattr(one, f"{noun}s") for one in report.counts) for noun in ("error", "warning")}
    infos = sum(one.infos for one in report.counts)
    parts = [counted(number, noun) for noun, number in sums.items() if number]
    parts += [f"{infos} to look at"] if infos else []
    checks = ", ".join(f"{one.check} {one.total}" for one in report.counts)
    text = f"{looked}: {', '.join(parts)} ({checks})."
    if left:
        text += f" Not shown: {left}; {more}."
    if report.fixable:
        text += f" `kbhub audit --fix` can mend {report.fixable}."
    return text
