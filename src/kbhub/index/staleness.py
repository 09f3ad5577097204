"""What documents say about how long they hold: a day of review, an expiry, another document in their place."""

from __future__ import annotations

import re
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

ENDED = ("superseded", "deprecated")
"""First word of a `status` that says that a document no longer holds."""

_ACCEPTED = "accepted"

DECISION_FOLDERS = frozenset({"adr", "adrs", "decision", "decisions", "decision-records", "decision_records"})
"""Folders of records of decisions, case apart: what was decided holds until another decision takes its place."""

HEAD_LINES = 30
"""Lines in which a line `Status: …` is about the document: below front matter, the title and a short introduction."""

_STATUS = re.compile(
    r"^(?:(?P<section>#{1,6}[ \t]+status[ \t#]*\n\s*)|[*+-]?[ \t]*[*_]*status[*_]*[ \t]*:[*_]*)[ \t]*[*_`]*"
    rf"(?P<word>{_ACCEPTED}|{'|'.join(ENDED)})\b(?P<more>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""How records of decisions say it: a section (Nygard) or a line (MADR)."""

_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = "*_` \t\r."

_MOST_WORDS = 120
"""Characters of a status that are told."""


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
    found = {number: said for number, said in _written(index, documents).items() if not said.startswith(_ACCEPTED)}
    if index.remembered("says how long it holds", lambda: _says(index)):
        rows = index._rows(
            # `+` keeps SQLite from going through all that have such a key.
            "SELECT document_id, key, value FROM property WHERE document_id IN (SELECT value FROM carray(?)) "
            f"AND +key IN ({_KEYS}) ORDER BY key DESC",
            listed([one.id for one in documents]),
        )
        found |= {number: why for number, key, value in rows if (why := _why(key, value, now))}
    successors = index.remembered("supersedes", lambda: _successors(index))
    for document in documents:
        for name in _called(document) if successors else ():
            if name in successors:
                found[document.id] = f"superseded by {successors[name]}"
    return found


def settled(index: Index, documents: Collection[DocumentRow]) -> set[int]:
    """Say which documents record a decision: age alone does not make them stale.

    Args:
        index: their index, within a snapshot.
        documents: those to look at.

    Returns:
        Ids of those that lie in a folder of decisions or are accepted by their own word.

    Raises:
        IndexUnavailable: the index cannot be read.
    """
    found = {one.id for one in documents if DECISION_FOLDERS & set(one.path.casefold().split("/")[:-1])}
    rows = index._rows(
        "SELECT document_id, value FROM property "
        "WHERE document_id IN (SELECT value FROM carray(?)) AND +key = 'status'",
        listed([one.id for one in documents if one.id not in found]),
    )
    found |= {number for number, value in rows if str(value).strip().casefold() == _ACCEPTED}
    left = [one for one in documents if one.id not in found]
    return found | {number for number, said in _written(index, left).items() if said.startswith(_ACCEPTED)}


def _written(index: Index, documents: Collection[DocumentRow]) -> dict[int, str]:
    """Give what the text of documents says of their status, if that is a record of a decision's."""
    rows = index._rows(
        "SELECT document_id, start_line, text FROM chunk WHERE document_id IN (SELECT value FROM carray(?)) "
        "AND text LIKE '%status%' ORDER BY start_line DESC",
        listed([one.id for one in documents if one.kind == "document"]),
    )
    found = {}
    for number, start, text in rows:
        for match in _STATUS.finditer(text):
            if match["section"] or start + text.count("\n", 0, match.start()) <= HEAD_LINES:
                more = _LINK.sub(r"\1", match["more"]).strip(_MARKS)
                found[number] = " ".join(f"{match['word'].casefold()} {more}".split())[:_MOST_WORDS]
                break
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
        said = " ".join(str(value).split())
        return said[:_MOST_WORDS] if said.casefold().startswith(ENDED) else None
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    return f"{key} {value}" if isinstance(value, str) and value[:4].isdigit() and value[:10] < today else None


def _called(document: DocumentRow) -> tuple[str, str]:
    """Give what `supersedes` may call a document: its path, with or without extension, case apart."""
    path = document.path.casefold()
    return path, path.rpartition(".")[0]
