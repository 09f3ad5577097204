"""How the documents of an index differ from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.index.reader import Index

AT_ONCE = 500
"""Documents read at once: all of them would take memory that the process keeps."""


def differing(index: Index, files: Mapping[str, tuple[int, int]]) -> tuple[list[str], list[str]]:
    """Compare the documents of an index with files.

    Args:
        index: an index, in a snapshot.
        files: path → (size in bytes, time in ns) of all files.

    Returns:
        Paths that the index has not or with another size or time, and paths of documents that have no file; both in no
        order.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    other, gone, met, last = [], [], 0, 0
    query = "SELECT id, path, size, mtime_ns FROM document WHERE id > ? ORDER BY id LIMIT ?"
    while rows := index._rows(query, last, AT_ONCE):
        for _, path, size, mtime in rows:
            if (file := files.get(path)) is None:
                gone.append(path)
                continue
            met += 1
            if file != (size, mtime):
                other.append(path)
        last = rows[-1][0]
    if met < len(files):
        other += files.keys() - set(index.paths())
    return other, gone
