"""Checks of a database's results: any role that may write a base can write rows that no publisher writes."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kbhub.index.rows import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LARGEST_ID = 2**31 - 1
"""Largest id of a chunk, which `blocks.CHUNK_SHIFT` leaves room for, and of a document."""

MOST_LINES = 10_000_000
"""Lines of a document: reading its text takes memory for each, even if all are blank."""

MOST_DIMENSIONS = 16_384
"""Numbers of a vector, a byte each; the largest models make 4,096."""

LATEST = 253_402_300_799
"""Last second of the year 9999, since the epoch."""

_DOCID = re.compile("[0-9a-f]{16}")
_LINK_KINDS = frozenset(("markdown", "wikilink", "embed", "reference"))


def _between(least: int, most: int, values: Sequence[int]) -> bool:
    return least <= min(values) and max(values) <= most


def _are_vectors(values: Sequence[bytes]) -> bool:
    sizes = set(map(len, values))
    return len(sizes) == 1 and 0 < max(sizes) <= MOST_DIMENSIONS


_is_id, _is_line = partial(_between, 0, LARGEST_ID), partial(_between, 0, MOST_LINES)

_CHECKS: Mapping[str, Callable[[Sequence[Any]], bool]] = MappingProxyType(
    {
        **dict.fromkeys(("id", "document_id", "chunk_id", "min", "first", "last", "doc"), _is_id),
        **dict.fromkeys(("line", "end_line", "prose"), _is_line),
        "start_line": partial(_between, 1, MOST_LINES),
        "path": all,  # one that leads out of the base is refused where it is opened or written
        "docid": lambda values: all(map(_DOCID.fullmatch, values)),
        "kind": KINDS.issuperset,
        "embedding": _are_vectors,
    }
)
"""Column → whether all its values are possible. The tables have types, so only what these allow is left."""

_META: Mapping[str, type] = MappingProxyType({"generation": int, "pack": int, "embedder": str, "synced": str})
"""What readers use of `meta`, and its types."""


def checked(columns: Sequence[str], rows: list[Any]) -> list[Any]:
    """Return fetched rows, raising ValueError if a value is impossible for its column."""
    for number, column in enumerate(columns if rows else ()):
        # A statement about links returns no kinds of documents.
        check = _LINK_KINDS.issuperset if column == "kind" and "target" in columns else _CHECKS.get(column)
        if check and not check([row[number] for row in rows]):
            raise ValueError(f"a value of `{column}` is impossible")
    return rows


def checked_meta(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `meta`; raises like `checked`."""
    for key, kind in _META.items():
        if (value := values.get(key)) is not None and type(value) is not kind:
            raise ValueError(f"its {key} is of another type")
    if (synced := values.get("synced")) and datetime.fromisoformat(synced).tzinfo is None:
        raise ValueError("it was synced at an unknown time")
    return values
