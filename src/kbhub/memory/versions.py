"""Two versions of a memory, from two machines, and what becomes of them: the same on both, in whatever order they meet.

Three states are compared: those of the two machines, and the last that both had. What only one of them changed is
taken. Where both changed something, the later change counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kbhub.documents.edits import front_matter_of, text_of
from kbhub.errors import KbhubError, WriteRefused
from kbhub.index.side_files import Use
from kbhub.memory.files import MAX_FILE_BYTES, MemoryFile, changed_file, parse_memory
from kbhub.values import struct

LINKS = ("supersedes", "superseded_by", "may_supersede")
"""Fields that follow from other memories; to change them alone is no change of the memory."""

LISTS = (*LINKS, "tags", "about")
"""Fields that are joined item by item."""


@struct
class Gone:
    """A memory that was there."""

    written: float
    """When it was deleted; seconds since the epoch, as `MemoryFile.written` is when a memory became what it is."""


State = MemoryFile | Gone | None
"""None: never heard of. What is deleted leaves a mark, so only a mark deletes."""


def same(one: State, other: State) -> bool:
    """Return whether two states are the same, whenever they came about."""
    if isinstance(one, MemoryFile) and isinstance(other, MemoryFile):
        return (one.path, one.data) == (other.path, other.data)
    return type(one) is type(other)


def merged(base: State, one: State, other: State) -> State:
    """Return what becomes of two states of a memory, the last common one of which is `base`."""
    if one is None or other is None:
        return one or other
    if same(one, other):
        return max(one, other, key=lambda state: state.written)
    if same(one, base) or same(other, base):
        return other if same(one, base) else one
    if isinstance(one, MemoryFile) and isinstance(other, MemoryFile):
        # Alike on every machine.
        loser, winner = sorted((one, other), key=lambda it: (it.written, hashlib.sha256(it.data).digest(), it.path))
        return _joined(base if isinstance(base, MemoryFile) else None, winner, loser)
    return max(one, other, key=lambda state: (state.written, isinstance(state, MemoryFile)))


def _joined(base: MemoryFile | None, winner: MemoryFile, loser: MemoryFile) -> MemoryFile:
    """Return the later version with what only the other changed."""
    old, kept, other = (_values(version) for version in (base, winner, loser))
    changes: dict[str, Any] = {}
    for key in sorted({*old, *kept, *other}):
        value = kept.get(key)
        if key in LISTS:
            value = _joined_list(*(_items(values.get(key)) for values in (old, kept, other)))
            if value == _items(kept.get(key)):
                continue
        elif value == old.get(key):
            value = other.get(key)
        if value != kept.get(key):
            changes[key] = value
    body = loser.body if base and winner.body == base.body else winner.body
    return _changed(winner, changes, body if body != winner.body else None)


def linked(versions: Mapping[str, MemoryFile]) -> dict[str, MemoryFile]:
    """Return memories by id, each marked as superseded by those that say so."""
    marked = dict(versions)
    for name, successor in sorted(versions.items()):
        for older in successor.facts.supersedes:
            if older != name and (old := marked.get(older)) and name not in old.facts.superseded_by:
                marked[older] = _changed(old, {"superseded_by": [*old.facts.superseded_by, name]})
    return marked


def only_linked(one: MemoryFile, other: MemoryFile) -> bool:
    """Return whether two versions differ in nothing but `LINKS`."""
    if one.data == other.data:
        return True
    plain = [{key: value for key, value in _values(each).items() if key not in LINKS} for each in (one, other)]
    return plain[0] == plain[1] and one.body == other.body


def joined_use(base: Use | None, one: Use | None, other: Use | None) -> Use | None:
    """Return the uses of a memory on two machines, those of before counted once."""
    counted = [use for use in (one, other) if use]
    if not counted:
        return None
    most = max(use.uses for use in counted)
    whole = sum(use.uses for use in counted) - base.uses if base and len(counted) > 1 else most
    return Use(max(most, whole), max(use.last for use in counted))


def _changed(memory: MemoryFile, changes: Mapping[str, Any], body: str | None = None) -> MemoryFile:
    with suppress(WriteRefused):  # it cannot be edited safely, and counts as it is
        data = changed_file(memory.path, memory, changes, body)
        changed = parse_memory(memory.shelf, memory.path, data, memory.written)
        if len(data) <= MAX_FILE_BYTES and not changed.problem:
            return changed
    return memory


def _values(memory: MemoryFile | None) -> Mapping[str, Any]:
    if memory is None:
        return {}
    try:
        return front_matter_of(text_of(memory.path, memory.data)).values
    except KbhubError:  # bytes that are no text
        return {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def _joined_list(base: list[Any], kept: list[Any], other: list[Any]) -> list[Any]:
    """Return the items of both lists, without those of before that one of them lacks."""
    stay = [item for item in kept if item in other or item not in base]
    return [*stay, *(item for item in other if item not in kept and item not in base)]
