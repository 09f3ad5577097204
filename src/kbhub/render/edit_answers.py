"""Render the results of writing, deleting, restoring and renaming documents as Markdown for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.safe_text import bare, one_line, quoted
from kbhub.render.model import NAME_BYTES, SENTENCE_BYTES, plain_ref, ref_or_docid
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.editing import Deleted, Renamed, Restored, Written
    from kbhub.editing.renames import LinkChange

LINES = 20
"""Maximum of warnings or links that are written out; the rest are counted."""

_LATER = " Searches find this after the next sync."


def written_answer(done: Written) -> str:
    """Return the result of `write_document`, with the hash for the next edit, and its warnings."""
    fields = [f"{done.action.capitalize()} {ref_or_docid(done.ref, done.docid)}", done.docid, f"hash {done.hash}"]
    if done.start_line:
        fields.append(f"lines {done.start_line}-{done.end_line}")
    head = " · ".join(fields) + ("" if done.indexed else f".{_LATER}")
    return "\n".join([head, *_listed("Worth fixing", done.warnings)])


def deleted_answer(done: Deleted) -> str:
    """Return the result of `delete_document`, how to undo it, and the links that are now broken."""
    name = one_line(done.trash, NAME_BYTES)
    head = f'Deleted {ref_or_docid(done.ref, done.docid)}; delete_document(ref="{name}", restore=true) restores it.'
    return "\n".join([head + ("" if done.indexed else _LATER), *_listed("Broken now", done.broken)])


def restored_answer(done: Restored) -> str:
    """Return the result of restoring a document."""
    name = plain_ref(done.ref) or quoted(done.ref, NAME_BYTES)
    return f"Restored {name} · hash {done.hash}{'' if done.indexed else f'.{_LATER}'}"


def renamed_answer(done: Renamed) -> str:
    """Return the result of `rename_document`, with the links it changed."""
    names = f"{quoted(done.before, NAME_BYTES)} to {ref_or_docid(done.ref, done.docid)}"
    lines = [f"Renamed {names} · {done.docid} · hash {done.hash}{'' if done.indexed else f'.{_LATER}'}"]
    if done.links:
        effect = "updated" if done.updated else "are broken now, or lead elsewhere"
        lines.append(f"{counted(len(done.links), 'link')} {effect}:")
        lines += [f"- {_link(link)}" for link in done.links[:LINES]]
        if len(done.links) > LINES:
            lines.append(f"- … and {len(done.links) - LINES} more")
    return "\n".join(
        [*lines, *_listed("Not updated", [f"{problem.subject}: {problem.message}" for problem in done.not_updated])]
    )


def _link(link: LinkChange) -> str:
    place = f":{link.line}" if link.line else ""
    before, after = quoted(link.before, NAME_BYTES), quoted(link.after, NAME_BYTES)
    return f"{bare(link.ref, NAME_BYTES)}{place}: {before} → {after}"


def _listed(label: str, sentences: Sequence[str]) -> list[str]:
    lines = [f"{label}: {one_line(sentence, SENTENCE_BYTES)}" for sentence in sentences[:LINES]]
    if len(sentences) > LINES:
        lines.append(f"{label}: … and {len(sentences) - LINES} more.")
    return lines
