"""Findings of an audit for the hosts of repositories: SARIF, and annotations of GitHub's workflows."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from kbhub import __version__
from kbhub.editing.findings import CHECKS, AuditFinding, AuditReport
from kbhub.render.terminal import neutralised

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_DIGITS = re.compile(r"\d+")

Located = Iterable[tuple["AuditFinding", str]]
"""Findings with the path of the file in its repository."""


def located(report: AuditReport, root: Path | None, folders: Mapping[str, Path]) -> Located:
    """Yield the findings on files below a root; `folders` are those of bases."""
    for finding in report.findings:
        place = folders[finding.base] / finding.path
        if root and place.is_relative_to(root):
            yield finding, place.relative_to(root).as_posix().encode("utf-8", "replace").decode()


def sarif_log(checks: Sequence[str], findings: Located) -> str:
    """Return findings of some checks as SARIF 2.1.0, with all that GitHub requires."""
    results, seen = [], Counter[str]()
    for finding, path in findings:
        # A number, such as an age or a line, may change every day, and the finding is still the same.
        said = "\0".join((finding.check, path, _DIGITS.sub("", finding.message)))
        digest = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]
        seen[digest] += 1
        line = finding.line or 1
        place = {
            "artifactLocation": {"uri": quote(path), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 1},
        }
        result = {
            "ruleId": finding.check,
            "ruleIndex": checks.index(finding.check),
            "level": "note" if finding.severity == "info" else finding.severity,
            "message": {"text": f"{finding.message} {finding.remedy}"},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"primaryLocationLineHash": f"{digest}:{seen[digest]}"},
        }
        results.append(result)
    rules = []
    for check in checks:
        about = {"text": f"{CHECKS[check][0].upper()}{CHECKS[check][1:]}."}
        advice = {"text": f"Every finding says what to do. `kbhub audit --check {check}` lists them."}
        rules.append({"id": check, "shortDescription": about, "fullDescription": about, "help": advice})
    driver = {"name": "kbhub", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def workflow_commands(findings: Located) -> str:
    """Return findings as commands of GitHub's workflows, which annotate the lines of files."""
    return "".join(
        f"::{'notice' if finding.severity == 'info' else finding.severity} file={_property(path)},"
        f"line={finding.line or 1},"
        f"title={_property(f'kbhub: {finding.check}')}::{_data(f'{finding.message} {finding.remedy}')}\n"
        for finding, path in findings
    )


def _data(text: str) -> str:
    return neutralised(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
