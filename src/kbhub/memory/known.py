"""What the active memories say now.

Their indexes know what did not change since they were made; files that did are read. So an edit by hand, or by another
process a moment ago, counts at once, and no index need be written to say what is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import BaseUnavailable, IndexUnavailable, MemoryNotFound
from kbhub.index.memories import memory_rows
from kbhub.memory.documents import in_namespace, title_of
from kbhub.memory.facts import facts_of, timestamp
from kbhub.memory.folders import shelves
from kbhub.memory.models import Memory
from kbhub.memory.standing import uses_of
from kbhub.memory.store import read
from kbhub.memory.strength import strength
from kbhub.references import ref_of
from kbhub.values import struct
from kbhub.walk import scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbhub.hub import Hub
    from kbhub.index.uses import Use
    from kbhub.memory.facts import Facts
    from kbhub.memory.folders import Scope, Shelf
    from kbhub.memory.store import Stored
    from kbhub.reports import ReadResult

SHOWN_CHARACTERS = 400
"""Text of a memory in a list; `read` gives all of it."""


@struct
class Known:
    """One memory, with where it is and how it was used."""

    shelf: Shelf
    path: str
    """In the base."""
    title: str
    facts: Facts
    written: float
    """When its file was last changed, seconds since the epoch."""
    use: Use | None

    def last_use(self) -> float:
        """When it was last used or, if never, changed or written; seconds since the epoch."""
        moments = (self.use.last if self.use else None, self.facts.updated, self.facts.created)
        return max((moment for moment in moments if moment is not None), default=self.written)

    def strength(self, now: float) -> float:
        """How much it has proved its worth by some moment."""
        return strength(self.facts.source, self.use.uses if self.use else 0, self.last_use(), now)


def active_shelves(hub: Hub, scope: Scope | None = None) -> list[Shelf]:
    """Give the folders of memories that are active here, those of one scope or all."""
    found = shelves(hub.discovery(), hub.config().settings)
    return [shelf for shelf in found if scope in (None, shelf.scope)]


def known(hub: Hub, shelf: Shelf) -> list[Known]:
    """Give the memories of a folder as their files are now, by path.

    Raises:
        BaseUnavailable: the folder cannot be listed.
    """
    limits = hub.config().settings.limits
    part = {"only": (shelf.prefix.rstrip("/"),)} if shelf.prefix else {}
    base = shelf.base.model_copy(update=part)
    files = scan(base, max_bytes=limits.file_bytes, max_files=limits.files).files
    index = hub.index(shelf.base)
    uses = uses_of(hub).all(shelf.place)
    found: dict[str, Known] = {}
    try:
        with index.snapshot():
            times, rows = index.files(), memory_rows(index, shelf.prefix)
    except IndexUnavailable:
        times, rows = {}, []
    for row in rows:
        file = files.get(row.path)
        if file and times.get(row.path) == file:
            facts = facts_of(row.path, row.front_matter, row.tags)
            found[row.path] = Known(shelf, row.path, row.title, facts, file[1] / 1e9, uses.get(facts.id))
    for path, (_, mtime_ns) in files.items():
        if path not in found and (stored := read(shelf, path)):
            facts, title = stored.content.facts, stored.content.title or title_of(stored.content.body)
            found[path] = Known(shelf, path, title, facts, mtime_ns / 1e9, uses.get(facts.id))
    return [found[path] for path in sorted(found)]


def all_known(hub: Hub, scope: Scope | None = None) -> list[Known]:
    """Give the memories of all active folders; a folder that cannot be listed has none."""
    found = []
    for shelf in active_shelves(hub, scope):
        try:
            found += known(hub, shelf)
        except BaseUnavailable:  # `status` says so
            continue
    return found


def located(hub: Hub, name: str, scope: Scope | None = None, among: Sequence[Known] | None = None) -> Known:
    """Find the memory that an id, a ref or a file's name leads to.

    Args:
        hub: what owns the bases.
        name: the id, ref or file's name.
        scope: only of `project`, `user` or `shared`.
        among: what `all_known` gave, for who looks for several.

    Raises:
        MemoryNotFound: none is, or several are.
    """
    wanted = name.strip().removeprefix("#")
    base_id, mark, path = wanted.rpartition("@")
    wanted = path if mark else wanted
    names = {wanted, f"{wanted}.md"}
    known_here = all_known(hub, scope) if among is None else among
    every = [one for one in known_here if not mark or one.shelf.base.id == base_id]
    found = [one for one in every if wanted == one.facts.id or names & {one.path, one.path.rpartition("/")[2]}]
    if len(found) != 1:
        raise MemoryNotFound(name, [ref(hub, one) for one in found])
    return found[0]


def matching(
    memories: Iterable[Known], *, tags: Iterable[str] = (), namespace: str | None = None, before: float | None = None
) -> list[Known]:
    """Choose memories that have all of some tags, lie in a namespace, and were last used before a moment."""
    wanted = {tag.casefold() for tag in tags}
    return [
        one
        for one in memories
        if wanted <= {tag.casefold() for tag in one.facts.tags}
        and (namespace is None or in_namespace(one.facts.namespace, namespace))
        and (before is None or one.last_use() < before)
    ]


def described(hub: Hub, one: Known, *, text: str = "", score: float | None = None) -> Memory:
    """Describe a memory for an answer."""
    facts, use = one.facts, one.use
    return Memory(
        id=facts.id,
        ref=ref(hub, one),
        scope=one.shelf.scope,
        title=one.title,
        text=text,
        tags=facts.tags,
        namespace=facts.namespace,
        strength=round(one.strength(hub.options.clock()), 3),
        uses=use.uses if use else 0,
        last_use=timestamp(use.last) if use else None,
        created=timestamp(facts.created) if facts.created is not None else None,
        updated=timestamp(facts.updated) if facts.updated is not None else None,
        by=facts.by,
        source=facts.source,
        project=facts.project,
        commit=facts.commit,
        origin=facts.origin,
        about=facts.about,
        refers=facts.refers,
        supersedes=facts.supersedes,
        superseded_by=facts.superseded_by,
        score=score,
    )


def ref(hub: Hub, one: Known) -> str:
    """Give the ref of a memory."""
    return ref_of(one.shelf.base, one.path, hub.discovery().bases)


def shortened(text: str, characters: int = SHOWN_CHARACTERS) -> str:
    """Cut a text at a word, for a list."""
    return text if len(text) <= characters else f"{text[:characters].rsplit(maxsplit=1)[0]} …"


def count_uses(hub: Hub, memories: Iterable[Known]) -> bool:
    """Count one confirmed use of each of some memories; says whether it could be written."""
    by_place: dict[str, list[str]] = {}
    for one in memories:
        by_place.setdefault(one.shelf.place, []).append(one.facts.id)
    now, uses = hub.options.clock(), uses_of(hub)
    done = [uses.count(place, ids, now) for place, ids in by_place.items()]
    return all(done)


def count_refs(hub: Hub, refs: Iterable[str]) -> None:
    """Count one use of each memory among some refs, as `read` and `ask` give them; others are passed over."""
    places = {shelf.base.id: shelf for shelf in active_shelves(hub)}
    found = {}
    for name in refs:
        base_id, mark, path = name.partition("@")
        shelf = places.get(base_id if mark else "project")
        target = path if mark else name
        if shelf and target.startswith(shelf.prefix) and (one := _read(hub, shelf, target)):
            found[shelf.place, one.facts.id] = one
    if found:
        count_uses(hub, found.values())


def count_read(hub: Hub, result: ReadResult) -> None:
    """Count a use of each memory that was read."""
    count_refs(hub, (reading.ref.partition(":")[0] for reading in result.readings))


def known_as_stored(hub: Hub, stored: Stored, uses: Mapping[str, Use] | None = None) -> Known:
    """Describe a memory by its file alone.

    Args:
        hub: what owns the bases.
        stored: the file.
        uses: those of its place, if they are at hand.
    """
    content = stored.content
    use = (uses_of(hub).all(stored.shelf.place) if uses is None else uses).get(content.facts.id)
    title = content.title or title_of(content.body)
    return Known(stored.shelf, stored.path, title, content.facts, stored.written, use)


def _read(hub: Hub, shelf: Shelf, path: str) -> Known | None:
    stored = read(shelf, path)
    return known_as_stored(hub, stored) if stored else None
