"""What an audit reads of the indexes, once, how its checks are declared, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from pydantic import Field

from kbhub.documents.frontmatter import read_front_matter
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.catalogue import damage_of, unindexed
from kbhub.index.engine import DocumentRow
from kbhub.index.references import ref_of
from kbhub.reading.graph import ResolvedLink, resolved_links
from kbhub.reading.reports import PASSED_OVER
from kbhub.sync.comparison import Progress
from kbhub.types import Base, Problem, Skipped
from kbhub.values import struct
from kbhub.workspace.extensions import extensions

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Most severe first."""

CHECKS: dict[str, str] = {
    "links": "broken links and images",
    "related": "entries of `related` that are not documents",
    "headings": "links to headings that do not exist",
    "ambiguous": "links that could mean several documents",
    "spelling": "links that may be broken in other programs: case, suffix, place",
    "refs": "entries of `refs` whose file or symbol does not exist",
    "front-matter": "invalid front matter",
    "encoding": "bytes that are not text",
    "secrets": "what looks like a credential",
    "files": "files that could not be indexed",
    "titles": "documents without a title, or without any text",
    "tags": "tags that differ only by case, separator or plural",
    "duplicates": "documents with the same text, or almost",
    "stale": "documents that are old, due for review, or superseded",
    "orphans": "documents without links and tags",
    "memories": "memories whose subject changed or is gone",
}
"""Name of a check → what it finds, in the order of lists; those of extensions are the last."""

CHECKS |= {name: about for extension in extensions() for name, (about, _) in extension.audits.items()}

USUAL = frozenset(CHECKS)
"""Checks that run if none is named."""

CHECKS |= {name: about for extension in extensions() for name, (about, _) in extension.keeps.items()}

_LINE = re.compile(r"\(line (\d+):")

KEPT = ("stale", "orphans", "memories", *(name for name in CHECKS if name not in USUAL))
"""Checks of `--keep`: what was true once, and what is missing."""


class Fix(Model):
    """A change that is safe to make."""

    what: Literal["link", "related", "tag", "value"] = Field(
        description="What is changed: a link, an entry of `related`, a tag, a value in front matter."
    )
    kind: str = Field("", description="How the link is written: `markdown`, `reference`, `wikilink`, `embed`.")
    before: str = Field(description="Target, tag or value as it is; a target is decoded and without its heading.")
    after: str = Field(description="The replacement.")


class AuditFinding(Model):
    """One thing that is wrong, or worth a look."""

    check: str = Field(description="Name of the check.")
    severity: Severity = Field(description="`error`: it is broken; `warning`: it misleads; `info`: worth a look.")
    ref: str = Field(description="Ref of the document.")
    docid: str = Field("", description="Its short id; empty for a file that is not in the index.")
    base: str = Field(description="Id of its base.")
    path: str = Field(description="Path in the base.")
    line: int | None = Field(None, description="Line of the document, from 1; null if it is about the whole document.")
    message: str = Field(description="What is wrong.")
    remedy: str = Field(description="What to do.")
    others: tuple[str, ...] = Field((), description="Refs of other documents that it is about.")
    fix: Fix | None = Field(None, description="What `--fix` would change; null if it needs a decision.")


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

    changes: tuple[Change, ...] = Field((), description="Fixes that were made, or would be with `dry_run`.")
    failed: tuple[Problem, ...] = Field((), description="Documents that could not be changed, and why.")
    dry_run: bool = Field(False, description="Whether nothing was written.")


class AuditReport(Model):
    """What an audit found."""

    bases: tuple[str, ...] = Field((), description="Ids of the checked bases.")
    documents: int = Field(0, description="Number of documents in them.")
    checks: tuple[str, ...] = Field((), description="Names of the checks that ran.")
    counts: tuple[CheckCount, ...] = Field((), description="Counts of all findings, per check.")
    findings: tuple[AuditFinding, ...] = Field((), description="Errors first, then by base, path and line.")
    total: int = Field(0, description="Number of all findings, shown or not.")
    fixable: int = Field(0, description="Number of those that `--fix` can fix.")
    notes: tuple[str, ...] = Field((), description="What was not checked, and why.")
    passed_over: dict[str, dict[str, int]] = Field({}, description=f"Base → its files, with `files`. {PASSED_OVER}")
    skipped: tuple[Skipped, ...] = Field((), description="Bases that could not be checked, and why.")
    fixed: Fixed | None = Field(None, description="What was fixed before, if requested.")

    def reaches(self, severity: Severity) -> bool:
        """Return whether there is a finding of this severity or a higher one."""
        severities = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(getattr(count, f"{level}s") for count in self.counts for level in severities)

    def cut(self, limit: int | None) -> AuditReport:
        """Return the report with a limited number of findings; the counts stay."""
        return self if limit is None else self.model_copy(update={"findings": self.findings[:limit]})


