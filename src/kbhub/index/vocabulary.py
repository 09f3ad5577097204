"""Query the terms of the full-text index: stems, accents folded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kbhub.index.reader import Index

MOST_PLACED = 2000
"""Most chunks with a term that are sorted: some 5 ms. A commoner stem occurs in every form early on."""

LAST_CHARACTER = "\U0010ffff"


def terms_with_prefix(index: Index, prefix: str) -> dict[str, int]:
    """Return the terms with a prefix: term → number of chunks.

    Args:
        index: an index, in a snapshot.
        prefix: folded like the terms.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    return dict(
        index._rows("SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?", prefix, prefix + LAST_CHARACTER)
    )


def terms_among(index: Index, terms: Collection[str]) -> dict[str, int]:
    """Return the given terms that occur in an index: term → number of chunks; raises like `terms_with_prefix`."""
    return dict(
        index._rows(
            "SELECT term, doc FROM vocabulary WHERE term IN (SELECT value FROM json_each(?))", json.dumps(list(terms))
        )
    )


def texts_with_term(index: Index, term: str, limit: int) -> list[str]:
    """Return the texts of chunks with a term, each with headings, title, path and tags.

    Args:
        index: an index, within a snapshot.
        term: a stem; it is not stemmed again.
        limit: most texts; the first by path and line, independent of the order of indexing.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    # A temporary view of the same postings by position, not stored in the file.
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
