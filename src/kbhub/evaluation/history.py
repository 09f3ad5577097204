"""Reports of earlier evaluations, kept in the cache for comparison."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from kbhub.evaluation.corpus import FOLDER, eval_folder
from kbhub.evaluation.report import EvalReport
from kbhub.values import struct
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory

if TYPE_CHECKING:
    from kbhub.evaluation.corpus import Setup
    from kbhub.hub import Hub

REPORTS = "reports"

MOST_REPORTS = 30
"""Reports that are kept; the oldest go first."""


@struct
class KeptReport:
    """An earlier report."""

    made: str
    """When, ISO 8601, UTC."""
    report: EvalReport


def keep(setup: Setup, report: EvalReport, now: float) -> None:
    """Keep a report in the cache, in place of the oldest if there are many; `now` is seconds since the epoch."""
    folder = private_directory(eval_folder(setup) / REPORTS)
    name = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H%M%SZ")
    write_atomically(folder / f"{name}.json", report.model_dump_json())
    for old in sorted(folder.glob("*.json"))[:-MOST_REPORTS]:
        old.unlink(missing_ok=True)


def kept_reports(hub: Hub) -> list[KeptReport]:
    """Return the kept reports, the latest first, without those of other versions."""
    found = []
    for file in sorted((hub.cache / FOLDER / REPORTS).glob("*.json"), reverse=True):
        try:
            report = EvalReport.model_validate_json(file.read_bytes())
            made = datetime.strptime(file.stem, "%Y-%m-%dT%H%M%SZ").replace(tzinfo=UTC)
        except (OSError, ValueError, ValidationError):
            continue
        found.append(KeptReport(made.isoformat(timespec="seconds"), report))
    return found
