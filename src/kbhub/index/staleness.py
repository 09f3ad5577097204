"""What documents say about how long they hold: a day of review, an expiry, another document in their place."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kbhub.index.reader import DocumentRow, Index

UNTIL_KEYS = ("expires", "review", "review_by", "valid_until")
"""Front matter that names the last day on which a document holds without another look."""

SUPERSEDED_KEYS = ("superseded_by", "superseded-by")
"""Front matter of a document that names the one in its place."""

SUPERSEDED = "superseded"
"""Value of `status` that says the same."""


def outdated(index: Index, documents: Collection[DocumentRow], now: float) -> dict[int, str]:
    """Say which documents no longer hold by their own word, or by that of one that supersedes them.

    Args:
        index: their index, within a snapshot.
        documents: those to look at.
        now: seconds since the epoch.

    Returns:
        Document id → why, in a few words.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    wanted = json.dumps([one.id for one in documents])
    keys = json.dumps([*UNTIL_KEYS, *SUPERSEDED_KEYS, "status"])
    rows = index._rows(
        "SELECT document_id, key, value FROM property WHERE document_id IN (SELECT value FROM json_each(?)) "
        "AND key IN (SELECT value FROM json_each(?)) ORDER BY key DESC",
        wanted,
        keys,
    )
    found = {number: why for number, key, value in rows if (why := _why(key, value, now))}
    successors = index._rows(
        "SELECT value, path FROM property JOIN document ON document.id = document_id WHERE key = 'supersedes'"
    )
    if successors:
        called: dict[str, list[int]] = defaultdict(list)
        for document in documents:
            for name in _called(document):
                called[name].append(document.id)
        for value, path in successors:
            target = str(value).strip("/").removeprefix("./").rpartition("@")[2]
            found.update(dict.fromkeys(called.get(target, ()), f"superseded by {path}"))
    return found


def _why(key: str, value: object, now: float) -> str | None:
    if key in SUPERSEDED_KEYS:
        return f"superseded by {value}"
    if key == "status":
        return SUPERSEDED if value == SUPERSEDED else None
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    return f"{key} {value}" if isinstance(value, str) and value[:4].isdigit() and value[:10] < today else None


def _called(document: DocumentRow) -> tuple[str, str]:
    """Give what `supersedes` may call a document: its path, with or without extension, case apart."""
    path = document.path.casefold()
    return path, path.rpartition(".")[0]
