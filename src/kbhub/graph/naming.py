"""Which document of the link graph a ref names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import DocumentNotFound
from kbhub.shelves import shelves_of

if TYPE_CHECKING:
    from kbhub.graph.building import Graph, Node
    from kbhub.hub import Hub


def found_document(hub: Hub, graph: Graph, ref: str) -> Node:
    """Find the document that a ref names; what it says of lines or a heading does not matter.

    Args:
        hub: the hub.
        graph: its link graph.
        ref: in any form that `read` takes for one document.

    Raises:
        DocumentNotFound: there is none, or it is in no index yet.
        AmbiguousReference: several documents answer to it.
    """
    ref = ref.encode("utf-8", "replace").decode("utf-8")
    shelves = shelves_of(hub)
    with shelves.opened():
        found = shelves.find(ref)
        if found is None:
            raise shelves.not_found(ref)
        place = found[1]
        known = graph.bases.get(place.base.id)
        if known is None or place.path not in known.documents:
            reason = f"it is in no index yet; `kbhub index {place.base.id}` takes it in"
            raise DocumentNotFound(shelves.ref(place), reason)
    return place.base.id, place.path
