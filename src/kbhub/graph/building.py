"""The link graph of all active bases: read from their indexes once per state of an index, held as long as the hub."""

from __future__ import annotations

import os
import posixpath
import re
import threading
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kbhub.errors import IndexUnavailable
from kbhub.graph.resolving import PathTable, Resolution, folded
from kbhub.graph.tagging import TagTable
from kbhub.index.links import front_matter_of, link_rows, linked_documents
from kbhub.listing import short_docids
from kbhub.project import PROJECT_ID
from kbhub.references import ref_of
from kbhub.types import Skipped
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kbhub.graph.nearness import Means
    from kbhub.graph.resolving import LinkKind
    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.index.links import LinkedDocument
    from kbhub.types import Base

RELATED = "related"
"""Front matter key whose entries are links, case-folded."""

MOST_ENTRIES = 1000
"""Entries of `related` of one document; real ones have some ten."""

_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")
"""How an entry of `related` begins that is a place on the web."""

Node = tuple[str, str]
"""A document: id of its base, path there."""


@struct
class WrittenLink:
    """A link as it stands in a document."""

    path: str
    """Of the document."""
    target: str
    """Decoded path or name, without fragment."""
    fragment: str
    text: str
    """What is shown for it."""
    line: int | None
    """From 1; none for an entry of front matter that could not be found again in its text."""
    kind: LinkKind


@dataclass(slots=True)
class BaseLinks:
    """The documents and links of one base, at one state of its index."""

    base: Base
    generation: int
    table: PathTable
    documents: Mapping[str, LinkedDocument]
    """By path, in its order."""
    links: Sequence[tuple[WrittenLink, Resolution | None]]
    """Each with the document of this base that it leads to, if it does."""
    means: Means | None = None
    """What its documents mean; read when first wanted."""


@struct
class Edge:
    """A link with what it leads to."""

    source: Node
    link: WrittenLink
    goal: Node | None
    """None if it leads to no document of an active base; `graph.faults` says what it leads to then."""
    by: str = ""
    """As `Resolution.by`."""
    others: tuple[Node, ...] = ()
    """As `Resolution.others`."""


@dataclass(eq=False)
class Graph:
    """All links between the documents of the active bases, at one state of their indexes."""

    bases: Mapping[str, BaseLinks]
    """By id of the base, the project base first."""
    active: Sequence[Base]
    """All that a ref may name, also those whose index cannot be read."""
    git_root: Path | None
    """Of the workspace."""
    skipped: tuple[Skipped, ...] = ()
    """Bases whose index cannot be read."""
    leaving: Mapping[Node, Sequence[Edge]] = field(default_factory=dict)
    """Links of a document, in its order; entries of `related` last."""
    coming: Mapping[Node, Sequence[Edge]] = field(default_factory=dict)
    """Links to a document from others."""

    def document(self, node: Node) -> LinkedDocument:
        """Give what the index says of a document."""
        return self.bases[node[0]].documents[node[1]]

    def ref(self, node: Node) -> str:
        """Give the ref of a document."""
        return ref_of(self.bases[node[0]].base, node[1], self.active)

    def docid(self, node: Node) -> str:
        """Give the short docid of a document."""
        whole, every = self.document(node).docid, self._docids
        at = bisect_left(every, whole)
        return short_docids(every[max(0, at - 1) : at + 2])[whole]

    @cached_property
    def tags(self) -> TagTable[Node]:
        """The tags of all documents."""
        return self.tags_in(self.bases)

    def tags_in(self, bases: Iterable[str]) -> TagTable[Node]:
        """Give the tags of the documents of some bases, by id."""
        return TagTable(
            ((name, path), row.tags) for name in bases for path, row in self.bases[name].documents.items() if row.tags
        )

    @cached_property
    def _docids(self) -> list[str]:
        return sorted({row.docid for one in self.bases.values() for row in one.documents.values()})


