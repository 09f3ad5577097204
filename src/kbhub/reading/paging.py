"""Cursors for pages of hits and documents: stateless, opaque, and bound to one query or list of refs."""

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
"""Hex digits of the request's hash; 40 bits distinguish the queries of one conversation."""

_DECIDING = {"text", "queries", "passage", "bases", "mode", "granularity", "recency", "min_signals", "min_score"}
"""Fields of a query that determine the hits and their order."""

_CURSOR = re.compile(rf"(\d{{1,9}})\.([0-9a-f]{{{_FINGERPRINT}}})")


def make_cursor(query: Query, offset: int) -> str:
    """Return the cursor of a query's page.

    Args:
        query: the query.
        offset: hits before the page.
    """
    return _encoded(offset, _fingerprint(query))


def offset_of(cursor: str, query: Query) -> int:
    """Return the offset of a cursor.

    Args:
        cursor: a result of `make_cursor`.
        query: the current query; its offset, limit and trace may differ.

    Raises:
        UsageError: the cursor is invalid, or of another query.
    """
    offset, fingerprint = _decoded(cursor, "search")
    if fingerprint != _fingerprint(query):
        raise UsageError(
            "`cursor` is of another search; give it with the same query, queries, bases, mode and options, "
            "or search without it for the first page."
        )
    return offset


def reading_cursor(refs: str | Sequence[str], offset: int) -> str:
    """Return the cursor of a page of refs, starting at a document's number, from 0."""
    return _encoded(offset, _fingerprint_of_refs(refs))


def offset_of_reading(cursor: str, refs: str | Sequence[str]) -> int:
    """Return the document number of a cursor.

    Args:
        cursor: a result of `reading_cursor`.
        refs: the current refs.

    Raises:
        UsageError: the cursor is invalid, or of other refs.
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
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise UsageError(f"`cursor` is none that kbhub gave; copy it whole, or {call} without it for the first page.")
    return int(match[1]), match[2]


def _fingerprint_of_refs(refs: str | Sequence[str]) -> str:
    text = json.dumps(refs if isinstance(refs, str) else list(refs))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT]


def _fingerprint(query: Query) -> str:
    request = query.model_dump_json(include=_DECIDING)
    return hashlib.sha256(request.encode("utf-8")).hexdigest()[:_FINGERPRINT]
