"""Memories as text, for terminals and for models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kbhub.documents.shown_text import REJECTED, TITLE_BYTES, one_line, outdated_mark
from kbhub.memory.results import Imported, Moved
from kbhub.render.report import LINE_BYTES, Bare, Call, Item, Line, Name, Names, Quote, Ref, Report, Text, records, say
from kbhub.render.terminal import ago, visible_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.memory.results import Forgotten, Memory, MemoryList, Remembered, Trashed
    from kbhub.reading.reports import Gap, QuerySummary
    from kbhub.usage.gaps import Gaps, LoggedQueries, Maintained, Unanswered

GAP_FIELDS = ("id", "state", "count", "question", "last_asked", "clients", "since", "answer", "reopened")
QUERY_FIELDS = ("asked", "verdict", "score", "mode", "client", "text", "bases", "hits", "read")

FIELDS = (
    *("id", "ref", "scope", "strength", "uses", "namespace", "tags", "title", "text"),
    *("created", "updated", "last_use", "by", "source", "about", "supersedes", "superseded_by"),
    *("rejected", "misleading"),
)

TEXT_BYTES = 1_200
"""UTF-8 bytes shown to a model of a memory's text: enough for all of what a list contains, also in Chinese."""

NOTE_BYTES = 500
"""UTF-8 bytes of a note; one about another identity of the project contains two names and a command."""

_DONE = {
    "stored": "Remembered",
    "strengthened": "Already known, strengthened",
    "updated": "Changed",
    "confirmed": "Confirmed",
    "doubted": "Marked as misleading",
}


def gaps_report(found: Gaps) -> Report:
    """Return gaps, and questions that may become gaps."""
    items = []
    for gap in found.gaps:
        by, states = Name(gap.answer or "?"), [_asked(gap)]
        if gap.state == "open" and gap.reopened:
            states.append(say(f"reopened {ago(gap.reopened)}; it was answered by {{}}", by))
        elif gap.state == "answered":
            states.append(say(f"answered {ago(gap.since)} by {{}}", by))
        elif gap.state == "closed":
            states.append(say(f"closed {ago(gap.since)}"))
        items.append(Item(title=Name(gap.question), marks=(f"[{gap.id}]",), lines=tuple(states)))
    for question in found.unanswered:
        lines = (_asked(question, f"; a gap after {question.needed} more"),)
        items.append(Item(title=Name(question.question), marks=("(not a gap yet)",), lines=lines))
    asked = (*found.gaps, *found.unanswered)
    rows = partial(records, "gap", GAP_FIELDS, asked, lambda one: {"state": getattr(one, "state", "not yet")})
    return Report(parts=items, rows=rows)


def _asked(one: Gap | Unanswered, more: str = "") -> Text:
    times = f"asked {counted(one.count, 'time')}, last {ago(one.last_asked)}"
    return say(f"{times}{', by {}' * bool(one.clients)}{more}", Names(one.clients))


def queries_report(log: LoggedQueries) -> Report:
    """Return queries, a line each, followed by the documents read afterwards."""
    items = []
    for query in log.queries:
        marks = (ago(query.asked), f"{query.verdict or '-':<6}", Name(query.client), Name(query.text))
        items.append(Item(marks=marks, lines=tuple(say("read {}", Name(ref)) for ref in query.read)))
    return Report(parts=items, rows=partial(records, "query", QUERY_FIELDS, log.queries))


def maintained_lines(done: Maintained) -> list[str]:
    """Return what maintenance changed, a line for each question."""
    changes = (
        ("New gap", done.opened),
        ("Open again: it is no longer answered", done.reopened),
        ("Answered now", done.answered),
    )
    return [f"{change}: {visible_line(question)}" for change, questions in changes for question in questions]


def summary_lines(summary: QuerySummary) -> list[str]:
    """Return the lines of `status` about the queries of the last hour and the open gaps."""
    if not summary.logged and not summary.gaps:
        return ["not logged (`log.queries` is false)"]
    queries = counted(summary.asked, "query", "queries")
    counts = {"strong": summary.strong, "weak": summary.weak, "none": summary.none}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    lines = [f"{queries} in the last hour{f': {verdicts}' if verdicts else ''}"]
    if summary.gaps:
        lines.append(f"{counted(summary.gaps, 'open gap')}; list them with `kbhub gaps`")
        lines += [f"  {gap.count} × {visible_line(gap.question)}" for gap in summary.top_gaps]
    return lines


