"""Applying the safe fixes of an audit: links with an unambiguous target, and tags in their most common spelling.

Only what a finding names is replaced; every other byte stays, and documents are written atomically.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from kbhub.documents.front_matter_editing import front_matter_of, with_texts, with_values
from kbhub.documents.text_editing import text_of
from kbhub.editing.audit.material import AuditFinding, Change, Fixed
from kbhub.editing.folder import bring_in_step, changed_meanwhile, open_folder, read_for_change, refusing
from kbhub.editing.paths import find_document, why_not_writable
from kbhub.editing.relinking import relink, unmended
from kbhub.errors import KbhubError, WriteRefused
from kbhub.sync.lock import writing
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.documents.text_editing import Text
    from kbhub.editing.audit.material import AuditReport
    from kbhub.editing.paths import Place
    from kbhub.editing.relinking import Rewritten
    from kbhub.hub import Hub
    from kbhub.types import Base

_TAG_KEYS = ("tags", "tag")


def fix(hub: Hub, report: AuditReport, *, dry_run: bool = False) -> Fixed:
    """Apply the safe fixes of an audit in writable bases, and index the changes.

    Args:
        hub: the hub.
        report: result of `audit`, not cut to a limit.
        dry_run: only report what would be changed.
    """
    by_document: dict[tuple[str, str], list[AuditFinding]] = defaultdict(list)
    for finding in report.findings:
        if finding.fix is not None:
            by_document[finding.base, finding.path].append(finding)
    bases = {base.id: base for base in hub.discovery().bases}
    changes: list[Change] = []
    failed: list[Problem] = []
    refused: set[str] = set()
    for (name, path), findings in by_document.items():
        if name in refused or name not in bases:
            continue
        if reason := why_not_writable(hub, bases[name]):
            refused.add(name)
            failed.append(Problem(subject=name, message=f"{reason[0].upper()}{reason[1:]}."))
            continue
        try:
            new, missed = _mend(hub, bases[name], path, findings, dry_run=dry_run)
        except KbhubError as error:
            failed.append(Problem(subject=findings[0].ref, message=str(error)))
            continue
        changes += new
        if missed:
            failed.append(Problem(subject=findings[0].ref, message=unmended(missed)))
    if not dry_run:
        for name in dict.fromkeys(name for name, _ in by_document if name not in refused and name in bases):
            bring_in_step(hub, bases[name], "")
    return Fixed(changes=tuple(changes), failed=tuple(failed), dry_run=dry_run)


def _mend(
    hub: Hub, base: Base, path: str, findings: Sequence[AuditFinding], *, dry_run: bool
) -> tuple[list[Change], list[int | None]]:
    place = find_document(hub, f"{base.id}@{path}")
    with writing(hub, base, place.ref), refusing(place.ref), open_folder(base, place.folders) as folder:
        content = read_for_change(folder, place, None)
        text, changes, missed = _mended(place, text_of(place.ref, content.data), findings)
        if changes and not dry_run and not folder.replace(place.name, text.encoded(), content):
            raise changed_meanwhile(place, content.hash)
    return changes, missed


def _mended(place: Place, text: Text, findings: Sequence[AuditFinding]) -> tuple[Text, list[Change], list[int | None]]:
    """Return the fixed text, the changes, and the lines of links that could not be fixed."""
    fixes = [(finding, finding.fix) for finding in findings if finding.fix]
    targets = {(fix.kind, fix.before): fix.after for _, fix in fixes if fix.what != "tag"}
    links: list[Rewritten] = []
    missed: list[int | None] = []
    if targets:
        text, links, missed = relink(place.ref, text, lambda target, kind: targets.get((kind, target)))
        if not links and not missed:
            raise WriteRefused(place.ref, "its links could not be rewritten; mend them by hand")
    changes = []
    for link in links:
        finding = next((finding for finding in findings if finding.line == link.line), findings[0])
        changes.append(
            Change(ref=finding.ref, line=link.line, check=finding.check, before=link.before, after=link.after)
        )
    tags = [(finding, fix) for finding, fix in fixes if fix.what == "tag"]
    if tags:
        text = _retagged(place.ref, text, {fix.before: fix.after for _, fix in tags})
    for finding, fix in tags:
        changes.append(
            Change(ref=finding.ref, line=finding.line, check=finding.check, before=fix.before, after=fix.after)
        )
    return text, changes, missed


def _retagged(ref: str, text: Text, tags: Mapping[str, str]) -> Text:
    """Rename tags in a document; raise `WriteRefused` if they cannot be changed one by one."""
    front = front_matter_of(text)
    expected = tuple(dict.fromkeys(tags.get(tag, tag) for tag in front.tags))
    for key, value in front.values.items():
        if key.strip().casefold() in _TAG_KEYS:
            items = value if isinstance(value, list) else [value]
            text = with_texts(ref, text, key, {old: _renamed(old, tags) for old in items if isinstance(old, str)})
            new = front_matter_of(text).values[key]
            if isinstance(new, list) and len(unique := list({repr(item): item for item in new}.values())) < len(new):
                text = with_values(ref, text, {key: unique})
    if tuple(front_matter_of(text).tags) != expected:
        raise WriteRefused(ref, "its tags cannot be changed one by one; mend them by hand")
    return text


def _renamed(text: str, tags: Mapping[str, str]) -> str:
    """Rename the tags in a text, which may hold several: `a, b` and `#a #b`."""
    parts = re.split(r"([,#]|\s+(?=#))", text) if "," in text or "#" in text else [text]
    for number, part in enumerate(parts):
        tag = part.strip().strip("'\"").strip()
        if tag in tags:
            parts[number] = part.replace(tag, tags[tag])
    return "".join(parts)
