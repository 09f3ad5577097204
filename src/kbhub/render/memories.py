"""Memories as text, for terminals and for models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, bare, one_line, quoted
from kbhub.render.formats import Listing
from kbhub.render.layout import REMEMBERED, neutralised, visible_line
from kbhub.render.model import ANSWER_BYTES, NAME_BYTES, SENTENCE_BYTES, SENTENCES, plain_ref, size_of
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.memory.results import Forgotten, Imported, Memory, MemoryList, Moved, Near, Remembered, Trashed
    from kbhub.reading.reports import Gap, QuerySummary
    from kbhub.usage.reports import Cleared, Gaps, LoggedQueries, Maintained, Unanswered

GAP_FIELDS = ("id", "state", "count", "question", "last_asked", "clients", "since", "answer", "reopened")
QUERY_FIELDS = ("asked", "verdict", "score", "mode", "client", "text", "bases", "hits", "read")

NOT_YET = "not yet"
"""State shown for a question that was not asked often enough to be a gap."""

_NOT_JUDGED = "-"


FIELDS = (
    *("id", "ref", "scope", "strength", "uses", "namespace", "tags", "title", "text"),
    *("created", "updated", "last_use", "by", "source", "about", "supersedes", "superseded_by"),
)
"""Fields of a memory in a table."""

_INDENT = "    "


def gaps_text(found: Gaps) -> str:
    """Return gaps, some lines each."""
    return "\n\n".join([*map(_gap, found.gaps), *map(_unanswered, found.unanswered)])


def gaps_listing(found: Gaps) -> Listing:
    """Return gaps as records."""
    questions = [{**question.model_dump(mode="json"), "state": NOT_YET} for question in found.unanswered]
    return Listing("gap", GAP_FIELDS, [*(gap.model_dump(mode="json") for gap in found.gaps), *questions])


def queries_text(log: LoggedQueries) -> str:
    """Return queries, a line each, followed by what was read afterwards."""
    blocks = []
    for query in log.queries:
        verdict = f"{query.verdict or _NOT_JUDGED:<6}"
        blocks.append(f"{query.asked}  {verdict}  {visible_line(query.client)}  {visible_line(query.text)}")
        blocks += [f"{_INDENT}read {visible_line(ref)}" for ref in query.read]
    return "\n".join(blocks)


def queries_listing(log: LoggedQueries) -> Listing:
    """Return queries as records."""
    return Listing("query", QUERY_FIELDS, [query.model_dump(mode="json") for query in log.queries])


def cleared_text(done: Cleared) -> str:
    """Return what was removed."""
    return f"Deleted {counted(done.queries, 'query', 'queries')} from the log, and their gaps."


def maintained_lines(done: Maintained) -> list[str]:
    """Return what maintenance changed, a line for each question."""
    changes = (
        ("New gap", done.opened),
        ("Open again: it is no longer answered", done.reopened),
        ("Answered now", done.answered),
        ("Remembered where it is answered", done.promoted),
        ("The answer moved; updated its memory", done.followed),
        ("The answer is gone; removed its memory", done.withdrawn),
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


def _gap(gap: Gap) -> str:
    lines = [f"{visible_line(gap.question)}  [{gap.id}]"]
    clients = visible_line(", ".join(gap.clients))
    lines.append(f"{_INDENT}asked {gap.count} times, last {gap.last_asked}{f', by {clients}' if clients else ''}")
    if gap.state == "open" and gap.reopened:
        lines.append(f"{_INDENT}open again since {gap.reopened}; it was answered by {visible_line(gap.answer or '?')}")
    elif gap.state == "answered":
        lines.append(f"{_INDENT}answered since {gap.since} by {visible_line(gap.answer or '?')}")
    elif gap.state == "closed":
        lines.append(f"{_INDENT}closed {gap.since}")
    return "\n".join(lines)


def _unanswered(question: Unanswered) -> str:
    times = f"asked {counted(question.count, 'time')}, last {question.last_asked}"
    clients = visible_line(", ".join(question.clients))
    return (
        f"{visible_line(question.question)}  (not a gap yet)\n{_INDENT}{times}{f', by {clients}' if clients else ''}; "
        f"a gap after {question.needed} more"
    )


def remembered_text(done: Remembered) -> str:
    """Return the result of `remember`, with similar memories."""
    lines = [f"{REMEMBERED[done.did]}: {_head(done.memory)}"]
    lines += [f"  replaces {visible_line(name)}" for name in done.superseded]
    if done.near:
        lines.append("  Similar but different:")
        lines += [f"    {visible_line(near.id)}  {visible_line(near.text)}" for near in done.near]
        lines.append(
            f"  If it replaces one of them: kbhub remember --id {visible_line(done.memory.id)} --supersedes "
            f"{visible_line(done.near[0].id)}"
        )
    # With similar memories, the first note repeats this advice in terms of the MCP tool.
    lines += [f"  {visible_line(note)}" for note in done.notes[bool(done.near) :]]
    return "\n".join(lines)


def memories_text(found: MemoryList) -> str:
    """Return memories with their text on one line each."""
    return "\n\n".join(_block(memory, " ".join(neutralised(memory.text).split())) for memory in found.memories)


def recalled_text(found: MemoryList) -> str:
    """Return memories with their whole text."""
    return "\n\n".join(
        _block(memory, neutralised(memory.text).replace("\n", f"\n{_INDENT}")) for memory in found.memories
    )


def memories_listing(found: MemoryList) -> Listing:
    """Return memories as records."""
    records = [{key: value for key, value in memory.model_dump().items() if key in FIELDS} for memory in found.memories]
    return Listing("memory", FIELDS, records)


def forgotten_text(done: Forgotten) -> str:
    """Return the forgotten memories, and where their files are."""
    if not done.memories:
        return "Nothing forgotten: no memory matches."
    lines = [f"Forgot {counted_memories(len(done.memories))}:"]
    lines += [f"  {visible_line(memory.id)}  {visible_line(memory.title)}" for memory in done.memories]
    where = [f"Their files are in the trash: {visible_line(str(done.trash))}."] if done.trash else []
    if where or done.notes:
        lines.append(" ".join([*where, *done.notes]))
    return "\n".join(lines)


def trashed_text(found: Sequence[Trashed]) -> str:
    """Return the memories that can be restored, a line each."""
    if not found:
        return "The trash contains no memories of this project or of yours."
    return "\n".join(
        f"{visible_line(one.id)}  {visible_line(one.title)}  ({one.scope}, {one.forgotten[:10]})" for one in found
    )


def imported_text(done: Imported) -> str:
    """Return a line about the result of an import."""
    text = f"Imported {counted_memories(done.added)} ({done.format}); {done.known} already known"
    return f"{text}, {counted(len(done.failed), 'problem')}." if done.failed else f"{text}."


def moved_text(done: Moved) -> str:
    """Return a line about the result of a move."""
    source, target = visible_line(str(done.source)), visible_line(str(done.target))
    known = f"; {done.known} already known, moved to the trash" if done.known else ""
    renamed = f"; {done.renamed} with a new id" if done.renamed else ""
    return f"Moved {counted_memories(done.moved)} from {source} to {target}{known}{renamed}."


def counted_memories(count: int) -> str:
    """Return a number of memories in words."""
    return counted(count, "memory", "memories")


def _block(memory: Memory, text: str) -> str:
    names = visible_line(", ".join(memory.superseded_by))
    superseded = f"\n{_INDENT}(superseded by {names})" if names else ""
    return f"{_head(memory)}\n{_INDENT}{text}{superseded}"


def _head(memory: Memory) -> str:
    facts = [f"strength {memory.strength:.2f}", counted(memory.uses, "use")]
    facts += [f"in {visible_line(memory.namespace)}"] if memory.namespace else []
    facts += [visible_line(" ".join(f"#{tag}" for tag in memory.tags))] if memory.tags else []
    return f"{visible_line(memory.ref)}  [{visible_line(memory.id)}]  {', '.join(facts)}"


TEXT_BYTES = 1_200
"""UTF-8 bytes shown of a memory's text: enough for all of what a list contains, also in Chinese."""