@dataclass(slots=True)
class _Held:
    """What is kept of the last call for a hub."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    links: dict[tuple[str, Path], BaseLinks] = field(default_factory=dict)
    state: tuple[Any, ...] = ()
    graph: Graph | None = None


_HELD: WeakKeyDictionary[Hub, _Held] = WeakKeyDictionary()
_GUARD = threading.Lock()


def graph_of(hub: Hub) -> Graph:
    """Give the link graph of a hub's active bases, made anew only where an index or the set of bases has changed.

    Args:
        hub: the hub; its indexes are taken as they are.
    """
    with _GUARD:
        held = _HELD.setdefault(hub, _Held())
    with held.lock:
        discovery = hub.discovery()
        found: dict[str, BaseLinks] = {}
        skipped: list[Skipped] = []
        for base in discovery.bases:
            index = hub.index(base)
            try:
                found[base.id] = _links_of(base, index, held.links.get((base.id, index.path)))
            except IndexUnavailable as error:
                skipped.append(Skipped(base=base.id, reason=str(error)))
        git_root = discovery.workspace.git_root
        state = (git_root, tuple(skipped), discovery.bases, *(one.generation for one in found.values()))
        if held.graph is None or held.state != state:
            held.links = {(one.base.id, hub.index(one.base).path): one for one in found.values()}
            held.graph, held.state = _joined(found, discovery.bases, git_root, tuple(skipped)), state
        return held.graph


def _links_of(base: Base, index: Index, known: BaseLinks | None) -> BaseLinks:
    with index.snapshot():
        generation = index.generation()
        if known is not None and known.generation == generation and known.base == base:
            return known
        rows = linked_documents(index)
        names = ((row.path, name) for row in rows.values() for name in (row.title, *row.aliases))
        table = PathTable(rows, names)
        written = [WrittenLink(*row) for row in link_rows(index)]  # type: ignore[arg-type]  # kinds as the parser has them
        written += _related_links(index)
    links = [(one, table.resolve(one.path, one.target, one.kind)) for one in written]
    return BaseLinks(base, generation, table, rows, links)


def _related_links(index: Index) -> Iterator[WrittenLink]:
    for path, front, text in front_matter_of(index, RELATED):
        lines = text.split("\n")
        start = next((at for at, line in enumerate(lines) if line.strip().casefold().startswith(RELATED)), len(lines))
        value = next((value for key, value in front.items() if key.strip().casefold() == RELATED), None)
        for entry in islice(dict.fromkeys(_entries(value)), MOST_ENTRIES):
            target, _, fragment = plain_entry(entry).partition("#")
            if (target or fragment) and not _EXTERNAL.match(target):
                line = next((at + 1 for at in range(start, len(lines)) if entry in lines[at]), None)
                yield WrittenLink(path, target.strip(), fragment.strip(), entry, line, "related")


def _entries(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _entries(one)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value).strip()


def plain_entry(entry: str) -> str:
    """Give the target of an entry of `related`, without the brackets and the text that it has in Obsidian."""
    return entry.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].strip()


def _joined(
    bases: Mapping[str, BaseLinks], active: Sequence[Base], git_root: Path | None, skipped: tuple[Skipped, ...]
) -> Graph:
    """Join the links of all bases, those from one base to another resolved."""
    crossing = _Crossing(bases, git_root)
    leaving: dict[Node, list[Edge]] = defaultdict(list)
    coming: dict[Node, list[Edge]] = defaultdict(list)
    for name, one in bases.items():
        for link, resolution in one.links:
            source = (name, link.path)
            edge = crossing.named(source, link)
            if edge is None and resolution is not None:
                others = tuple((name, path) for path in resolution.others)
                edge = Edge(source, link, (name, resolution.path), resolution.by, others)
            edge = edge or crossing.led_out(source, link) or Edge(source, link, None)
            leaving[source].append(edge)
            if edge.goal is not None and edge.goal != source:
                coming[edge.goal].append(edge)
    return Graph(bases, active, git_root, skipped, dict(leaving), dict(coming))


class _Crossing:
    """Finds what links lead to in another base."""

    def __init__(self, bases: Mapping[str, BaseLinks], git_root: Path | None) -> None:
        self._bases, self._git_root = bases, git_root
        self._by_name = {folded(name): one for one in bases.values() for name in (one.base.id, *one.base.names)}
        self._real: dict[str, str] = {}
        """Folder as a link has it → real path."""

    def named(self, source: Node, link: WrittenLink) -> Edge | None:
        """Resolve `id@path`; none if that is not what it is."""
        name, mark, path = link.target.partition("@")
        other = self._by_name.get(folded(name)) if mark else None
        found = other.table.resolve("", path, "related") if other and path else None
        if other is None or found is None:
            return None
        others = tuple((other.base.id, one) for one in found.others)
        return Edge(source, link, (other.base.id, found.path), found.by, others)

    def led_out(self, source: Node, link: WrittenLink) -> Edge | None:
        """Resolve a path that leads out of its base; none if it leads into no other."""
        for place in places_on_disk(self._bases[source[0]].base, link, self._git_root):
            folder, name = posixpath.split(place)
            for real in dict.fromkeys((place, posixpath.join(self._real_path(folder), name))):
                for one in self._bases.values():
                    inside = inside_of(one.base, real)
                    found = None if inside is None else one.table.at(inside)
                    if found is not None:
                        return Edge(source, link, (one.base.id, found), "path")
        return None

    def _real_path(self, folder: str) -> str:
        if folder not in self._real:
            try:
                self._real[folder] = os.path.realpath(folder).replace(os.sep, "/")
            except (OSError, ValueError):  # a name that no file can have
                self._real[folder] = folder
        return self._real[folder]


def places_on_disk(base: Base, link: WrittenLink, git_root: Path | None) -> Iterator[str]:
    """Give the absolute paths, with `/`, that a link can mean, whether or not they are in its base.

    Args:
        base: of the document that holds the link.
        link: the link.
        git_root: of the workspace; a path that starts with `/` means one from there on GitHub.
    """
    root = base.path.as_posix()
    folder = posixpath.join(root, posixpath.dirname(link.path))
    starts = [folder] if link.target.startswith(("./", "../")) else [folder, root]
    if link.target.startswith("/"):
        starts = [root, *([git_root.as_posix()] if in_project(base, git_root) and git_root else [])]
    for start in starts:
        yield posixpath.normpath(posixpath.join(start, link.target.lstrip("/")))


def in_project(base: Base, git_root: Path | None) -> bool:
    """Whether a base is part of the workspace's own repository."""
    return base.id == PROJECT_ID and git_root is not None and base.path.is_relative_to(git_root)


def inside_of(base: Base, place: str) -> str | None:
    """Give the path in a base of an absolute one, none if it lies outside.

    Args:
        base: the base.
        place: absolute, with `/`.
    """
    root = base.path.as_posix()
    if place == root:
        return ""
    prefix = root if root.endswith("/") else f"{root}/"
    return place[len(prefix) :] if place.startswith(prefix) else None
