"""Sync memories with another machine, through a ref of a git remote.

The folder takes first what the ref has, and only then is the result pushed: so whatever fails, or is killed, the next
run goes on from what the folder and the ref are.

Of a memory, three states are compared: those of the two machines, and the last that both had. What only one of them
changed is taken. Where both changed something, the later change counts: the same on both, in whatever order they meet.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import PurePath
from typing import Any, Literal

from pydantic import Field

from kbhub.documents.edits import text_of
from kbhub.documents.secrets import refuse_secrets
from kbhub.errors import KbhubError, WriteRefused
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.side_files import Use
from kbhub.memory.catalog import check_writable, shelf_to_write, sync_shelves
from kbhub.memory.files import (
    MAX_FILE_BYTES,
    MemoryFile,
    changed_file,
    checked_text,
    discard,
    files_of,
    label_of,
    locked,
    parse_memory,
    read,
)
from kbhub.memory.git_ref import MemoryIndex, MemoryNote, RemoteRef, Tree, is_memory_name, remote_ref
from kbhub.memory.transfer import MOST_PROBLEMS, MOST_USES
from kbhub.search.document_signals import uses_of
from kbhub.types import Problem
from kbhub.values import struct
from kbhub.workspace.discovery import SYNCED_NAME, MemoryFolder
from kbhub.workspace.files import read_regular, write_atomically
from kbhub.workspace.formats import MARKDOWN_SUFFIX
from kbhub.workspace.trash import Trash, former_stem

ATTEMPTS = 5
"""Pushes tried while other machines push, too."""

MOST_SYNCED = 8
"""Commits that a folder notes as synced, the latest first."""

MOST_SYNCED_BYTES = 1 << 20
"""Bytes read of the file with these."""

MOST_GONE = 10_000
"""Deleted memories that a ref keeps a mark of, the latest first."""

_ID = re.compile(r"\w[\w .,+'()&-]{0,99}")


class SideChanges(Model):
    """What changed in one place."""

    added: int = Field(0, description="New memories.")
    changed: int = Field(0, description="Changed memories.")
    deleted: int = Field(0, description="Deleted memories.")


class Exchanged(Model):
    """What `kbhub memories sync` did."""

    remote: str = Field(description="The remote.")
    ref: str = Field(description="The ref in it.")
    dry_run: bool = Field(description="Whether nothing was written.")
    memories: int = Field(description="Memories that both have now.")
    here: SideChanges = Field(description="What changed here.")
    there: SideChanges = Field(description="What changed in the remote.")
    left_out: tuple[Problem, ...] = Field((), description="What was not synced, and why.")


@struct
class Side:
    """The memories of one machine, or of the ref."""

    states: dict[str, State] = field(default_factory=dict)
    """By id."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    """Ids of memories that are left as they are, on both sides."""
    names: set[str] = field(default_factory=set)
    """Names of files that are left as they are."""
    problems: list[Problem] = field(default_factory=list)

    def versions(self) -> dict[str, MemoryFile]:
        """Return the memories that are there."""
        return {name: state for name, state in self.states.items() if isinstance(state, MemoryFile)}

    def use(self, key: str) -> Use | None:
        """Return the uses of a memory, or None if it is not there."""
        return self.uses.get(key, Use(0, 0)) if isinstance(self.states.get(key), MemoryFile) else None

    def refusal(self, key: str) -> str:
        """Return why a file with an id is not taken, or nothing."""
        if not _ID.fullmatch(key):
            return "its id has characters that not every system allows"
        return f"another file has the id {key}" if key in self.states else ""

    def leave(self, name: str, reason: str) -> None:
        """Leave a file as it is."""
        self.names.add(name)
        self.problems.append(Problem(subject=name, message=reason))


def exchange(
    hub: Hub,
    remote: str | None = None,
    *,
    scope: Literal["project", "user"] = "project",
    dry_run: bool = False,
    allow_secret: bool = False,
) -> Exchanged:
    """Sync the memories of a scope with those of a remote; nothing else ever pushes them."""
    check_writable(hub, new=True)
    ref = remote_ref(hub, remote, scope)
    shelf = shelf_to_write(hub, scope)
    run = Exchange(hub, shelf, ref, dry_run=dry_run, allow_secret=allow_secret)
    here, before, why = SideChanges(), None, ""
    for _ in range(ATTEMPTS):
        commit = ref.fetched()
        if why and commit == before:  # nobody else pushed
            raise KbhubError(f"The memories here are merged, but cannot be pushed to {ref.remote!r}: {why}")
        done, new = run.once(commit)
        counts = done.here.model_dump()
        here, before = SideChanges(**{key: value + counts[key] for key, value in here.model_dump().items()}), commit
        if not dry_run:
            sync_shelves(hub, (shelf,))
        if new is None or (pushed := ref.pushed(new, commit)).ok:
            if new:
                run.note(new, commit)
            return done.model_copy(update={"here": here})
        why = pushed.why
    raise KbhubError(f"Others pushed to {ref.remote!r} {ATTEMPTS} times meanwhile. Sync again.")


@struct
class Exchange:
    """A run of `exchange`."""

    hub: Hub
    shelf: MemoryFolder
    ref: RemoteRef
    dry_run: bool
    allow_secret: bool

    def once(self, commit: str | None) -> tuple[Exchanged, str | None]:
        """Merge a commit into the folder; return what was done, and a commit to push."""
        tree = self.ref.tree(commit)
        with locked(self.hub.data, self.shelf.place):
            synced = self._synced()
            last = next((one for one in synced if commit and self.ref.has(commit, one)), None)
            there = self._side(tree)
            base = Side({**there.states}, there.uses) if last == commit else self._side(self.ref.tree(last))
            for key in synced.get(last or "", ()):
                base.states.pop(key, None)
            here = self._folder(base, known=last is not None)
            self._check(here, there)
            self._check(there, here)
            held = here.held | there.held
            names = sorted({*here.states, *there.states} - held)
            after = Side({name: merged(*(side.states.get(name) for side in (base, here, there))) for name in names})
            after.states.update(linked(_named(after.versions(), here.names | there.names)))
            sums = {
                name: joined_use(base.use(name), *(side.uses.get(name) for side in (here, there))) for name in names
            }
            uses = {name: use for name in after.versions() if (use := sums.get(name))}
            if not self.dry_run:
                self._apply(base, here, after, uses)
                if commit:
                    self._note(commit, held)
        done = Exchanged(
            remote=self.ref.remote,
            ref=self.ref.ref,
            dry_run=self.dry_run,
            memories=len(after.versions()),
            here=_difference(here, after),
            there=_difference(there, after),
            left_out=(*here.problems, *there.problems)[:MOST_PROBLEMS],
        )
        kept = {name: state for name in held if (state := there.states.get(name))}
        uses |= {name: there.uses[name] for name in kept if name in there.uses}
        whole = Side({**after.states, **kept}, uses)
        files, index = {one.path: one.data for one in whole.versions().values()}, _index(whole)
        if self.dry_run or ((files, index) == (tree.files, tree.index) and not tree.foreign):
            return done, None
        return done, self.ref.committed(files, index, commit, tree)

    def note(self, commit: str, before: str | None) -> None:
        """Note that the folder was synced with a commit, as with the one before."""
        with locked(self.hub.data, self.shelf.place):
            self._note(commit, self._synced().get(before or "", ()))

    def _note(self, commit: str, held: Iterable[str]) -> None:
        synced = {commit: sorted(held), **{one: ids for one, ids in self._synced().items() if one != commit}}
        latest = dict(list(synced.items())[:MOST_SYNCED])
        write_atomically(self.shelf.folder / SYNCED_NAME, json.dumps(latest))

    def _synced(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError):
            synced = json.loads(read_regular(self.shelf.folder / SYNCED_NAME, MOST_SYNCED_BYTES))
            if isinstance(synced, dict):
                return {commit: ids for commit, ids in synced.items() if isinstance(ids, list)}
        return {}

    def _folder(self, base: Side, *, known: bool) -> Side:
        """Return the memories of the folder, and those that are gone from it since `base`."""
        side = Side(uses=uses_of(self.hub).all(self.shelf.place))
        for name in sorted(files_of(self.shelf).names()):
            if not name.endswith(MARKDOWN_SUFFIX) or name.startswith("."):
                continue
            try:
                memory = read(self.shelf, name)
            except KbhubError as error:  # a link that leads elsewhere
                side.leave(name, str(error))
                continue
            if memory is None:
                side.leave(name, "it cannot be read")
            elif reason := side.refusal(key := memory.facts.id):
                side.leave(name, reason)
            else:
                old = base.states.get(key)
                time = max(_said(memory), memory.written) if known and old else _said(memory) or memory.written
                is_old = isinstance(old, MemoryFile) and only_linked(old, memory)
                side.states[key] = replace(memory, written=old.written if old and is_old else self._moment(time))
        forgotten: dict[str, int] = {}
        for file in Trash(self.hub.data).memories(label_of(self.shelf)):
            name = f"{former_stem(file)}{MARKDOWN_SUFFIX}"
            with suppress(OSError):
                forgotten[name] = max(forgotten.get(name, 0), int(file.lstat().st_mtime))
        for key, state in base.states.items():
            if key in side.states or state is None:
                continue
            if isinstance(state, Gone):
                side.states[key] = state
            elif state.path in side.names:
                side.held.add(key)
            else:  # of what was deleted by hand, only the earliest moment is known
                side.states[key] = Gone(max(forgotten.get(state.path, 0), state.written + 1))
        return side

    def _side(self, tree: Tree) -> Side:
        """Return the memories of the ref."""
        notes, side = tree.index.memories, Side()
        for name in tree.foreign:
            side.problems.append(Problem(subject=name, message="it is no file that kbhub wrote"))
        for name, data in tree.files.items():
            memory = parse_memory(self.shelf, name, data, 0)
            if reason := side.refusal(key := memory.facts.id):
                side.problems.append(Problem(subject=name, message=reason))
                continue
            note = notes.get(key)
            time = note.time if note and note.time else _said(memory)
            side.states[key] = replace(memory, written=self._moment(time))
        for key, time in tree.index.gone.items():
            if _ID.fullmatch(key):
                side.states.setdefault(key, Gone(self._moment(time)))
        uses = {key: Use(note.uses, self._moment(note.last)) for key, note in notes.items() if note.uses}
        return replace(side, uses=uses)

    def _moment(self, seconds: float) -> int:
        """Return a time of a file's as one that can be, whatever clock or person wrote it."""
        return int(min(max(seconds, 0), self.hub.options.clock()))

    def _check(self, side: Side, other: Side) -> None:
        """Hold what is new on one side, and cannot be synced or seems to hold a credential."""
        for key, memory in side.versions().items():
            if same(memory, other.states.get(key)):
                continue
            try:
                if not is_memory_name(memory.path):
                    raise KbhubError("its name has characters that not every system allows")
                if len(memory.data) > MAX_FILE_BYTES or memory.problem:
                    raise KbhubError(memory.problem or "it is too long")
                checked_text(memory.body)
                if not self.allow_secret:
                    refuse_secrets("It", memory.body)
            except KbhubError as error:
                side.leave(memory.path, str(error))
                side.held.add(key)

    def _apply(self, base: Side, here: Side, after: Side, uses: Mapping[str, Use]) -> None:
        """Write to the folder what is new; what was changed here alone goes to the trash."""
        data, now, files = self.hub.data, self.hub.options.clock(), files_of(self.shelf)
        gone, occupied = [], {one.path for one in here.versions().values()}
        for name, state in after.states.items():
            old = here.states.get(name)
            if state is None or same(old, state):
                continue
            if isinstance(state, MemoryFile):
                path = state.path
                if not isinstance(old, MemoryFile) or old.path != path:
                    # Of files that swap names, each first gets its id for one; the next run tells the other machine.
                    files.create(f"{name}{MARKDOWN_SUFFIX}" if path in occupied else path, state.data)
                else:
                    if (stored := files.read(path, -1)) is None or stored[0] != old.data:
                        raise OSError(errno.EAGAIN, "another program has just changed it", path)
                    if not same(old, base.states.get(name)):
                        Trash(data).keep_memory(label_of(self.shelf), PurePath(path), old.data, now)
                    files.replace(path, state.data)
                    continue
            else:
                gone.append(name)
            if isinstance(old, MemoryFile):
                discard(old, data, now)
        counts = uses_of(self.hub)
        counts.put(self.shelf.place, {name: use for name, use in uses.items() if use != here.uses.get(name)})
        counts.forget(self.shelf.place, gone)
        Trash(data).expire_memories(self.hub.config().settings.memory.trash_days, now)


