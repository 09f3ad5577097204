"""The link graph: where links lead, what is related to a document, tags and their documents. It never writes."""

from kbhub.graph.faults import ResolvedLink, backlinks, resolved_links
from kbhub.graph.models import EDGE_KINDS, EdgeKind, LeftLink, Neighbour, Related, TagCount, TaggedDocument, Tags
from kbhub.graph.neighbours import related
from kbhub.graph.resolving import PathTable, Resolution
from kbhub.graph.tags import tags

__all__ = [
    "EDGE_KINDS",
    "EdgeKind",
    "LeftLink",
    "Neighbour",
    "PathTable",
    "Related",
    "Resolution",
    "ResolvedLink",
    "TagCount",
    "TaggedDocument",
    "Tags",
    "backlinks",
    "related",
    "resolved_links",
    "tags",
]
