"""All checks of an audit, and the report on them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbhub.audit.documents import file_findings, problem_findings, title_findings
from kbhub.audit.duplicates import duplicate_findings
from kbhub.audit.images import image_findings
from kbhub.audit.links import link_findings, unchecked_links
from kbhub.audit.material import Material, material_of
from kbhub.audit.memories import memory_findings
from kbhub.audit.models import CHECKS, SEVERITIES, AuditFinding, AuditReport, CheckCount
from kbhub.audit.orphans import orphan_findings
from kbhub.audit.references import ref_findings
from kbhub.audit.staleness import stale_findings
from kbhub.audit.tags import tag_findings, usual_tags
from kbhub.editing.paths import why_not_writable
from kbhub.errors import IndexUnavailable, UsageError
from kbhub.listing import short_docids
from kbhub.types import Skipped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kbhub.hub import Hub

_LINKS = frozenset(("links", "related", "headings", "ambiguous", "spelling"))
_PROBLEMS = frozenset(("front-matter", "encoding"))


def audit(hub: Hub, names: Iterable[str] = (), *, checks: Iterable[str] = (), limit: int | None = None) -> AuditReport:
    """Look for what is wrong in the documents of bases, or worth a look. Nothing is changed.

    Args:
        hub: the hub; its indexes are taken as they are.
        names: ids of the bases to look at, none for all active ones. Links between all bases count either way.
        checks: names of checks, as in `CHECKS`; none for all.
        limit: findings at most, the gravest first; all are counted.

    Raises:
        UsageError: there is no such check, or `limit` is below 0.
        BaseNotFound: a base is not active.
    """
    wanted = _wanted(checks)
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
    found = [one for one in _findings(hub, audited, bases, wanted, notes) if one.check in wanted]
    order = {name: number for number, name in enumerate(bases)}
    found.sort(key=lambda one: (SEVERITIES.index(one.severity), order[one.base], one.path, one.line or 0, one.check))
    report = AuditReport(
        bases=tuple(material.base.id for material in audited),
        documents=sum(len(material.documents) for material in audited),
        checks=tuple(name for name in CHECKS if name in wanted),
        counts=_counts(found),
        findings=tuple(found),
        total=len(found),
        fixable=_fixable(hub, found, bases),
        notes=tuple(notes),
        skipped=tuple(skipped),
    )
    return report.cut(limit)


def _wanted(checks: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(checks)
    if unknown := sorted(wanted - CHECKS.keys()):
        raise UsageError(f"There is no check {unknown[0]!r}. Checks: {', '.join(CHECKS)}.")
    return wanted or frozenset(CHECKS)


def _findings(
    hub: Hub,
    audited: Sequence[Material],
    bases: Mapping[str, Material],
    wanted: Collection[str],
    notes: list[str],
) -> Iterator[AuditFinding]:
    """Run the checks that are wanted, and maybe some that come with them."""
    usual = usual_tags(bases) if "tags" in wanted else {}
    for material in audited:
        if not _LINKS.isdisjoint(wanted):
            yield from link_findings(material, bases)
            notes += filter(None, [unchecked_links(material)])
        if "links" in wanted:
            yield from image_findings(material)
        if not _PROBLEMS.isdisjoint(wanted):
            yield from problem_findings(material)
        if "files" in wanted:
            yield from file_findings(material)
        if "titles" in wanted:
            yield from title_findings(material)
        if "stale" in wanted:
            yield from stale_findings(material)
        if "orphans" in wanted:
            yield from orphan_findings(material, bases)
        yield from tag_findings(material, usual)
    if "refs" in wanted:
        found, said = ref_findings(audited)
        notes += said
        yield from found
    if "duplicates" in wanted:
        found, said = duplicate_findings(audited)
        notes += said
        yield from found
    if "memories" in wanted:
        yield from memory_findings(hub, {material.base.id: material for material in audited})


def _counts(findings: Sequence[AuditFinding]) -> tuple[CheckCount, ...]:
    counted = Counter((one.check, one.severity) for one in findings)
    every = (
        CheckCount(
            check=name, errors=counted[name, "error"], warnings=counted[name, "warning"], infos=counted[name, "info"]
        )
        for name in CHECKS
    )
    return tuple(one for one in every if one.total)


def _fixable(hub: Hub, findings: Sequence[AuditFinding], bases: Mapping[str, Material]) -> int:
    writable = {name for name, material in bases.items() if why_not_writable(hub, material.base) is None}
    return sum(one.fix is not None and one.base in writable for one in findings)
