"""The terms that an index has, as its full-text index holds them: stems, accents folded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kbhub.index.reader import Index

MOST_PLACED = 2000
"""Chunks with a term that are put in order: some 5 ms. A stem in more of them is there in every form from the start."""

LAST_CHARACTER = "\U0010ffff"


def terms_with_prefix(index: Index, prefix: str) -> dict[str, int]:
    """Give the terms that begin with some characters: term → chunks that have it.

    Args:
        index: an index, within a snapshot.
        prefix: folded as the terms are.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    return dict(
        index._rows("SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?", prefix, prefix + LAST_CHARACTER)
    )


def terms_among(index: Index, terms: Collection[str]) -> dict[str, int]:
    """Give those of some terms that an index has: term → chunks that have it; raises as `terms_with_prefix` does."""
    return dict(
        index._rows(
            "SELECT term, doc FROM vocabulary WHERE term IN (SELECT value FROM json_each(?))", json.dumps(list(terms))
        )
    )


def texts_with_term(index: Index, term: str, limit: int) -> list[str]:
    """Give texts in which a term stands: those of chunks, each with its headings, title, path and tags.

    Args:
        index: an index, within a snapshot.
        term: a stem, which is not made a stem again as in a query.
        limit: texts at most; the first by path and line, so that the order of indexing does not matter.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    # Who stands where is another view of the same postings; this one is the connection's own, not the file's.
    index._rows("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instance USING fts5vocab(main, fts, instance)")
    rows = index._rows(
        "SELECT text, headings, title, path, tags FROM chunk JOIN document ON document.id = document_id "
        "WHERE chunk.id IN (SELECT chunk.id FROM chunk JOIN document ON document.id = document_id "
        "WHERE chunk.id IN (SELECT DISTINCT doc FROM temp.instance WHERE term = ? LIMIT ?) "
        "ORDER BY path, chunk.id LIMIT ?)",
        term,
        MOST_PLACED,
        limit,
    )
    return [
        "\n".join([text, *json.loads(headings), title, path, *json.loads(tags)])
        for text, headings, title, path, tags in rows
    ]
