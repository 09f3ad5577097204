"""Render the results of writing, deleting, restoring and renaming documents for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.render.words import one_line
from kbhub.values import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.editing import Deleted, Renamed, Restored, TrashEntry, Written

_LATER = "; searches find this after the next sync"


def written_text(done: Written) -> str:
    """Return a line about the result of `write_document`, without its warnings."""
    lines = f", lines {done.start_line}-{done.end_line}" if done.start_line else ""
    later = "" if done.indexed else _LATER
    return f"{done.action.capitalize()} {one_line(done.ref)} ({done.docid}{lines}), now {done.hash}{later}."


def deleted_text(done: Deleted) -> str:
    """Return a line about the result of `delete_document`."""
    later = "" if done.indexed else _LATER
    return f"Deleted {one_line(done.ref)}; restore it with `kbhub restore {done.trash}`{later}."


def restored_text(done: Restored) -> str:
    """Return a line about the result of `restore`."""
    return f"Restored {one_line(done.ref)}, hash {done.hash}{'' if done.indexed else _LATER}."


def renamed_text(done: Renamed) -> str:
    """Return the paths of a renamed document, then a line per link."""
    later = "" if done.indexed else _LATER
    head = f"Renamed {one_line(done.before)} to {one_line(done.ref)} ({done.docid}){later}."
    if not done.links:
        return head
    effect = "updated" if done.updated else "would break"
    lines = [
        f"  {one_line(link.ref)}{f':{link.line}' if link.line else ''}: "
        f"{one_line(link.before)} → {one_line(link.after)}"
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
        f"{entry.id}  {entry.deleted[:16].replace('T', ' ')}  {one_line(entry.ref)}  {entry.bytes} bytes"
        for entry in entries
    )
