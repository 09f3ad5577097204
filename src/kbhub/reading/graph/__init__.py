"""The link graph: link targets, related documents, tags. Read-only."""

from kbhub.reading.graph.faults import ResolvedLink, backlinks, resolved_links
from kbhub.reading.graph.neighbours import related
from kbhub.reading.graph.tags import tags
from kbhub.reading.graph.targets import PathTable, Resolution
from kbhub.reading.reports import (
    EDGE_KINDS,
    EdgeKind,
    LeftLink,
    Neighbour,
    Related,
    TagCount,
    TaggedDocument,
    Tags,
)

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
