"""What was written, deleted, restored and renamed, as Markdown for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.documents.safe_text import one_line, quoted
from kbhub.render.model import NAME_BYTES, SENTENCE_BYTES, plain_ref
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.editing import Deleted, Renamed, Restored, Written
    from kbhub.editing.renaming import LinkChange

LINES = 20
"""Warnings or links that are written out; of more, the number is said."""

_LATER = " Search finds that after the next sync."


def written_answer(done: Written) -> str:
    """Say what `write_document` did, with the hash that the next edit can be based on, and what is worth mending."""
    fields = [f"{done.action.capitalize()} {_ref(done.ref, done.docid)}", done.docid, f"hash {done.hash}"]
    if done.start_line:
        fields.append(f"lines {done.start_line}-{done.end_line}")
    head = " · ".join(fields) + ("" if done.indexed else f".{_LATER}")
    return "\n".join([head, *_listed("Worth mending", done.warnings)])


def deleted_answer(done: Deleted) -> str:
    """Say what `delete_document` did, how to undo it, and which links lead nowhere now."""
    name = one_line(done.trash, NAME_BYTES)
    head = f'Deleted {_ref(done.ref, done.docid)}; delete_document(ref="{name}", restore=true) brings it back.'
    return "\n".join([head + ("" if done.indexed else _LATER), *_listed("Leads nowhere now", done.broken)])


def restored_answer(done: Restored) -> str:
    """Say what was brought back."""
    name = plain_ref(done.ref) or quoted(done.ref, NAME_BYTES)
    return f"Restored {name} · hash {done.hash}{'' if done.indexed else f'.{_LATER}'}"


def renamed_answer(done: Renamed) -> str:
    """Say what `rename_document` did, and to which links."""
    head = (
        f"Renamed {quoted(done.before, NAME_BYTES)} to {_ref(done.ref, done.docid)} · {done.docid} · hash {done.hash}"
    )
    lines = [head + ("" if done.indexed else f".{_LATER}")]
    if done.links:
        did = "mended" if done.mended else "lead nowhere now, or elsewhere"
        lines.append(f"{counted(len(done.links), 'link')} {did}:")
        lines += [f"- {_link(link)}" for link in done.links[:LINES]]
        if len(done.links) > LINES:
            lines.append(f"- … and {len(done.links) - LINES} more")
    return "\n".join([*lines, *_listed("Not mended", [f"{one.subject}: {one.message}" for one in done.unmended])])


def _link(link: LinkChange) -> str:
    place = f":{link.line}" if link.line else ""
    before, after = quoted(link.before, NAME_BYTES), quoted(link.after, NAME_BYTES)
    return f"{quoted(link.ref, NAME_BYTES)[1:-1]}{place}: {before} → {after}"


def _listed(label: str, sentences: Sequence[str]) -> list[str]:
    lines = [f"{label}: {one_line(sentence, SENTENCE_BYTES)}" for sentence in sentences[:LINES]]
    if len(sentences) > LINES:
        lines.append(f"{label}: … and {len(sentences) - LINES} more.")
    return lines


def _ref(ref: str, docid: str) -> str:
    return plain_ref(ref) or docid
