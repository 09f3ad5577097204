"""Links to a document, from the indexes of the active bases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from kbhub.editing.checks import entries
from kbhub.errors import IndexUnavailable
from kbhub.index.links import front_matter_of, link_rows
from kbhub.index.names import document_names
from kbhub.reading.graph.resolving import PathTable, folded
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.reading.graph.resolving import LinkKind
    from kbhub.types import Base

RELATED: Final = "related"
"""Front matter key whose entries are links."""


@struct
class Incoming:
    """A link to the document."""

    base: Base
    path: str
    """Path of the document that holds it."""
    line: int | None
    """None for an entry of `related`."""
    target: str
    """Decoded path or name, without fragment."""
    kind: LinkKind


def targets_of(hub: Hub, base: Base) -> PathTable:
    """Return the names by which links may refer to the documents of a base.

    Raises:
        IndexUnavailable: the base's index cannot be read.
    """
    index = hub.index(base)
    with index.snapshot():
        return PathTable(index.paths(), document_names(index))


def incoming(hub: Hub, base: Base, path: str) -> list[Incoming]:
    """Find the links to a document, except its own; bases without a usable index are skipped.

    Args:
        hub: the hub.
        base: the document's base.
        path: its path in the base.
    """
    try:
        targets = targets_of(hub, base)
    except IndexUnavailable:
        return []
    links: list[Incoming] = []
    for home in hub.discovery().bases:
        index = hub.index(home)
        try:
            with index.snapshot():
                rows = links_of(index)
        except IndexUnavailable:
            continue
        links += [
            Incoming(home, source, line, target, kind)
            for source, target, kind, line in rows
            if (home.id != base.id or source != path) and leads_to(targets, base, home, source, target, kind) == path
        ]
    return links


def leads_to(targets: PathTable, base: Base, home: Base, source: str, target: str, kind: LinkKind) -> str | None:
    """Return the path in a base that a link resolves to, or None if it leads elsewhere.

    Args:
        targets: the documents of the base.
        base: the base.
        home: base of the document that holds the link, which may be another.
        source: path of that document.
        target: the link's target.
        kind: the link's kind.
    """
    name, mark, path = target.partition("@")
    if mark and folded(name) in map(folded, (base.id, *base.names)):
        source, target, kind = "", path, RELATED
    elif home.id != base.id:
        return None
    resolution = targets.resolve(source, target, kind)
    return resolution.path if resolution else None


def links_of(index: Index) -> list[tuple[str, str, LinkKind, int | None]]:
    """Return every link of a base as document path, target, kind and line (None for entries of `related`).

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    links: list[tuple[str, str, LinkKind, int | None]] = [
        (path, target, cast("LinkKind", kind), line) for path, target, _, _, line, kind in link_rows(index) if target
    ]
    for path, front, _ in front_matter_of(index, RELATED):
        links += [(path, target, RELATED, None) for target in related_of(front)]
    return links


def related_of(front: Mapping[str, Any]) -> list[str]:
    """Return the targets in `related` of a document's front matter."""
    values = next((value for key, value in front.items() if key.strip().casefold() == RELATED), None)
    return [target for entry in entries(values) if (target := plain_entry(entry))]


def plain_entry(text: str) -> str:
    """Return the target of an entry of `related`, without Obsidian's brackets."""
    return text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
