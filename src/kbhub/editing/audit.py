"""Run all checks of an audit, and apply its safe fixes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from kbhub.documents.edits import Text, with_texts, with_values
from kbhub.documents.links import is_inline_tag
from kbhub.documents.markdown import inline_tags_of
from kbhub.editing import audit_documents, findings
from kbhub.editing.audit_links import links
from kbhub.editing.findings import AuditFinding, AuditReport, AuditRun, Change, Check, CheckCount, Fixed, Material
from kbhub.editing.paths import Location, change_document, find_document, sync_changed, why_not_writable
from kbhub.editing.renames import LinkChange, not_updated, relink
from kbhub.errors import IndexUnavailable, KbhubError, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.reading.lists import short_docids
from kbhub.sync.comparison import Progress
from kbhub.sync.freshness import passed_over, why_unread
from kbhub.types import Problem, Skipped
from kbhub.workspace.extensions import extensions, imported

_TAG_KEYS = ("tags", "tag")

_OF_A_BASE = (
    links,
    audit_documents.unreadable_front_matter,
    audit_documents.damaged_text,
    audit_documents.unindexed_files,
    audit_documents.leaked_secrets,
    audit_documents.missing_titles,
    audit_documents.stale_documents,
    audit_documents.orphans,
)
_OF_ALL = (
    audit_documents.tags_spelt_differently,
    audit_documents.broken_refs,
    audit_documents.duplicates,
    audit_documents.outdated_memories,
)


def audit(
    hub: Hub,
    names: Iterable[str] = (),
    *,
    checks: Iterable[str] = (),
    limit: int | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Check the documents of bases. Nothing is changed, and indexes are used as they are."""
    named, ignored = frozenset(checks), hub.config().settings.audit.ignore
    if unknown := sorted(named.union(ignored) - findings.CHECKS.keys()):
        raise UsageError(f"Unknown check {unknown[0]!r}. Checks: {', '.join(findings.CHECKS)}.")
    selected = named or findings.USUAL.difference(ignored)
    if limit is not None and limit < 0:
        raise UsageError(f"limit is {limit}; it must be 0 or more.")
    names, bases = tuple(names), dict[str, Material]()
    unread: dict[str, str] = {}
    chosen = {base.id for base in hub.select(names)}
    for base in hub.discovery().bases:
        try:
            bases[base.id] = findings.material_of(hub, base)
        except IndexUnavailable as error:
            unread[base.id] = why_unread(hub, error)
    short = short_docids(row.docid for material in bases.values() for row in material.documents.values())
    for material in bases.values():
        material.short.update(short)
    while True:
        audited = [material for name, material in bases.items() if name in chosen]
        run = AuditRun(hub, bases, audited, selected, progress, named=bool(names))
        try:
            found = [one for one in _findings(run) if one.check in selected]
            break
        except IndexUnavailable as error:  # it turns out to be damaged
            del bases[error.base]
            unread[error.base] = why_unread(hub, error)
    order = {name: number for number, name in enumerate(bases)}
    found.sort(
        key=lambda one: (findings.SEVERITIES.index(one.severity), order[one.base], one.path, one.line or 0, one.check)
    )
    writable = {name for name, material in bases.items() if why_not_writable(hub, material.base) is None}
    if ignored and not named:
        run.notes.append(f"Not checked (`audit.ignore`): {', '.join(ignored)}.")
    of = Counter((finding.check, finding.severity) for finding in found)
    counts = (
        CheckCount(check=name, errors=of[name, "error"], warnings=of[name, "warning"], infos=of[name, "info"])
        for name in findings.CHECKS
    )
    listed = (material.base for material in audited if "files" in selected)
    beside = {base.id: others for base in listed if (others := passed_over(hub, base))}
    report = AuditReport(
        bases=tuple(material.base.id for material in audited),
        documents=run.documents,
        checks=tuple(name for name in findings.CHECKS if name in selected),
        counts=tuple(count for count in counts if count.total),
        findings=tuple(found),
        total=len(found),
        fixable=sum(finding.fix is not None and finding.base in writable for finding in found),
        notes=tuple(run.notes),
        passed_over=beside,
        skipped=tuple(Skipped(base=name, reason=reason) for name, reason in unread.items() if name in chosen),
    )
    return report.cut(limit)


def _findings(run: AuditRun) -> Iterator[AuditFinding]:
    """Run the requested checks, and maybe some that come with them."""
    offered = (one for extension in extensions() for one in {**extension.audits, **extension.keeps}.items())
    added = imported((code for name, (_, code) in offered if name in run.selected), Check)
    steps: list[tuple[Check, int, tuple[AuditRun | Material, ...]]] = [
        (check, len(material.documents), (run, material)) for material in run.audited for check in (*_OF_A_BASE, *added)
    ]
    steps += [(check, run.documents, (run,)) for check in _OF_ALL]
    for check, size, where in steps:
        if wanted := sorted(run.selected.intersection(check.names)):
            end = run.done + len(wanted) * size
            run.reach(wanted[0], run.done)
            yield from check.findings(*where)
            run.reach(wanted[0], end)


