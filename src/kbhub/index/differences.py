"""How the documents of an index differ from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kbhub.index.reader import Index

AT_ONCE = 500
"""Documents read at once: all of them would take memory that the process keeps."""


def differing(index: Index, files: Mapping[str, tuple[int, int]]) -> tuple[list[str], list[str], list[str]]:
    """Compare the documents of an index with files.

    Args:
        index: an index, in a snapshot.
        files: path → (size in bytes, time in ns) of all files.

    Returns:
        Paths that the index has not or with another size or time; paths of files that were so young when they were
        indexed that they may have changed since without another time; paths of documents that have no file. All in no
        order.

    Raises:
        IndexUnavailable: it cannot be read, or is damaged.
    """
    other, young, gone = list[str](), list[str](), list[str]()
    met = 0
    for rows in _documents(index):
        for _, path, size, mtime in rows:
            if (file := files.get(path)) is None:
                gone.append(path)
                continue
            met += 1
            if file != (size, mtime):
                (young if file == (size, -mtime) else other).append(path)
    if met < len(files):
        other += files.keys() - {row[1] for rows in _documents(index) for row in rows}
    return other, young, gone


def _documents(index: Index) -> Iterator[list[tuple[int, str, int, int]]]:
    """Give (id, path, size, time) of all documents, some at a time."""
    last = 0
    query = "SELECT id, path, size, mtime_ns FROM document WHERE id > ? ORDER BY id LIMIT ?"
    while rows := index._rows(query, last, AT_ONCE):
        if rows[-1][0] <= last:  # or this would go on for ever
            raise index.damaged("its documents are out of order")
        last = rows[-1][0]
        yield rows