def remembered_report(done: Remembered) -> Report:
    """Return the result of `remember`, and what to do about similar memories."""
    parts: list[Text | Item] = []
    if done.superseded:
        parts.append(say("It replaces {}.", Bare(", ".join(done.superseded), LINE_BYTES)))
    if done.near:
        ours, theirs = one_line(done.memory.id, TITLE_BYTES), one_line(done.near[0].id, TITLE_BYTES)
        replaces, command = {"supersedes": [theirs]}, f"kbhub remember --id {ours} --supersedes {theirs}"
        replace = Call("remember", {"id": ours, "options": replaces}, command)
        keep = Call("remember", {"id": theirs}, f"kbhub remember --id {theirs}")
        drop = Call("forget", {"ids": [ours]}, f"kbhub forget {ours}")
        parts.append("Similar but different:")
        for one in done.near:
            text, score, warning = Name(one.text, LINE_BYTES), f"{one.similarity:.2f}", REJECTED if one.rejected else ""
            parts.append(Item(label=Bare(one.id), score=score, title=text, warning=warning))
        advice = "If it replaces one of them: {}; if both hold: {}; if it only repeats it: {}."
        parts.append(say(advice, replace, keep, drop))
    # With similar memories, the first note is this advice, too.
    parts += [Line(note, NOTE_BYTES) for note in done.notes[bool(done.near) :]]
    return Report(_item(done.memory, label=f"{_DONE[done.did]}:"), parts, data=done)


def memories_report(found: MemoryList, offset: int = 0, *, whole: bool = False) -> Report:
    """Return memories with their text, on one line unless `whole`. `offset` counts those before this page."""
    items = []
    for number, memory in enumerate(found.memories, offset + 1):
        text = memory.text if whole else " ".join(memory.text.split())
        quote = Quote(text, TEXT_BYTES, fenced=False)
        items.append(_item(memory, number=number, quote=quote, of=memory))

    def summary(shown: int) -> list[Text]:
        if not items and offset and found.total:
            return [f"There are {found.total} in total; list them without `offset`."]
        if not items:
            return ["No memory matches. `remember` saves one."]
        end = offset + shown
        head = f"Memories {offset + 1}-{end}" if shown > 1 else f"Memory {end}"
        helped, read = Call("remember", {"id": "…"}), Call("read", {"refs": "…"})
        use = "If one helped, {} confirms it and keeps it strong; `misleading` weakens it. For the full text: {}."
        return [say(f"{head} of {found.total}. {use}", helped, read)]

    def calls(shown: int) -> list[Text]:
        end = offset + shown
        return [f"More: the same call with offset={end}."] if items and end < found.total else []

    notes = [Line(note, NOTE_BYTES) for note in found.notes]
    rows = partial(records, "memory", FIELDS, found.memories)
    return Report(parts=items, summary=summary, calls=calls, notes=notes, data=found, lists=("memories",), rows=rows)


def forgotten_report(done: Forgotten) -> Report:
    """Return the forgotten memories, and where their files are."""
    if not done.memories:
        return Report("Nothing forgotten: no memory matches.", data=done)
    items = [Item(label=Bare(memory.id), title=Name(memory.title)) for memory in done.memories]
    head = f"Forgot {counted(len(items), 'memory', 'memories')}:"
    kept: list[Text] = [say("Their files are in the trash: {}.", Line(str(done.trash)))] if done.trash else []
    kept += [Line(note, NOTE_BYTES) for note in done.notes]
    foot, advice = say(" ".join(["{}"] * len(kept)), *kept), "their files are in the trash, too"
    return Report(parts=[head, *items], foot=foot, calls=kept, advice=advice, data=done)


def trashed_report(found: Sequence[Trashed]) -> Report:
    """Return the memories that can be restored."""
    items = [
        Item(label=Name(one.id), title=Name(one.title), marks=(f"({one.scope}, {ago(one.forgotten)})",), row=True)
        for one in found
    ]
    return Report("" if items else "The trash contains no memories of this project or of yours.", items)


def transfer_report(done: Imported | Moved) -> Report:
    """Return the result of an import or a move."""
    known = f"; {done.known} already known"
    if isinstance(done, Imported):
        failed = f", {counted(len(done.failed), 'problem')}" if done.failed else ""
        return Report(f"Imported {counted(done.added, 'memory', 'memories')} ({done.format}){known}{failed}.")
    text = f"Moved {counted(done.moved, 'memory', 'memories')} from {{}} to {{}}"
    text += f"{known}, moved to the trash" if done.known else ""
    text += f"; {done.renamed} with a new id" if done.renamed else ""
    return Report(say(f"{text}.", Name(str(done.source)), Name(str(done.target))))


def _item(
    memory: Memory, *, label: str = "", number: int = 0, quote: Quote | None = None, of: Memory | None = None
) -> Item:
    warnings: list[Text] = [REJECTED] if memory.rejected else []
    warnings += [f"misled {counted(memory.misleading, 'time')}"] if memory.misleading else []
    if memory.superseded_by:
        warnings.append(say("superseded by {}", Bare(", ".join(memory.superseded_by), LINE_BYTES)))
    elif memory.outdated:
        warnings.append(Line(outdated_mark(memory.outdated)))
    known = say("id {}", Bare(memory.id)), memory.scope, f"strength {memory.strength:.2f}", counted(memory.uses, "use")
    namespace = say("in {}", Bare(memory.namespace)) if memory.namespace else ""
    tags = Bare(" ".join(f"#{tag}" for tag in memory.tags)) if memory.tags else ""
    about = say("about {}", Bare(", ".join(memory.about), LINE_BYTES)) if memory.about else ""
    marks, warning = (*known, namespace, tags, about), say("; ".join(["{}"] * len(warnings)), *warnings)
    return Item(Ref(memory.ref), marks=marks, warning=warning, label=label, number=number, quote=quote, of=of)
