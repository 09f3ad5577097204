"""Edits as text, for terminals and for models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbhub.documents.safe_text import bare, one_line, quoted
from kbhub.render.layout import visible_line
from kbhub.render.model import NAME_BYTES, SENTENCE_BYTES, plain_ref, ref_or_docid
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.editing import Deleted, Renamed, Restored, TrashEntry, Written
    from kbhub.editing.renames import LinkChange

_LATER = "; searches find this after the next sync"


def written_text(done: Written) -> str:
    """Return a line about the result of `write_document`, without its warnings."""
    lines = f", lines {done.start_line}-{done.end_line}" if done.start_line else ""
    later = "" if done.indexed else _LATER
    return f"{done.action.capitalize()} {visible_line(done.ref)} ({done.docid}{lines}), now {done.hash}{later}."


def deleted_text(done: Deleted) -> str:
    """Return a line about the result of `delete_document`."""
    later = "" if done.indexed else _LATER
    return f"Deleted {visible_line(done.ref)}; restore it with `kbhub restore {done.trash}`{later}."


def restored_text(done: Restored) -> str:
    """Return a line about the result of `restore`."""
    return f"Restored {visible_line(done.ref)}, hash {done.hash}{'' if done.indexed else _LATER}."


def renamed_text(done: Renamed) -> str:
    """Return the paths of a renamed document, then a line per link."""
    later = "" if done.indexed else _LATER
    head = f"Renamed {visible_line(done.before)} to {visible_line(done.ref)} ({done.docid}){later}."
    if not done.links:
        return head
    effect = "updated" if done.updated else "would break"
    lines = [
        f"  {visible_line(link.ref)}{f':{link.line}' if link.line else ''}: "
        f"{visible_line(link.before)} → {visible_line(link.after)}"
        for link in done.links
    ]
    return "\n".join((head, f"{counted(len(done.links), 'link')} {effect}:", *lines))


def trash_text(entries: Sequence[TrashEntry], *, emptied: bool) -> str:
    """List the entries of the trash, or return how many were removed from it."""
    if emptied:
        return f"Deleted {counted(len(entries), 'document')} for good."
    if not entries:
        return "The trash is empty."
    return "\n".join(
        f"{entry.id}  {entry.deleted[:16].replace('T', ' ')}  {visible_line(entry.ref)}  {entry.bytes} bytes"
        for entry in entries
    )


LINES = 20
"""Maximum of warnings or links that are written out; the rest are counted."""

_LATER_FOR_MODELS = " Searches find this after the next sync."


def written_answer(done: Written) -> str:
    """Return the result of `write_document`, with the hash for the next edit, and its warnings."""
    fields = [f"{done.action.capitalize()} {ref_or_docid(done.ref, done.docid)}", done.docid, f"hash {done.hash}"]
    if done.start_line:
        fields.append(f"lines {done.start_line}-{done.end_line}")
    head = " · ".join(fields) + ("" if done.indexed else f".{_LATER_FOR_MODELS}")
    return "\n".join([head, *_listed("Worth fixing", done.warnings)])


def deleted_answer(done: Deleted) -> str:
    """Return the result of `delete_document`, how to undo it, and the links that are now broken."""
    name = one_line(done.trash, NAME_BYTES)
    head = f'Deleted {ref_or_docid(done.ref, done.docid)}; delete_document(ref="{name}", restore=true) restores it.'
    return "\n".join([head + ("" if done.indexed else _LATER_FOR_MODELS), *_listed("Broken now", done.broken)])


def restored_answer(done: Restored) -> str:
    """Return the result of restoring a document."""
    name = plain_ref(done.ref) or quoted(done.ref, NAME_BYTES)
    return f"Restored {name} · hash {done.hash}{'' if done.indexed else f'.{_LATER_FOR_MODELS}'}"


def renamed_answer(done: Renamed) -> str:
    """Return the result of `rename_document`, with the links it changed."""
    names = f"{quoted(done.before, NAME_BYTES)} to {ref_or_docid(done.ref, done.docid)}"
    lines = [f"Renamed {names} · {done.docid} · hash {done.hash}{'' if done.indexed else f'.{_LATER_FOR_MODELS}'}"]
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
