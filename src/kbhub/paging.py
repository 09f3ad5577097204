"""Cursors of pages of hits and of documents: stateless, opaque, and of one query or list of refs only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from typing import TYPE_CHECKING

from kbhub.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.types import Query

_FINGERPRINT = 10
"""Hex digits of the hash of what was asked; 40 bits tell the queries of one conversation apart."""

_DECIDING = {"text", "bases", "mode", "granularity", "recency", "min_signals", "min_score"}
"""Fields of a query that decide which hits there are, and in which order."""

_CURSOR = re.compile(rf"(\d{{1,9}})\.([0-9a-f]{{{_FINGERPRINT}}})")


def make_cursor(query: Query, offset: int, wordings: Sequence[str] = ()) -> str:
    """Give the cursor of the page of a query that starts at an offset.

    Args:
        query: what is asked.
        offset: hits before the page.
        wordings: what is searched for beside the query.
    """
    return _encoded(offset, _fingerprint(query, wordings))


def offset_of(cursor: str, query: Query, wordings: Sequence[str] = ()) -> int:
    """Give the offset that a cursor stands for.

    Args:
        cursor: as `make_cursor` made it.
        query: what is asked now; its offset, limit and trace do not matter.
        wordings: what is searched for beside it now.

    Raises:
        UsageError: it is no cursor, or one of another query.
    """
    offset, fingerprint = _decoded(cursor, "search")
    if fingerprint != _fingerprint(query, wordings):
        raise UsageError(
            "`cursor` is of another search; give it with the same query, bases, mode and options, "
            "or search without it for the first page."
        )
    return offset


def reading_cursor(refs: str | Sequence[str], offset: int) -> str:
    """Give the cursor of the page of some refs that starts with their document of a number, from 0."""
    return _encoded(offset, _fingerprint_of_refs(refs))


def offset_of_reading(cursor: str, refs: str | Sequence[str]) -> int:
    """Give the number of the document that a cursor stands for.

    Args:
        cursor: as `reading_cursor` made it.
        refs: what is asked for now.

    Raises:
        UsageError: it is no cursor, or one of other refs.
    """
    offset, fingerprint = _decoded(cursor, "read")
    if fingerprint != _fingerprint_of_refs(refs):
        raise UsageError("`cursor` is of other refs; give it with the same refs, or read without it from the first.")
    return offset


def _encoded(offset: int, fingerprint: str) -> str:
    return base64.urlsafe_b64encode(f"{offset}.{fingerprint}".encode()).decode().rstrip("=")


def _decoded(cursor: str, call: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(cursor.strip() + "=" * (-len(cursor.strip()) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise UsageError(f"`cursor` is none that kbhub gave; copy it whole, or {call} without it for the first page.")
    return int(found[1]), found[2]


def _fingerprint_of_refs(refs: str | Sequence[str]) -> str:
    text = json.dumps(refs if isinstance(refs, str) else list(refs))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT]


def _fingerprint(query: Query, wordings: Sequence[str]) -> str:
    asked = query.model_dump_json(include=_DECIDING) + (json.dumps(list(wordings)) if any(wordings) else "")
    return hashlib.sha256(asked.encode("utf-8")).hexdigest()[:_FINGERPRINT]
