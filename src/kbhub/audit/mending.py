"""Make the changes of an audit that are safe: links to a document that is certain, and tags as most write them.

Only what is named in a finding is replaced; every other byte of a document stays, and it is written whole or not at
all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from kbhub.audit.models import AuditFinding, Change, Fixed
from kbhub.editing.folder import open_folder
from kbhub.editing.locks import writing
from kbhub.editing.paths import find_document, why_not_writable
from kbhub.editing.relinking import relink, unmended
from kbhub.editing.stored import bring_in_step, changed_meanwhile, read_for_change, refusing
from kbhub.errors import KbhubError, WriteRefused
from kbhub.front_matter_editing import front_matter_of, with_texts, with_values
from kbhub.text_editing import text_of
from kbhub.types import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.audit.models import AuditReport
    from kbhub.editing.paths import Place
    from kbhub.editing.relinking import Rewritten
    from kbhub.graph.resolving import LinkKind
    from kbhub.hub import Hub
    from kbhub.text_editing import Text
    from kbhub.types import Base

_TAG_KEYS = ("tags", "tag")


def fix(hub: Hub, report: AuditReport, *, dry_run: bool = False) -> Fixed:
    """Mend what an audit found and what is safe to mend, in bases that may be written, and index it.

    Args:
        hub: the hub.
        report: what `audit` found, not cut to a limit.
        dry_run: say what would be changed, and change nothing.
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
            done, missed = _mend(hub, bases[name], path, findings, dry_run=dry_run)
        except KbhubError as error:
            failed.append(Problem(subject=findings[0].ref, message=str(error)))
            continue
        changes += done
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
        text, done, missed = _mended(place, text_of(place.ref, content.data), findings)
        if done and not dry_run and not folder.replace(place.name, text.encoded(), content):
            raise changed_meanwhile(place, content.hash)
    return done, missed


def _mended(place: Place, text: Text, findings: Sequence[AuditFinding]) -> tuple[Text, list[Change], list[int | None]]:
    """Change a document's text; gives it with what was changed, and the lines of the links that could not be.

    Raises:
        WriteRefused: something that was found is not there, or cannot be changed alone.
    """
    targets = {(one.fix.kind, one.fix.before): one.fix.after for one in findings if one.fix and one.fix.what != "tag"}

    def rewrite(target: str, kind: LinkKind) -> str | None:
        return targets.get((kind, target))

    links: list[Rewritten] = []
    missed: list[int | None] = []
    if targets:
        text, links, missed = relink(place.ref, text, rewrite)
        if not links and not missed:
            raise WriteRefused(place.ref, "its links could not be rewritten; mend them by hand")
    done = [_change(findings, one) for one in links]
    tags = {one.fix.before: one.fix.after for one in findings if one.fix and one.fix.what == "tag"}
    if tags:
        text = _retagged(place.ref, text, tags)
        done += [
            Change(ref=one.ref, line=one.line, check=one.check, before=one.fix.before, after=one.fix.after)
            for one in findings
            if one.fix and one.fix.what == "tag"
        ]
    return text, done, missed


def _change(findings: Sequence[AuditFinding], link: Rewritten) -> Change:
    of_line = next((one for one in findings if one.line == link.line), findings[0])
    return Change(ref=of_line.ref, line=link.line, check=of_line.check, before=link.before, after=link.after)


def _retagged(ref: str, text: Text, tags: Mapping[str, str]) -> Text:
    """Write tags of a document differently.

    Raises:
        WriteRefused: the front matter cannot be changed so.
    """
    front = front_matter_of(text)
    wanted = tuple(dict.fromkeys(tags.get(tag, tag) for tag in front.tags))
    for key, value in front.values.items():
        if key.strip().casefold() in _TAG_KEYS:
            texts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
            text = with_texts(ref, text, key, {one: _renamed(one, tags) for one in texts})
            now = front_matter_of(text).values[key]
            if isinstance(now, list) and len(once := list({repr(one): one for one in now}.values())) < len(now):
                text = with_values(ref, text, {key: once})
    if tuple(front_matter_of(text).tags) != wanted:
        raise WriteRefused(ref, "its tags cannot be changed one by one; mend them by hand")
    return text


def _renamed(text: str, tags: Mapping[str, str]) -> str:
    """Rename the tags of one text, which may hold several: `a, b` and `#a #b`."""
    parts = re.split(r"([,#]|\s+(?=#))", text) if "," in text or "#" in text else [text]
    return "".join(_part(part, tags) for part in parts)


def _part(part: str, tags: Mapping[str, str]) -> str:
    tag = part.strip().strip("'\"").strip()
    return part.replace(tag, tags[tag]) if tag in tags else part
