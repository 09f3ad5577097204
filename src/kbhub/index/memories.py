"""Query the memories of a base."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.index.reader import Index


@struct
class MemoryRow:
    """A document with its front matter."""

    path: str
    title: str
    tags: tuple[str, ...]
    front_matter: dict[str, Any]
    mtime_ns: int


def memory_rows(index: Index, prefix: str = "", paths: Sequence[str] | None = None) -> list[MemoryRow]:
    """Return documents with their front matter, sorted by path.

    Args:
        index: in a snapshot.
        prefix: only paths with this prefix.
        paths: only these paths; None for all.
    """
    where = "" if paths is None else "WHERE path IN (SELECT value FROM json_each(?))"
    rows = index._rows(
        f"SELECT path, title, tags, front_matter, mtime_ns FROM document {where} ORDER BY path",
        *([] if paths is None else [json.dumps(list(paths))]),
    )
    return [
        MemoryRow(path, title, tuple(json.loads(tags)), json.loads(front), abs(mtime))
        for path, title, tags, front, mtime in rows
        if path.startswith(prefix)
    ]
