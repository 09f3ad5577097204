"""Queries for the link graph: links, documents and vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.index.reader import Index
    from kbhub.types import Kind

_NOTHING = "[]"
"""Aliases of most documents; parsing JSON 20,000 times takes 0.1 s."""


@struct
class LinkedDocument:
    """The parts of a document that link it to others."""

    path: str
    docid: str
    """Full docid."""
    title: str
    kind: Kind
    tags: tuple[str, ...]
    aliases: tuple[str, ...]


def linked_documents(index: Index) -> dict[str, LinkedDocument]:
    """Return path → document for every document, sorted by path.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows("SELECT path, docid, title, kind, tags, aliases FROM document ORDER BY path")
    return {
        path: LinkedDocument(path, docid, title, kind, _texts(tags), _texts(aliases))
        for path, docid, title, kind, tags, aliases in rows
    }


def _texts(stored: str) -> tuple[str, ...]:
    return () if stored == _NOTHING else tuple(json.loads(stored))


def link_rows(index: Index) -> list[tuple[str, str, str, str, int, str]]:
    """Return (document path, target, fragment, text, line, kind) of every link, in document order.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return index._rows(
        "SELECT path, target, fragment, text, line, link.kind FROM link JOIN document ON document.id = document_id "
        "ORDER BY path, link.rowid"
    )


def front_matter_of(index: Index, key: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Return (path, front matter, its text) of every document with a text or number under a front-matter key.

    Args:
        index: an index, in a snapshot.
        key: case-folded.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    rows = index._rows(
        "SELECT path, front_matter, (SELECT group_concat(substr(text, 1, prose), char(10)) FROM chunk "
        "WHERE document_id = document.id AND prose > 0) FROM document "
        "WHERE id IN (SELECT document_id FROM property WHERE key = ?) ORDER BY path",
        key,
    )
    return ((path, json.loads(front), text or "") for path, front, text in rows)


def chunk_vectors(index: Index) -> list[tuple[str, bytes]]:
    """Return (document path, int8 vector) of every chunk with a vector, by document.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return index._rows(
        "SELECT path, embedding FROM document JOIN chunk ON document_id = document.id "
        "JOIN vector ON chunk_id = chunk.id WHERE embedding IS NOT NULL ORDER BY document.id"
    )
