"""Queries for the audit: whole texts, content hashes, and problems with files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kbhub.index.reader import Index

BATCH = 200
"""Documents whose text is in memory at once."""


@struct
class ContentRow:
    """A document with the hash of its content."""

    path: str
    hash: bytes
    """Hash of the file's bytes."""
    problem: str
    """What could not be read properly; empty if nothing."""
    titled: bool
    """Whether its front matter has a title."""
    tagged: bool


def contents(index: Index) -> list[ContentRow]:
    """Return all documents with their content hashes, sorted by path.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows(
        "SELECT path, hash, coalesce(problem, ''), EXISTS (SELECT 1 FROM property WHERE document_id = document.id AND "
        "key = 'title' AND trim(value) <> ''), tags <> '[]' FROM document ORDER BY path"
    )
    return [
        ContentRow(path, bytes(digest), problem, bool(titled), bool(tagged))
        for path, digest, problem, titled, tagged in rows
    ]


def unindexed(index: Index) -> list[tuple[str, str]]:
    """Return (path, reason) of files that should be indexed but are not.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return index._rows("SELECT path, message FROM problem ORDER BY path")


def bodies(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, text after the front matter) of documents, in the given order; blank lines may be missing.

    Args:
        index: an index, in a snapshot.
        paths: documents.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    for path, chunks in _chunks(index, paths):
        yield path, "\n".join(text[prose:] for _, _, prose, text in chunks)


def texts(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of documents, in the given order, with each line at its original number.

    Args:
        index: an index, in a snapshot.
        paths: documents.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    for path, chunks in _chunks(index, paths):
        lines: list[str] = []
        for start, end, _, text in chunks:
            parts = text.split("\n")
            if start == len(lines) == end:  # continues a line that was too long for one chunk
                lines[-1] += parts[0]
                continue
            lines += [""] * (start - 1 - len(lines))
            lines += parts
        yield path, "\n".join(lines)


def _chunks(index: Index, paths: Sequence[str]) -> Iterator[tuple[str, list[tuple[int, int, int, str]]]]:
    for first in range(0, len(paths), BATCH):
        chunks_by_path: dict[str, list[tuple[int, int, int, str]]] = {path: [] for path in paths[first : first + BATCH]}
        rows = index._rows(
            "SELECT document.path, start_line, end_line, prose, text FROM json_each(?) AS wanted "
            "JOIN document ON document.path = wanted.value JOIN chunk ON document_id = document.id ORDER BY chunk.id",
            json.dumps(list(chunks_by_path)),
        )
        for path, *chunk in rows:
            chunks_by_path[path].append((chunk[0], chunk[1], chunk[2], chunk[3]))
        yield from chunks_by_path.items()