NOTE_BYTES = 500
"""UTF-8 bytes of a note; one about another identity of the project contains two names and a command."""


def remembered_answer(done: Remembered) -> str:
    """Return the result of `remember`, and ask about similar memories."""
    lines = [f"{REMEMBERED[done.did]}: {_head_for_models(done.memory)}"]
    if done.superseded:
        lines.append(f"It replaces {_named(done.superseded)}.")
    if done.near:
        lines += ["Similar but different:", *map(_near, done.near)]
        ours, theirs = _id(done.memory.id), _id(done.near[0].id)
        lines.append(
            f'If it replaces one of them: remember(id="{ours}", options={{"supersedes": ["{theirs}"]}}); if it '
            f'only repeats it: forget(ids=["{ours}"]).'
        )
        return "\n".join(lines)
    return "\n".join([*lines, *_notes(done.notes)])


def memories_answer(found: MemoryList, offset: int = 0) -> tuple[str, MemoryList]:
    """Return the answer to `memories`: each with its id and text, and what to call next.

    It has at most `ANSWER_BYTES` of UTF-8, and comes with the page of only the memories that fit. `offset` counts the
    memories before this page.
    """
    if not found.memories:
        if offset and found.total:
            return f"There are {found.total} in total; list them without `offset`.", found
        return "\n".join(["No memory matches. `remember` saves one.", *_notes(found.notes)]), found
    notes = _notes(found.notes)
    room = ANSWER_BYTES - 2 * NOTE_BYTES - sum(map(size_of, notes))
    shown: list[str] = []
    for number, memory in enumerate(found.memories, offset + 1):
        text = re.sub(r"`{3,}|~{3,}", "`", one_line(memory.text, TEXT_BYTES))
        entry = f"{number}. {_head_for_models(memory)}\n   > {text}"
        room -= size_of(entry)
        if room < 0 and shown:
            break
        shown.append(entry)
    end = offset + len(shown)
    head = f"Memories {offset + 1}-{end} of {found.total}" if end > offset + 1 else f"Memory {end} of {found.total}"
    more = [f"More: the same call with offset={end}."] if end < found.total else []
    use = (
        'If one helped, remember(id="…") confirms it and keeps it strong. For the full text of a long one: '
        'read(refs="…").'
    )
    text = "\n".join([f"{head}. {use}", *shown, *more, *notes])
    return text, found.model_copy(update={"memories": found.memories[: len(shown)]})


