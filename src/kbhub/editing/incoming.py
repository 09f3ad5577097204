"""The links that lead to a document, as the indexes of the active bases have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from kbhub.editing.checks import entries
from kbhub.errors import IndexUnavailable
from kbhub.graph.resolving import PathTable, folded
from kbhub.index.links import front_matter_of, link_rows
from kbhub.index.names import document_names
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.graph.resolving import LinkKind
    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.types import Base

RELATED: Final = "related"
"""Front matter key whose entries are links."""


@struct
class Incoming:
    """A link to the document in question."""

    base: Base
    path: str
    """Of the document that holds it."""
    line: int | None
    """None for an entry of `related`."""
    target: str
    """Decoded path or name, without fragment."""
    kind: LinkKind


def targets_of(hub: Hub, base: Base) -> PathTable:
    """Give the documents of a base by all that links may call them.

    Raises:
        IndexUnavailable: the base has no index that can be read.
    """
    index = hub.index(base)
    with index.snapshot():
        return PathTable(index.paths(), document_names(index))


def incoming(hub: Hub, base: Base, path: str) -> list[Incoming]:
    """Find the links to a document, its own to itself left out; bases without a usable index have none.

    Args:
        hub: the hub.
        base: the document's base.
        path: its path there.
    """
    try:
        targets = targets_of(hub, base)
    except IndexUnavailable:
        return []
    found: list[Incoming] = []
    for one in hub.discovery().bases:
        try:
            found += [
                link
                for link in _links_of(hub, one)
                if (one.id != base.id or link.path != path)
                and leads_to(targets, base, one, link.path, link.target, link.kind) == path
            ]
        except IndexUnavailable:
            continue
    return found


def leads_to(targets: PathTable, base: Base, home: Base, source: str, target: str, kind: LinkKind) -> str | None:
    """Give the path in a base to which a link leads that may be in another base; none if it does not lead there.

    Args:
        targets: the documents of the base.
        base: the base.
        home: the base of the document that holds the link.
        source: path of that document.
        target: the link's target.
        kind: the link's kind.
    """
    name, mark, path = target.partition("@")
    if mark and any(folded(name) == folded(one) for one in (base.id, *base.names)):
        source, target, kind = "", path, RELATED
    elif home.id != base.id:
        return None
    found = targets.resolve(source, target, kind)
    return found.path if found else None


def links_of(index: Index) -> list[tuple[str, str, LinkKind, int | None]]:
    """Give (path of the document, target, kind, line) of every link of a base, entries of `related` without line.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    found: list[tuple[str, str, LinkKind, int | None]] = [
        (path, target, cast("LinkKind", kind), line) for path, target, _, _, line, kind in link_rows(index) if target
    ]
    for path, front, _ in front_matter_of(index, RELATED):
        found += [(path, target, RELATED, None) for target in related_of(front)]
    return found


def _links_of(hub: Hub, base: Base) -> Iterator[Incoming]:
    index = hub.index(base)
    with index.snapshot():
        found = links_of(index)
    return (Incoming(base, path, line, target, kind) for path, target, kind, line in found)


def related_of(front: Mapping[str, Any]) -> list[str]:
    """Give the targets of the entries of `related` in the values of a front matter."""
    values = next((value for key, value in front.items() if key.strip().casefold() == RELATED), None)
    return [target for entry in entries(values) if (target := plain_entry(entry))]


def plain_entry(text: str) -> str:
    """Give an entry of `related` without the brackets that it has in Obsidian."""
    return text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
