"""Cursors of pages of hits: stateless, opaque, and of one query only."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING

from kbhub.errors import UsageError

if TYPE_CHECKING:
    from kbhub.types import Query

_FINGERPRINT = 10
"""Hex digits of the hash of what was asked; 40 bits tell the queries of one conversation apart."""

_CURSOR = re.compile(rf"(\d{{1,9}})\.([0-9a-f]{{{_FINGERPRINT}}})")


def make_cursor(query: Query, offset: int) -> str:
    """Give the cursor of the page of a query that starts at an offset."""
    return base64.urlsafe_b64encode(f"{offset}.{_fingerprint(query)}".encode()).decode().rstrip("=")


def offset_of(cursor: str, query: Query) -> int:
    """Give the offset that a cursor stands for.

    Args:
        cursor: as `make_cursor` made it.
        query: what is asked now; its offset, limit and trace do not matter.

    Raises:
        UsageError: it is no cursor, or one of another query.
    """
    try:
        text = base64.urlsafe_b64decode(cursor.strip() + "=" * (-len(cursor.strip()) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise UsageError("`cursor` is none that kbhub gave; copy it whole, or search without it for the first page.")
    if found[2] != _fingerprint(query):
        raise UsageError(
            "`cursor` is of another search; give it with the same query, bases, mode and granularity, "
            "or search without it for the first page."
        )
    return int(found[1])


def _fingerprint(query: Query) -> str:
    asked = query.model_dump_json(include={"text", "bases", "mode", "granularity"})
    return hashlib.sha256(asked.encode("utf-8")).hexdigest()[:_FINGERPRINT]
