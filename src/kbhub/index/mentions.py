"""Count a base's tags, for checks of written documents."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.index.reader import Index


def tag_counts(index: Index, *, without: str) -> Counter[str]:
    """Count the documents per tag, with tags as written.

    Args:
        index: an index, in a snapshot.
        without: path of a document to ignore.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    counts: Counter[str] = Counter()
    for (tags,) in index._rows("SELECT tags FROM document WHERE tags != '[]' AND path != ?", without):
        counts.update(set(json.loads(tags)))
    return counts
