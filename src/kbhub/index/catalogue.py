"""The documents of a base one after the other, and by the beginnings of their paths; for lists and completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.index.reader import Index
    from kbhub.types import Kind


@struct
class CatalogueEntry:
    """A document in a list."""

    path: str
    title: str
    kind: Kind
    size: int
    """Bytes of its file."""
    mtime_ns: int
    """Nanoseconds since the epoch."""


def documents_after(index: Index, path: str, limit: int) -> list[CatalogueEntry]:
    """Give documents by path, those after a path.

    Args:
        index: an index, in a snapshot.
        path: the last one that is known; empty for the first page.
        limit: documents at most.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    rows = index._rows(
        "SELECT path, title, kind, size, abs(mtime_ns) FROM document WHERE path > ? ORDER BY path LIMIT ?", path, limit
    )
    return [CatalogueEntry(*row) for row in rows]


def paths_beginning(index: Index, start: str, limit: int) -> list[str]:
    """Give the paths that begin with a text, in order; where none does, those that hold it, in any case.

    Args:
        index: an index, in a snapshot.
        start: any text.
        limit: paths at most.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    found = index._rows(
        "SELECT path FROM document WHERE substr(path, 1, length(?1)) = ?1 ORDER BY path LIMIT ?2", start, limit
    )
    if not found:
        found = index._rows(
            "SELECT path FROM document WHERE instr(lower(path), lower(?)) ORDER BY path LIMIT ?", start, limit
        )
    return [path for (path,) in found]


def content_hashes(index: Index) -> dict[str, bytes]:
    """Give path → hash of the file of every document.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    return dict(index._rows("SELECT path, hash FROM document"))


def tag_counts(index: Index) -> dict[str, int]:
    """Give tag → documents that have it.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    return dict(index._rows("SELECT value, count(DISTINCT document_id) FROM property WHERE key = 'tag' GROUP BY value"))
