"""Entries of `refs` whose file or symbol is not in the project."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.editing.audit.material import Entry, front_matter_entries
from kbhub.reading.code_references import RefState, Sources
from kbhub.workspace.project import PROJECT_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kbhub.editing.audit.material import Material
    from kbhub.editing.audit.models import AuditFinding, Severity

MOST_REFS = 20_000
"""Limit of entries looked up in one audit; each may open a file."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SEVERITY: dict[RefState, Severity] = {
    "outside": "error",
    "missing": "error",
    "undefined": "error",
    "named": "warning",
    "unchecked": "info",
}
_REMEDY: dict[RefState, str] = {
    "outside": "Name a file of the project, by its path from the git root.",
    "missing": "Name the file's new path, or take the entry out if the document is no longer about it.",
    "undefined": "Name the symbol as it is now, and see whether the document still holds.",
    "named": "Name the file that defines it, and see whether the document still holds.",
    "unchecked": "Look whether it is there.",
}


def project_root(material: Material) -> Path | None:
    """Return the git root that the refs of a base are relative to, or None if it belongs to no project."""
    root = material.hub.discovery().workspace.git_root
    base = material.base
    return root if root and (base.id == PROJECT_ID or base.path.is_relative_to(root)) else None


def ref_findings(materials: Sequence[Material]) -> tuple[list[AuditFinding], list[str]]:
    """Look up the refs of bases.

    Args:
        materials: the bases.

    Returns:
        The findings, and notes on what was not looked up.
    """
    findings: list[AuditFinding] = []
    notes: list[str] = []
    left = MOST_REFS
    for material in materials:
        entries = [entry for entry in front_matter_entries(material, "refs") if not _URL.match(entry.text)]
        root = project_root(material)
        if root is None and entries:
            what = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
            notes.append(f"{material.base.id}: {what} of `refs` not checked, for the base belongs to no project.")
        elif root is not None:
            # Sorted by file, so that each file is read once.
            entries.sort(key=lambda entry: (entry.text, entry.path))
            if len(entries) > left:
                notes.append(
                    f"{material.base.id}: {len(entries) - left} entries of `refs` not checked, for they are many."
                )
            findings += _broken(material, Sources(root), entries[:left])
            left = max(0, left - len(entries))
    return findings, notes


def _broken(material: Material, sources: Sources, entries: Sequence[Entry]) -> Iterator[AuditFinding]:
    for entry in entries:
        fault = sources.fault(entry.text)
        if fault is not None:
            near = f"Did you mean {fault.near!r}? " if fault.near else ""
            yield material.finding(
                "refs",
                _SEVERITY[fault.state],
                entry.path,
                f"`refs` names {entry.text!r}, but {fault.reason}.",
                near + _REMEDY[fault.state],
                line=entry.line,
            )