def _said(memory: MemoryFile) -> float:
    """Return when a memory was changed last, as far as its file says."""
    return memory.facts.updated or memory.facts.created or 0


def _named(versions: Mapping[str, MemoryFile], taken: set[str]) -> dict[str, MemoryFile]:
    """Return memories by id; of two with one name, the second has its id for a name."""
    names, named = {name.casefold() for name in taken}, dict[str, MemoryFile]()
    for key, memory in versions.items():
        path = memory.path if memory.path.casefold() not in names else f"{key}{MARKDOWN_SUFFIX}"
        names.add(path.casefold())
        named[key] = replace(memory, path=path)
    return named


def _index(side: Side) -> MemoryIndex:
    notes, gone = {}, {}
    for key, state in sorted(side.states.items()):
        if isinstance(state, Gone):
            gone[key] = int(state.written)
        elif state:
            use, time = side.uses.get(key), int(state.written) if state.written != int(_said(state)) else 0
            if use or time:
                uses, last = (min(use.uses, MOST_USES), int(max(use.last, 0))) if use else (0, 0)
                notes[key] = MemoryNote(time=time, uses=uses, last=last)
    latest = sorted(gone, key=lambda key: (-gone[key], key))[:MOST_GONE]
    return MemoryIndex(version=1, memories=notes, gone={key: gone[key] for key in sorted(latest)})


def _difference(before: Side, after: Side) -> SideChanges:
    old, new = before.versions(), after.versions()
    changed = sum(not same(old[name], new[name]) for name in new.keys() & old.keys())
    deleted = sum(isinstance(after.states.get(name), Gone) for name in old)
    return SideChanges(added=len(new.keys() - old.keys()), changed=changed, deleted=deleted)


LINKS = ("supersedes", "superseded_by", "may_supersede")
"""Fields that follow from other memories; to change them alone is no change of the memory."""

LISTS = (*LINKS, "tags", "about")


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
        if key in LISTS:  # the items of both, without those of before that one of them lacks
            before, mine, others = (_items(values.get(key)) for values in (old, kept, other))
            value = [item for item in mine if item in others or item not in before]
            value += [item for item in others if item not in mine and item not in before]
            if value == mine:
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
        return text_of(memory.path, memory.data).front.values
    except KbhubError:  # bytes that are no text
        return {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, "") else [value]
