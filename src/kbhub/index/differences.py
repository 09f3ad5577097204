"""Differences between the documents of an index and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.index.reader import Index

AT_ONCE = 500
"""Documents read at once; reading all would take memory that the process never returns."""


def differing(index: Index, files: Mapping[str, tuple[int, int]]) -> tuple[list[str], list[str], list[str]]:
    """Compare the documents of an index with files.

    Args:
        index: an index, in a snapshot.
        files: path → (size in bytes, time in ns) of all files.

    Returns:
        Paths that are new or have another size or time; paths of files that were indexed so soon after a write that
        they
            may have changed within the same tick; paths of documents without a file. All unsorted.

    Raises:
        IndexUnavailable: it cannot be read, or is damaged.
    """
    different, young, gone = list[str](), list[str](), list[str]()
    matched = 0
    for rows in _documents(index):
        for _, path, size, mtime in rows:
            if (file := files.get(path)) is None:
                gone.append(path)
                continue
            matched += 1
            if file != (size, mtime):
                (young if file == (size, -mtime) else different).append(path)
    if matched < len(files):
        different += files.keys() - {row[1] for rows in _documents(index) for row in rows}
    return different, young, gone


def _documents(index: Index) -> Iterator[list[tuple[int, str, int, int]]]:
    """Yield (id, path, size, time) of all documents, in batches."""
    last = 0
    query = "SELECT id, path, size, mtime_ns FROM document WHERE id > ? ORDER BY id LIMIT ?"
    while rows := index._rows(query, last, AT_ONCE):
        if rows[-1][0] <= last:  # prevents an endless loop
            raise index.damaged("its documents are out of order")
        last = rows[-1][0]
        yield rows
