"""Results of an audit."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kbhub.frozen import Model
from kbhub.types import Problem, Skipped

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Most severe first."""

CHECKS: dict[str, str] = {
    "links": "links and images that lead to nothing",
    "related": "entries of `related` that are no document",
    "headings": "links to a heading that is not there",
    "ambiguous": "links that could mean several documents",
    "spelling": "links that other programs may not follow: case, ending, place",
    "refs": "entries of `refs` whose file or symbol is not there",
    "front-matter": "front matter that cannot be read",
    "encoding": "bytes that are no text",
    "files": "files that could not be indexed",
    "titles": "documents without a title, or without any text",
    "tags": "tags that differ only by case, separator or plural",
    "duplicates": "documents with the same text, or nearly",
    "stale": "documents that are old, or past their review, or superseded",
    "orphans": "documents without links and tags",
    "memories": "memories whose subject changed or vanished",
}
"""Name of a check → what it finds, in the order of lists."""


class Fix(Model):
    """A change that is safe to make."""

    what: Literal["link", "related", "tag"] = Field(
        description="What is changed: a link, an entry of `related`, a tag."
    )
    kind: str = Field("", description="How the link is written: `markdown`, `reference`, `wikilink`, `embed`.")
    before: str = Field(description="Target or tag as it is; a target is decoded and without its heading.")
    after: str = Field(description="What takes its place.")


class AuditFinding(Model):
    """One thing that is wrong, or worth a look."""

    check: str = Field(description="Name of the check.")
    severity: Severity = Field(description="`error`: it is broken; `warning`: it misleads; `info`: worth a look.")
    ref: str = Field(description="Ref of the document.")
    docid: str = Field("", description="Its short id; empty for a file that is not in the index.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    line: int | None = Field(None, description="Line of the document, from 1; none if it is about all of it.")
    message: str = Field(description="What is wrong.")
    remedy: str = Field(description="What to do.")
    others: tuple[str, ...] = Field((), description="Refs of other documents that it is about.")
    fix: Fix | None = Field(None, description="What `--fix` changes; none if that is for somebody to decide.")


class CheckCount(Model):
    """How much one check found, shown or not."""

    check: str = Field(description="Name of the check.")
    errors: int = Field(0, description="Findings of severity `error`.")
    warnings: int = Field(0, description="Findings of severity `warning`.")
    infos: int = Field(0, description="Findings of severity `info`.")

    @property
    def total(self) -> int:
        """All of them."""
        return self.errors + self.warnings + self.infos


class Change(Model):
    """A fix that was made, or would be."""

    ref: str = Field(description="Ref of the document.")
    line: int | None = Field(None, description="Line of the finding.")
    check: str = Field(description="Name of the check that found it.")
    before: str = Field(description="Link, entry or tag as it was.")
    after: str = Field(description="What it is now.")


class Fixed(Model):
    """What `fix` did."""

    changes: tuple[Change, ...] = Field((), description="Fixes that were made, or with `dry_run` would be.")
    failed: tuple[Problem, ...] = Field((), description="Documents that could not be changed, and why.")
    dry_run: bool = Field(False, description="Whether nothing was written.")


class AuditReport(Model):
    """What an audit found."""

    bases: tuple[str, ...] = Field((), description="Ids of the bases that were looked at.")
    documents: int = Field(0, description="Documents in them.")
    checks: tuple[str, ...] = Field((), description="Names of the checks that ran.")
    counts: tuple[CheckCount, ...] = Field((), description="Per check that found something, all findings counted.")
    findings: tuple[AuditFinding, ...] = Field((), description="Errors first, then by base, path and line.")
    total: int = Field(0, description="Findings in all, here or not.")
    fixable: int = Field(0, description="Of those, how many `--fix` mends.")
    notes: tuple[str, ...] = Field((), description="What was not looked at, and why.")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be looked at, and why.")
    fixed: Fixed | None = Field(None, description="What was mended before, if that was asked for.")

    def reaches(self, severity: Severity) -> bool:
        """Return whether there is a finding of this severity or a higher one."""
        severities = SEVERITIES[: SEVERITIES.index(severity) + 1]
        fields = {"error": "errors", "warning": "warnings", "info": "infos"}
        return any(getattr(count, fields[level]) for count in self.counts for level in severities)

    def cut(self, limit: int | None) -> AuditReport:
        """Return the report with a limited number of findings; the counts stay."""
        return self if limit is None else self.model_copy(update={"findings": self.findings[:limit]})
