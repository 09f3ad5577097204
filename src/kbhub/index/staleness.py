"""What documents say about how long they hold: a day of review, an expiry, another document in their place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kbhub.index.schema import listed

if TYPE_CHECKING:
    from collections.abc import Collection

    from kbhub.index.reader import Index
    from kbhub.index.rows import DocumentRow

UNTIL_KEYS = ("expires", "review", "review_by", "valid_until")
"""Front matter that names the last day on which a document holds without another look."""

SUPERSEDED_KEYS = ("superseded_by", "superseded-by")
"""Front matter of a document that names the one in its place."""

_KEYS = ", ".join(f"'{key}'" for key in (*UNTIL_KEYS, *SUPERSEDED_KEYS, "status"))

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
    found = {}
    if index.remembered("says how long it holds", lambda: _says(index)):
        rows = index._rows(
            # `+` keeps SQLite from going through all that have such a key.
            "SELECT document_id, key, value FROM property WHERE document_id IN (SELECT value FROM carray(?)) "
            f"AND +key IN ({_KEYS}) ORDER BY key DESC",
            listed([one.id for one in documents]),
        )
        found = {number: why for number, key, value in rows if (why := _why(key, value, now))}
    successors = index.remembered("supersedes", lambda: _successors(index))
    for document in documents:
        for name in _called(document) if successors else ():
            if name in successors:
                found[document.id] = f"superseded by {successors[name]}"
    return found


def _says(index: Index) -> bool:
    """Whether any document of the base says how long it holds."""
    return bool(index._rows(f"SELECT 1 FROM property WHERE key IN ({_KEYS}) LIMIT 1"))


def _successors(index: Index) -> dict[str, str]:
    """Give what documents say that they supersede, as they call it → their path."""
    rows = index._rows(
        "SELECT value, path FROM property JOIN document ON document.id = document_id WHERE key = 'supersedes'"
    )
    return {str(value).strip("/").removeprefix("./").rpartition("@")[2]: path for value, path in rows}


def _why(key: str, value: object, now: float) -> str | None:
    if key in SUPERSEDED_KEYS:
        return f"superseded by {value}" if str(value).strip() else None
    if key == "status":
        return SUPERSEDED if value == SUPERSEDED else None
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    return f"{key} {value}" if isinstance(value, str) and value[:4].isdigit() and value[:10] < today else None


def _called(document: DocumentRow) -> tuple[str, str]:
    """Give what `supersedes` may call a document: its path, with or without extension, case apart."""
    path = document.path.casefold()
    return path, path.rpartition(".")[0]
