"""Titles and aliases of documents, for refs by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.index.reader import Index


def document_names(index: Index) -> Iterator[tuple[str, str]]:
    """Yield (path, name) for the title and every alias of every document.

    Args:
        index: an index, in a snapshot.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    for path, title, aliases in index._rows("SELECT path, title, aliases FROM document ORDER BY path"):
        yield path, title
        for alias in json.loads(aliases):
            yield path, str(alias)
