"""Render results about memories as Markdown for a model. The text of memories is untrusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import TITLE_BYTES, bare, one_line, quoted
from kbhub.render.model import ANSWER_BYTES, NAME_BYTES, SENTENCE_BYTES, SENTENCES, plain_ref, size_of
from kbhub.render.words import REMEMBERED
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.memory.results import Forgotten, Memory, MemoryList, Near, Remembered

TEXT_BYTES = 1_200
"""UTF-8 bytes shown of a memory's text: enough for all of what a list contains, also in Chinese."""

NOTE_BYTES = 500
"""UTF-8 bytes of a note; one about another identity of the project contains two names and a command."""


def remembered_answer(done: Remembered) -> str:
    """Return the result of `remember`, and ask about similar memories."""
    lines = [f"{REMEMBERED[done.did]}: {_head(done.memory)}"]
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
        entry = f"{number}. {_head(memory)}\n   > {text}"
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


def _head(memory: Memory) -> str:
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
