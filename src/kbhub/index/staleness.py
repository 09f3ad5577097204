"""Outdated documents: by review or expiry date, status, or a successor.

All functions need the documents' index within a snapshot.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kbhub.index.engine import Index, numbers
from kbhub.index.rows import DocumentRow

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

UNTIL_KEYS = ("expires", "review", "review_by", "valid_until")
"""Front-matter keys with the last day on which a document is valid without a review."""

SUPERSEDED_KEYS = ("superseded_by", "superseded-by")
"""Front-matter keys with the successor of a document."""

_KEYS = ", ".join(f"'{key}'" for key in (*UNTIL_KEYS, *SUPERSEDED_KEYS, "status"))

ENDED = ("superseded", "deprecated")
"""First word of a `status` of a document that is no longer valid."""

_ACCEPTED = "accepted"

DECISION_FOLDERS = frozenset({"adr", "adrs", "decision", "decisions", "decision-records", "decision_records"})
"""Folders of decision records, lower case: a decision is valid until another one replaces it."""

HEAD_LINES = 30
"""Lines in which a line `Status: …` applies to the document: below front matter, title and a short introduction."""

_STATUS = re.compile(
    r"^(?:(?P<section>#{1,6}[ \t]+status[ \t#]*\n\s*)|[*+-]?[ \t]*[*_]*status[*_]*[ \t]*:[*_]*)[ \t]*[*_`]*"
    rf"(?P<word>{_ACCEPTED}|{'|'.join(ENDED)})\b(?P<more>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""Status in decision records: a section (Nygard) or a line (MADR)."""

_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = "*_` \t\r."

_MOST_WORDS = 120
"""Most characters of a reported status."""


def outdated(
    index: Index, documents: Collection[DocumentRow], now: float, written: Mapping[int, str] | None = None
) -> dict[int, str]:
    """Return id → short reason of the documents that declare themselves outdated, or are superseded by another.

    `now` is in seconds since the epoch; `written` are the `written_statuses`, if known.
    """
    written = written_statuses(index, documents) if written is None else written
    reasons = {number: said for number, said in written.items() if not said.startswith(_ACCEPTED)}
    if index.remembered("says how long it holds", lambda: _says(index)):
        rows = index.rows(
            "SELECT document_id, key, value FROM property WHERE document_id IN @ids "
            f"AND @each key IN ({_KEYS}) ORDER BY key DESC",
            numbers([document.id for document in documents]),
        )
        reasons |= {number: why for number, key, value in rows if (why := _why(key, value, now))}
    successors = index.remembered("supersedes", lambda: _successors(index))
    for document in documents:
        for name in _called(document) if successors else ():
            if name in successors:
                reasons[document.id] = f"superseded by {successors[name]}"
    return reasons


def settled(index: Index, documents: Collection[DocumentRow], written: Mapping[int, str]) -> set[int]:
    """Return the ids of decision records, which age alone does not make stale: by folder, or status `accepted`.

    `written` are their `written_statuses`.
    """
    ids = {document.id for document in documents if DECISION_FOLDERS & set(document.path.casefold().split("/")[:-1])}
    rows = index.rows(
        "SELECT document_id, value FROM property WHERE document_id IN @ids AND @each key = 'status'",
        numbers([document.id for document in documents if document.id not in ids]),
    )
    ids |= {number for number, value in rows if str(value).strip().casefold() == _ACCEPTED}
    return ids | {number for number, said in written.items() if said.startswith(_ACCEPTED)}


def written_statuses(index: Index, documents: Collection[DocumentRow]) -> dict[int, str]:
    """Return the status of decision records from their text, by document id."""
    rows = index.rows(
        "SELECT document_id, start_line, text FROM chunk WHERE document_id IN @ids "
        "AND text @alike '%status%' ORDER BY start_line DESC",
        numbers([document.id for document in documents if document.kind == "document"]),
    )
    statuses = {}
    for number, start, text in rows:
        for match in _STATUS.finditer(text):
            if match["section"] or start + text.count("\n", 0, match.start()) <= HEAD_LINES:
                more = _LINK.sub(r"\1", match["more"]).strip(_MARKS)
                statuses[number] = " ".join(f"{match['word'].casefold()} {more}".split())[:_MOST_WORDS]
                break
    return statuses


def _says(index: Index) -> bool:
    """Return whether any document of the base declares its validity."""
    return bool(index.rows(f"SELECT 1 FROM property WHERE key IN ({_KEYS}) LIMIT 1"))


def _successors(index: Index) -> dict[str, str]:
    """Return superseded name → path of the document that supersedes it."""
    rows = index.rows(
        "SELECT value, path FROM (SELECT document_id, value FROM property WHERE key IN @texts) AS property "
        "JOIN document ON document.id = document_id",
        ["supersedes"],
    )
    return {str(value).strip("/").removeprefix("./").rpartition("@")[2]: path for value, path in rows}


def _why(key: str, value: object, now: float) -> str | None:
    if key in SUPERSEDED_KEYS:
        return f"superseded by {value}" if str(value).strip() else None
    if key == "status":
        status = " ".join(str(value).split())
        return status[:_MOST_WORDS] if status.casefold().startswith(ENDED) else None
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    return f"{key} {value}" if isinstance(value, str) and value[:4].isdigit() and value[:10] < today else None


def _called(document: DocumentRow) -> tuple[str, str]:
    """Return the names by which `supersedes` may refer to a document: its path with and without extension."""
    path = document.path.casefold()
    return path, path.rpartition(".")[0]