def fix(hub: Hub, report: AuditReport, *, dry_run: bool = False) -> Fixed:
    """Apply the safe fixes of an audit in writable bases and index the changes, or only report them in a dry run."""
    by_document: dict[tuple[str, str], list[AuditFinding]] = defaultdict(list)
    for finding in report.findings:
        if finding.fix is not None:
            by_document[finding.base, finding.path].append(finding)
    bases = {base.id: base for base in hub.discovery().bases}
    changes: list[Change] = []
    failed: list[Problem] = []
    refused: set[str] = set()
    for (name, path), found in by_document.items():
        if name in refused or name not in bases:
            continue
        if reason := why_not_writable(hub, bases[name]):
            refused.add(name)
            failed.append(Problem(subject=name, message=f"{reason[0].upper()}{reason[1:]}."))
            continue
        try:
            place = find_document(hub, f"{name}@{path}")
            fixed = partial(_fixed_text, place, found)
            _, (new, missed) = change_document(hub, place, fixed, write=not dry_run)
        except KbhubError as error:
            failed.append(Problem(subject=found[0].ref, message=str(error)))
            continue
        changes += new
        if missed:
            failed.append(Problem(subject=found[0].ref, message=not_updated(missed)))
    if not dry_run:
        for name in dict.fromkeys(name for name, _ in by_document if name not in refused and name in bases):
            sync_changed(hub, bases[name], "")
    return Fixed(changes=tuple(changes), failed=tuple(failed), dry_run=dry_run)


def _fixed_text(
    place: Location, found: Sequence[AuditFinding], text: Text
) -> tuple[Text, tuple[list[Change], list[int | None]]]:
    """Return the fixed text, the changes, and the lines of links that could not be fixed."""
    fixes = [(finding, finding.fix) for finding in found if finding.fix]
    targets = {(fix.kind, fix.before): fix.after for _, fix in fixes if fix.what in ("link", "related")}
    links: list[LinkChange] = []
    missed: list[int | None] = []
    if targets:
        text, (links, missed) = relink(place.ref, text, lambda target, kind: targets.get((kind, target)))
        if not links and not missed:
            raise WriteRefused(place.ref, "its links could not be updated; fix them by hand")
    made = [
        (next((one for one in found if one.line == link.line), found[0]), link.line, link.before, link.after)
        for link in links
    ]
    tags = [(finding, fix) for finding, fix in fixes if fix.what == "tag"]
    if tags:
        renamed = {fix.before: fix.after for _, fix in tags}
        text = _retagged(place.ref, text, renamed)
        text = _retagged_inline(place.ref, text, renamed) if place.base.inline_tags else text
    values = [(finding, fix) for finding, fix in fixes if fix.what == "value"]
    for key, before, after in dict.fromkeys((fix.kind, fix.before, fix.after) for _, fix in values):
        there = key in text.front.values
        replaced = with_texts(place.ref, text, key, {before: after}) if there else text
        if replaced == text:  # it is written otherwise, or the document changed since
            raise WriteRefused(place.ref, f"its front matter has no {before!r} to replace; edit it by hand")
        text = replaced
    made += [(finding, finding.line, fix.before, fix.after) for finding, fix in (*tags, *values)]
    changes = [Change(ref=of.ref, line=line, check=of.check, before=old, after=new) for of, line, old, new in made]
    return text, (changes, missed)


def _retagged(ref: str, text: Text, tags: Mapping[str, str]) -> Text:
    """Rename tags in a document; raise `WriteRefused` if they cannot be changed one by one."""
    front = text.front
    expected = tuple(dict.fromkeys(tags.get(tag, tag) for tag in front.tags))
    for key, value in front.values.items():
        if key.strip().casefold() in _TAG_KEYS:
            items = value if isinstance(value, list) else [value]
            text = with_texts(ref, text, key, {old: _renamed(old, tags) for old in items if isinstance(old, str)})
            new = text.front.values[key]
            if isinstance(new, list) and len(unique := list({repr(item): item for item in new}.values())) < len(new):
                text = with_values(ref, text, {key: unique})
    if tuple(text.front.tags) != expected:
        raise WriteRefused(ref, "its tags cannot be changed one by one; fix them by hand")
    return text


def _retagged_inline(ref: str, text: Text, tags: Mapping[str, str]) -> Text:
    """Rename tags in the text of a document; raise `WriteRefused` if a new one cannot be written there."""
    for one in reversed(inline_tags_of("\n".join(text.bare))):
        new = tags.get(one.tag)
        if new is None:
            continue
        if not is_inline_tag(new):
            reason = f"line {one.line} has the tag #{one.tag}, and {new!r} cannot be written so; fix it by hand"
            raise WriteRefused(ref, reason)
        line = text.lines[one.line - 1]
        changed = f"{line[: one.column]}{new}{line[one.column + len(one.tag) :]}"
        text = text.replaced(one.line - 1, one.line, (changed,))
    return text


def _renamed(text: str, tags: Mapping[str, str]) -> str:
    """Rename the tags in a text, which may hold several: `a, b` and `#a #b`."""
    parts = re.split(r"([,#]|\s+(?=#))", text) if "," in text or "#" in text else [text]
    for number, part in enumerate(parts):
        tag = part.strip().strip("'\"").strip()
        if tag in tags:
            parts[number] = part.replace(tag, tags[tag])
    return "".join(parts)
