"""Lists of the documents of a base, for pages and completions."""

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
    """Size of its file in bytes."""
    mtime_ns: int
    """Nanoseconds since the epoch."""


def documents_after(index: Index, path: str, limit: int) -> list[CatalogueEntry]:
    """Return a page of documents, sorted by path.

    Args:
        index: an index, in a snapshot.
        path: the last path of the previous page; empty for the first page.
        limit: documents at most.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows(
        "SELECT path, title, kind, size, abs(mtime_ns) FROM document WHERE path > ? ORDER BY path LIMIT ?", path, limit
    )
    return [CatalogueEntry(*row) for row in rows]


def paths_beginning(index: Index, start: str, limit: int) -> list[str]:
    """Return the paths that start with a text; if there are none, those that contain it, case-insensitively.

    Args:
        index: an index, in a snapshot.
        start: any text.
        limit: paths at most.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows(
        "SELECT path FROM document WHERE substr(path, 1, length(?1)) = ?1 ORDER BY path LIMIT ?2", start, limit
    )
    if not rows:
        rows = index._rows(
            "SELECT path FROM document WHERE instr(lower(path), lower(?)) ORDER BY path LIMIT ?", start, limit
        )
    return [path for (path,) in rows]


def content_hashes(index: Index) -> dict[str, bytes]:
    """Return path → file hash of every document.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return dict(index._rows("SELECT path, hash FROM document"))


def tag_counts(index: Index) -> dict[str, int]:
    """Return tag → number of documents with it.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return dict(index._rows("SELECT value, count(DISTINCT document_id) FROM property WHERE key = 'tag' GROUP BY value"))
