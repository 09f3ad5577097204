"""Find the document of the link graph that a ref names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import DocumentNotFound
from kbhub.reading.resolver import shelves_of

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.reading.graph.building import Graph, Node


def found_document(hub: Hub, graph: Graph, ref: str) -> Node:
    """Return the document that a ref names, ignoring lines and heading.

    Args:
        hub: the hub.
        graph: its link graph.
        ref: in any form that `read` accepts for one document.

    Raises:
        DocumentNotFound: there is none, or it is not indexed yet.
        AmbiguousReference: several documents match.
    """
    ref = ref.encode("utf-8", "replace").decode("utf-8")
    shelves = shelves_of(hub)
    with shelves.opened():
        match = shelves.find(ref)
        if match is None:
            raise shelves.not_found(ref)
        place = match[1]
        base_links = graph.bases.get(place.base.id)
        if base_links is None or place.path not in base_links.documents:
            reason = f"it is in no index yet; `kbhub index {place.base.id}` takes it in"
            raise DocumentNotFound(shelves.ref(place), reason)
    return place.base.id, place.path
