"""Reports on documents: lists, links, audits and edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kbhub.editing.documents import Written
from kbhub.editing.renames import Renamed
from kbhub.editing.trash import Deleted, Restored
from kbhub.reading.reports import EDGE_KINDS, EdgeKind, Neighbour, Related, Tags
from kbhub.render.report import (
    ERROR_BYTES,
    LINE_BYTES,
    Bare,
    Call,
    Item,
    Line,
    Name,
    Names,
    Record,
    Ref,
    Report,
    Text,
    records,
    say,
)
from kbhub.render.terminal import ago, passed_over_text, size_text
from kbhub.types import Skipped
from kbhub.values import counted
from kbhub.workspace.trash import TrashEntry

if TYPE_CHECKING:
    from kbhub.editing.findings import AuditFinding, AuditReport

MOST_NOTES = 20
"""Warnings of an edit, or notes on an audit, that a model gets."""

HEADINGS: dict[EdgeKind, str] = {
    "link": "Links to",
    "backlink": "Linked from",
    "related": "Related by front matter",
    "tag": "Shares tags with",
    "near": "Similar in meaning",
}

_NARROWER = "pass a single one of `checks` or `bases` to see more, or fix what is shown"

_AUDIT_FIELDS = (
    *("severity", "check", "ref", "line", "message", "remedy", "docid", "base", "path", "others", "before", "after"),
)
_SEVERITIES = {"error": "Errors", "warning": "Warnings", "info": "To review"}
_LEFT_WORDS = {"broken": "Broken links", "outside": "Links out of every base", "file": "Links to other files"}


def edit_report(done: Written | Deleted | Restored | Renamed) -> Report:
    """Return the report of an edit; its notes are the remaining work."""
    later = () if done.indexed else ("searches find this after the next sync",)
    if isinstance(done, Written):
        lines = (f"lines {done.start_line}-{done.end_line}",) if done.start_line else ()
        marks = (f"hash {done.hash}", *lines, *later)
        head = Item(Ref(done.ref, done.docid, both=True), label=done.action.capitalize(), marks=marks)
        return Report(head, notes=_labelled("Worth fixing", done.warnings), most_notes=MOST_NOTES, data=done)
    if isinstance(done, Deleted):
        call = Call("delete_document", {"ref": done.trash, "restore": True}, f"kbhub doc restore {done.trash}")
        marks = (say("{} restores it", call), *later)
        head = Item(Ref(done.ref, done.docid), label="Deleted", marks=marks)
        return Report(head, notes=_labelled("Broken now", done.broken), most_notes=MOST_NOTES, data=done)
    if isinstance(done, Restored):
        return Report(Item(Ref(done.ref), label="Restored", marks=(f"hash {done.hash}", *later)), data=done)
    label, marks = say("Renamed {} to", Name(done.before, LINE_BYTES)), (f"hash {done.hash}", *later)
    head = Item(Ref(done.ref, done.docid, both=True), label=label, marks=marks)
    effect = "updated" if done.updated else "broken now"
    links = []
    for link in done.links:
        place = say(f"{{}}{f':{link.line}' if link.line else ''}:", Bare(link.ref, LINE_BYTES))
        before, after = Name(link.before, LINE_BYTES), Name(link.after, LINE_BYTES)
        links.append(Item(label=place, title=say("{} → {}", before, after)))
    parts: list[Text | Item] = [f"{counted(len(links), 'link')} {effect}:", *links] if links else []
    failed = [f"{problem.subject}: {problem.message}" for problem in done.not_updated]
    notes = _labelled("Not updated", failed)
    return Report(head, parts, notes=notes, most_notes=MOST_NOTES, advice="`audit` lists broken links", data=done)


def _labelled(label: str, sentences: Sequence[str]) -> list[Text]:
    return [say(f"{label}: {{}}", Line(sentence)) for sentence in sentences]


def trash_report(entries: Sequence[TrashEntry]) -> Report:
    """Return the documents that can be restored."""
    items = []
    for entry in entries:
        marks = (ago(entry.deleted), Name(entry.ref), size_text(entry.bytes))
        items.append(Item(label=Name(entry.id), marks=marks, row=True))
    return Report("" if items else "The trash is empty.", items)


def related_report(result: Related) -> Report:
    """Return the neighbours of a document, grouped by kind, and the links that lead to none."""
    tags = (Bare(" ".join(f"#{tag}" for tag in result.tags), LINE_BYTES),) if result.tags else ()
    parts: list[Text | Item] = []
    for kind in EDGE_KINDS:
        neighbours = [neighbour for neighbour in result.neighbours if neighbour.kind == kind]
        if total := result.totals.get(kind, 0):
            shown = len({neighbour.ref for neighbour in neighbours})
            share = f"{shown} of {total}" if 0 < shown < total else str(total)
            parts += ["", f"{HEADINGS[kind]} ({share})", *map(_neighbour, neighbours)]
    for status, words in _LEFT_WORDS.items():
        if links := [link for link in result.left if link.status == status]:
            parts += ["", f"{words} ({len(links)})"]
            for link in links:
                place, what = f"line {link.line}" if link.line else "front matter", Name(link.target, LINE_BYTES)
                marks = (place, say(f"{link.kind} {{}}", what), Bare(link.why, LINE_BYTES))
                parts.append(Item(marks=marks, row=True, of=link))
    if not parts and not result.skipped:
        parts = ["Nothing related: no links, no shared tags, nothing similar in meaning."]
    fields = ("kind", "direction", "hop", "docid", "ref", "base", "title", "line", "via", "context", "score", "count")
    head = Item(Ref(result.ref, result.docid, both=True), Name(result.title), marks=tags)
    notes, advice = [*map(Line, result.notes), *map(_unread, result.skipped)], "pass fewer kinds or hops"
    rows = partial(records, "neighbour", fields, result.neighbours)
    return Report(head, parts, notes=notes, advice=advice, data=result, lists=("neighbours", "left"), rows=rows)


def tags_report(result: Tags) -> Report:
    """Return tags, or the documents with some tags."""
    fields = ("docid", "ref", "base", "title", "kind", "tags", "hop", "via", "edge")
    parts, lists, rows = list[Item](), ("documents",), partial(records, "document", fields, result.documents)
    if result.names:
        names = say(" or ".join(["{}"] * len(result.names)), *map(Name, result.names))
        joined = result.total - result.tagged
        linked = f", and {joined} linked with them" if joined else ""
        head = say(f"{counted(result.tagged, 'document')} tagged {{}}{linked}", names)
        for one in result.documents:
            way = say(f"hop {one.hop}, {one.edge} via {{}}", Name(one.via or "", LINE_BYTES)) if one.hop else ""
            marks = (Bare(" ".join(f"#{tag}" for tag in one.tags)) if one.tags else "", way)
            parts.append(Item(Ref(one.ref, one.docid), Name(one.title), marks=marks, row=True, of=one))
    else:
        head = say(f"{counted(result.total, 'tag')} on {counted(result.tagged, 'document')} (documents of each)")
        lists, rows = ("tags",), partial(records, "tag", ("tag", "count", "own"), result.tags)
        for tag in result.tags:
            parts.append(Item(title=Bare(f"#{tag.tag} ({tag.count})"), depth=tag.depth, row=True, of=tag))
    none = f"No document {'indexed so far ' if result.skipped else ''}has the tag {{}}."
    notes: list[Text] = [
        say(f"{none} Did you mean {{}}?", Name(name), Names(near)) if near else say(none, Name(name))
        for name, near in result.unknown.items()
    ]
    if len(parts) < result.total:
        notes.append(say(f"{len(parts)} of {counted(result.total, 'document' if result.names else 'tag')} shown."))
    notes += [_unread(skip) for skip in result.skipped]
    advice = "pass fewer tags, or a larger limit"
    return Report("", parts, summary=[head], notes=notes, advice=advice, data=result, lists=lists, rows=rows)


def _neighbour(neighbour: Neighbour) -> Item:
    inwards, named = neighbour.direction == "in", neighbour.kind == "related"
    line = f"line {neighbour.line}" if neighbour.line and not inwards and not named else ""
    # The context of `related` is its own name.
    text = "" if named or not neighbour.context else Name(neighbour.context)
    context = Bare(neighbour.context) if neighbour.kind == "tag" else text
    via = say(f"hop {neighbour.hop} via {{}}", Name(neighbour.via, LINE_BYTES)) if neighbour.via else ""
    names = ("names it" if inwards else "named by it") if named else ""
    score = "" if neighbour.score is None else f"{neighbour.score:.2f}"
    named_already = f"#{neighbour.heading}" in (neighbour.context or "")
    heading = say("at {}", Name(neighbour.heading)) if neighbour.heading and not named_already else ""
    links = f"{neighbour.count} links" if neighbour.count > 1 else ""
    others = ", ".join(neighbour.ambiguous)
    ambiguous = say("ambiguous, or {}", Name(others, LINE_BYTES)) if others else ""
    ref = Ref(neighbour.ref, neighbour.docid, f":{neighbour.line}" if neighbour.line and inwards else "")
    marks = (names, line, score, context, heading, links, via, ambiguous)
    return Item(ref, Name(neighbour.title), marks=marks, row=True, of=neighbour)


def _unread(skip: Skipped) -> Text:
    return say("Could not read: {}: {}", Name(skip.base), Bare(skip.reason, LINE_BYTES))


def audit_report(report: AuditReport) -> Report:
    """Return the findings by severity, each remedy once, the fixes, and the totals per check."""
    parts: list[Text | Item] = []
    for severity, findings in groupby(report.findings, key=lambda finding: finding.severity):
        alike: dict[tuple[str, str], list[Item]] = {}
        for finding in findings:
            ref = Ref(finding.ref, finding.docid, "" if finding.line is None else f":{finding.line}")
            said = Line(f"{finding.check}: {finding.message}", ERROR_BYTES)
            item = Item(ref, marks=(said,), lines=(Line(finding.remedy, ERROR_BYTES),), of=finding)
            alike.setdefault((finding.check, finding.remedy), []).append(item)
        parts += ["", _SEVERITIES[severity]]
        for first, *others in alike.values():
            parts += [first, *(replace(other, lines=()) for other in others)]
    if report.fixed:
        changes = []
        for change in report.fixed.changes:
            ref = Ref(change.ref, part="" if change.line is None else f":{change.line}")
            before, after = Name(change.before, LINE_BYTES), Name(change.after, LINE_BYTES)
            changes.append(Item(ref, say("{} → {}", before, after)))
        verb = "would be made" if report.fixed.dry_run else "made"
        parts = [f"{counted(len(changes), 'change')} {verb}.", *changes, *parts]

    def summary(shown: int) -> list[Text]:
        larger = "" if shown < len(report.findings) else "pass a larger `limit`, or "
        return [_summary(report, shown, larger + _NARROWER)]

    passed = [Line(f"{name}: {passed_over_text(counts)}", ERROR_BYTES) for name, counts in report.passed_over.items()]
    skipped = [Line(f"{skip.base}: {skip.reason}", ERROR_BYTES) for skip in report.skipped]

    def row(finding: AuditFinding) -> Record:
        changed = {"before": finding.fix.before, "after": finding.fix.after} if finding.fix else {}
        return {"before": None, "after": None, **changed, "context": finding.message}

    notes = [*(Line(note, ERROR_BYTES) for note in report.notes), *skipped, *passed]
    foot = say(_summary(report, len(report.findings), "use `--limit` to see more"))
    rows, lists = partial(records, "finding", _AUDIT_FIELDS, report.findings, row), ("findings",)
    return Report("", parts, foot, summary, notes=notes, most_notes=MOST_NOTES, data=report, lists=lists, rows=rows)


def _summary(report: AuditReport, shown: int, more: str) -> str:
    """Return the totals, how many findings are not shown, and how to see more of them."""
    scope = f"{counted(report.documents, 'document')} in {counted(len(report.bases), 'base')}"
    if not report.total:
        return f"{scope}: no problems found."
    sums = {noun: sum(getattr(count, f"{noun}s") for count in report.counts) for noun in ("error", "warning")}
    infos = sum(count.infos for count in report.counts)
    parts = [counted(number, noun) for noun, number in sums.items() if number]
    parts += [f"{infos} to review"] if infos else []
    checks = ", ".join(f"{count.check} {count.total}" for count in report.counts)
    text = f"{scope}: {', '.join(parts)} ({checks})."
    if report.total > shown:
        text += f" Not shown: {report.total - shown}; {more}."
    return text + (f" `kbhub audit --fix` can fix {report.fixable}." if report.fixable else "")
