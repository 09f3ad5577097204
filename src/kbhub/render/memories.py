"""Render memories for a terminal and as records for programs. The text of memories is untrusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.render.formats import Listing
from kbhub.render.words import REMEMBERED, neutralised, one_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.memory.results import Forgotten, Imported, Memory, MemoryList, Moved, Remembered

FIELDS = (
    *("id", "ref", "scope", "strength", "uses", "namespace", "tags", "title", "text"),
    *("created", "updated", "last_use", "by", "source", "about", "supersedes", "superseded_by"),
)
"""Fields of a memory in a table."""

_INDENT = "    "


def remembered_text(done: Remembered) -> str:
    """Return the result of `remember`, with similar memories."""
    lines = [f"{REMEMBERED[done.did]}: {_head(done.memory)}"]
    lines += [f"  takes the place of {one_line(name)}" for name in done.superseded]
    if done.near:
        lines.append("  Near to it and different:")
        lines += [f"    {one_line(near.id)}  {one_line(near.text)}" for near in done.near]
        lines.append(
            f"  If it takes the place of one: kbhub remember --id {one_line(done.memory.id)} "
            f"--supersedes {one_line(done.near[0].id)}"
        )
    # With similar memories, the first note repeats this advice in terms of the MCP tool.
    lines += [f"  {one_line(note)}" for note in done.notes[bool(done.near) :]]
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
        return "Nothing was forgotten: no memory fits."
    lines = [f"Forgot {counted_memories(len(done.memories))}:"]
    lines += [f"  {one_line(memory.id)}  {one_line(memory.title)}" for memory in done.memories]
    where = [f"Their files are in {one_line(str(done.trash))}."] if done.trash else []
    if where or done.notes:
        lines.append(" ".join([*where, *done.notes]))
    return "\n".join(lines)


def imported_text(done: Imported) -> str:
    """Return a line about the result of an import."""
    text = f"Imported {counted_memories(done.added)} ({done.format}), {done.known} known already"
    return f"{text}, {counted(len(done.failed), 'problem')}." if done.failed else f"{text}."


def moved_text(done: Moved) -> str:
    """Return a line about the result of a move."""
    source, target = one_line(str(done.source)), one_line(str(done.target))
    known = f"; {done.known} known already, now in the trash" if done.known else ""
    renamed = f"; {done.renamed} with a new id" if done.renamed else ""
    return f"Moved {counted_memories(done.moved)} from {source} to {target}{known}{renamed}."


def counted_memories(count: int) -> str:
    """Return a number of memories in words."""
    return counted(count, "memory", "memories")


def _block(memory: Memory, text: str) -> str:
    names = one_line(", ".join(memory.superseded_by))
    superseded = f"\n{_INDENT}(superseded by {names})" if names else ""
    return f"{_head(memory)}\n{_INDENT}{text}{superseded}"


def _head(memory: Memory) -> str:
    facts = [f"strength {memory.strength:.2f}", counted(memory.uses, "use")]
    facts += [f"in {one_line(memory.namespace)}"] if memory.namespace else []
    facts += [one_line(" ".join(f"#{tag}" for tag in memory.tags))] if memory.tags else []
    return f"{one_line(memory.ref)}  [{one_line(memory.id)}]  {', '.join(facts)}"
