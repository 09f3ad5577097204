"""Running all checks of an audit, and the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbhub.editing.audit.documents import (
    file_findings,
    image_findings,
    memory_findings,
    orphan_findings,
    problem_findings,
    ref_findings,
    stale_findings,
    tag_findings,
    title_findings,
    usual_tags,
)
from kbhub.editing.audit.duplicates import duplicate_findings
from kbhub.editing.audit.links import link_findings, unchecked_links
from kbhub.editing.audit.material import (
    CHECKS,
    SEVERITIES,
    AuditFinding,
    AuditReport,
    CheckCount,
    Material,
    material_of,
)
from kbhub.editing.paths import why_not_writable
from kbhub.errors import IndexUnavailable, UsageError
from kbhub.reading.listing import short_docids
from kbhub.types import Skipped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kbhub.hub import Hub

_LINKS = frozenset(("links", "related", "headings", "ambiguous", "spelling"))
_PROBLEMS = frozenset(("front-matter", "encoding"))


def audit(hub: Hub, names: Iterable[str] = (), *, checks: Iterable[str] = (), limit: int | None = None) -> AuditReport:
    """Check the documents of bases. Nothing is changed.

    Args:
        hub: the hub; indexes are used as they are.
        names: ids of the bases to check, none for all active ones. Links between all bases count in any case.
        checks: names of checks, as in `CHECKS`; none for all.
        limit: maximum number of findings, most severe first; all are counted.

    Raises:
        UsageError: a check does not exist, or `limit` is negative.
        BaseNotFound: a base is not active.
    """
    selected = frozenset(checks) or frozenset(CHECKS)
    if unknown := sorted(selected - CHECKS.keys()):
        raise UsageError(f"There is no check {unknown[0]!r}. Checks: {', '.join(CHECKS)}.")
    if limit is not None and limit < 0:
        raise UsageError(f"limit is {limit}; it can be 0 or more.")
    bases: dict[str, Material] = {}
    skipped: list[Skipped] = []
    chosen = {base.id for base in hub.select(names)}
    for base in hub.discovery().bases:
        try:
            bases[base.id] = material_of(hub, base)
        except IndexUnavailable as error:
            if base.id in chosen:
                skipped.append(Skipped(base=base.id, reason=str(error)))
    short = short_docids(row.docid for material in bases.values() for row in material.documents.values())
    for material in bases.values():
        material.short.update(short)
    audited = [material for name, material in bases.items() if name in chosen]
    notes: list[str] = []
    findings = [finding for finding in _findings(hub, audited, bases, selected, notes) if finding.check in selected]
    order = {name: number for number, name in enumerate(bases)}
    findings.sort(
        key=lambda finding: (
            SEVERITIES.index(finding.severity),
            order[finding.base],
            finding.path,
            finding.line or 0,
            finding.check,
        )
    )
    writable = {name for name, material in bases.items() if why_not_writable(hub, material.base) is None}
    report = AuditReport(
        bases=tuple(material.base.id for material in audited),
        documents=sum(len(material.documents) for material in audited),
        checks=tuple(name for name in CHECKS if name in selected),
        counts=_counts(findings),
        findings=tuple(findings),
        total=len(findings),
        fixable=sum(finding.fix is not None and finding.base in writable for finding in findings),
        notes=tuple(notes),
        skipped=tuple(skipped),
    )
    return report.cut(limit)


def _findings(
    hub: Hub,
    audited: Sequence[Material],
    bases: Mapping[str, Material],
    selected: Collection[str],
    notes: list[str],
) -> Iterator[AuditFinding]:
    """Run the requested checks, and maybe some that come with them."""
    usual = usual_tags(bases) if "tags" in selected else {}
    for material in audited:
        if not _LINKS.isdisjoint(selected):
            yield from link_findings(material, bases)
            notes += filter(None, [unchecked_links(material)])
        if "links" in selected:
            yield from image_findings(material)
        if not _PROBLEMS.isdisjoint(selected):
            yield from problem_findings(material)
        if "files" in selected:
            yield from file_findings(material)
        if "titles" in selected:
            yield from title_findings(material)
        if "stale" in selected:
            yield from stale_findings(material)
        if "orphans" in selected:
            yield from orphan_findings(material, bases)
        yield from tag_findings(material, usual)
    if "refs" in selected:
        findings, more = ref_findings(audited)
        notes += more
        yield from findings
    if "duplicates" in selected:
        findings, more = duplicate_findings(audited)
        notes += more
        yield from findings
    if "memories" in selected:
        yield from memory_findings(hub, {material.base.id: material for material in audited})


def _counts(findings: Sequence[AuditFinding]) -> tuple[CheckCount, ...]:
    totals = Counter((finding.check, finding.severity) for finding in findings)
    counts = (
        CheckCount(
            check=name, errors=totals[name, "error"], warnings=totals[name, "warning"], infos=totals[name, "info"]
        )
        for name in CHECKS
    )
    return tuple(count for count in counts if count.total)
