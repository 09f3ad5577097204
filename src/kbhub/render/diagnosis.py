"""Render the diagnosis of `kbhub doctor` for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kbhub.render.plain import one_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.reading.reports import Diagnosis, Finding
    from kbhub.render.terminal import Painter

WIDTH = 80
"""Columns of a line; longer words are not broken."""

_LEVELS = {"ok": "32", "warning": "33", "error": "1;31"}
"""SGR parameters (ECMA-48): green, yellow, bold red."""

_GAP = "  "


def diagnosis_text(diagnosis: Diagnosis, paint: Painter) -> str:
    """Return the repairs, the findings with their remedies, and a summary."""
    repairs = [("mended", "ok", text) for text in diagnosis.mended] + [
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
        one_line(text),
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
        return "All is well."
    fixable = sum(finding.fixable for finding in diagnosis.findings)
    counts = ", ".join(counted(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number)
    return f"{counts}." + (f" `kbhub doctor --fix` can mend {fixable}." if fixable else "")