def forgotten_answer(done: Forgotten) -> str:
    """Return the result of `forget`."""
    if not done.memories:
        return "Nothing forgotten: no memory matches."
    lines = [f"Forgot {len(done.memories)}:"]
    room = ANSWER_BYTES - 2 * NOTE_BYTES
    for number, memory in enumerate(done.memories):
        line = f"- {_id(memory.id)} · {quoted(memory.title, TITLE_BYTES)}"
        room -= size_of(line)
        if room < 0:
            lines.append(f"… and {len(done.memories) - number} more.")
            break
        lines.append(line)
    kept = f"Their files are in the trash: {one_line(str(done.trash), NAME_BYTES)}. " if done.trash else ""
    return "\n".join([*lines, *([f"{kept}{' '.join(_notes(done.notes))}"] if kept or done.notes else [])])


def _head_for_models(memory: Memory) -> str:
    fields = [
        plain_ref(memory.ref) or quoted(memory.ref, NAME_BYTES),
        f"id {_id(memory.id)}",
        memory.scope,
        f"strength {memory.strength:.2f}",
        counted(memory.uses, "use"),
    ]
    if memory.namespace:
        fields.append(f"in {bare(memory.namespace, TITLE_BYTES)}")
    if memory.tags:
        fields.append(bare(" ".join(f"#{tag}" for tag in memory.tags), TITLE_BYTES))
    if memory.about:
        fields.append(f"about {bare(', '.join(memory.about), NAME_BYTES)}")
    if memory.superseded_by:
        fields.append(f"superseded by {_named(memory.superseded_by)}")
    return " · ".join(fields)


def _near(near: Near) -> str:
    return f"- {_id(near.id)} · {near.similarity:.2f} · {quoted(near.text, SENTENCE_BYTES)}"


def _notes(notes: Iterable[str]) -> list[str]:
    return [one_line(note, NOTE_BYTES) for note in list(notes)[:SENTENCES]]


def _named(ids: Iterable[str]) -> str:
    return one_line(", ".join(map(_id, ids)), SENTENCE_BYTES)


def _id(name: str) -> str:
    """Return an id without quotes or line breaks, since anybody may have written it in the front matter."""
    return bare(name, TITLE_BYTES)