@struct
class Material:
    """A base, as of one read of its index."""

    hub: Hub
    base: Base
    documents: Mapping[str, DocumentRow]
    """By path, in order."""
    damage: Mapping[str, str]
    """Path → what could not be read properly."""
    unindexed: Sequence[tuple[str, str]]
    links: Sequence[ResolvedLink]
    short: dict[str, str]
    """Full docid → short docid; filled when all bases are loaded."""

    def written(self) -> dict[str, DocumentRow]:
        """Return the documents that people write, by path: other rules hold for memories, sessions and PDF."""
        return {path: row for path, row in self.documents.items() if row.kind == "document"}

    def ref(self, path: str) -> str:
        """Return the ref of a document."""
        return ref_of(self.base, path, self.hub.discovery().bases)


@struct
class Found:
    """What a check found, about a document or file of a base."""

    material: Material
    path: str
    message: str
    remedy: str
    line: int | None = None
    others: tuple[str, ...] = ()
    fix: Fix | None = None
    severity: Severity | None = None
    """None for that of its check."""
    check: str = ""
    """Its name, if the check has several."""


@struct
class Check:
    """A check, which looks through one base, or through all at once."""

    names: tuple[str, ...]
    severity: Severity
    find: Callable[..., Iterable[Found]]
    """Takes the run and, if it looks through one base, its material."""

    def findings(self, *where: AuditRun | Material) -> Iterator[AuditFinding]:
        """Yield what it finds."""
        for found in self.find(*where):
            material, row = found.material, found.material.documents.get(found.path)
            yield AuditFinding(
                check=found.check or self.names[0],
                severity=found.severity or self.severity,
                ref=material.ref(found.path),
                docid=material.short.get(row.docid, "") if row else "",
                base=material.base.id,
                path=found.path,
                line=found.line,
                message=found.message,
                remedy=found.remedy,
                others=found.others,
                fix=found.fix,
            )


def check(*names: str, severity: Severity) -> Callable[[Callable[..., Iterable[Found]]], Check]:
    """Declare a generator to be a check, by names of `CHECKS` and the severity of most findings."""
    return lambda find: Check(names, severity, find)


@struct(frozen=False)
class AuditRun:
    """An audit in progress, counted in checks of one document each."""

    hub: Hub
    bases: Mapping[str, Material]
    """All active bases, by id."""
    audited: Sequence[Material]
    selected: frozenset[str]
    progress: Progress | None
    named: bool = False
    """Whether the audited bases were asked for by name."""
    done: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """How many documents are checked."""
        return sum(len(material.documents) for material in self.audited)

    def reach(self, check: str, done: int) -> None:
        """Say how much is done, as if document by document, and which check comes or goes on."""
        self.done = done
        if self.progress:
            self.progress(check, done // len(self.selected), self.documents)


def material_of(hub: Hub, base: Base) -> Material:
    """Load the data of a base."""
    with hub.index(base).snapshot() as index:
        documents = {row.path: row for row in index.every_document()}
        damage, failed = damage_of(index), unindexed(index)
    # The links come from the graph of all bases, which may be newer than these rows.
    links = [link for link in resolved_links(hub, base) if link.path in documents]
    return Material(hub, base, documents, damage, failed, links, {})


def front_matter_fault(problem: str) -> tuple[str, int]:
    """Return what is wrong with front matter, without what follows from that, and the line."""
    line = _LINE.search(problem)
    return f"{problem.partition(', so it is')[0]}.", int(line[1]) if line else 1


def front_lines(text: str) -> list[str]:
    """Return the lines of the front matter of a document or its beginning, including the opening one."""
    lines = text.split("\n")
    closing = read_front_matter(lines).closing
    return lines[: closing or len(lines)]


def key_line(lines: Sequence[str], *keys: str) -> int | None:
    """Return the first line of front matter that begins with one of some keys, from 1, or None."""
    names = (line.partition(":")[0].strip(" \"'").casefold() for line in lines)
    return next((number for number, name in enumerate(names, 1) if name in keys), None)


def line_of(lines: Sequence[str], entry: str) -> int | None:
    """Return the first line of front matter that contains a text, from 1, or None."""
    return next((number for number, line in enumerate(lines, 1) if number > 1 and entry in line), None)
