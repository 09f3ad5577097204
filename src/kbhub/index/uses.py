"""Use counts of memories: a small SQLite file in the user's data folder, separate from the indexes.

It cannot be rebuilt, so it is not in the cache. An unreadable file is set aside: that loses the strength of memories,
never a memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import apsw

from kbhub.index.sqlite.schema import BUSY_MS, set_aside
from kbhub.values import struct
from kbhub.workspace.files import private_directory

_TABLE = """
CREATE TABLE IF NOT EXISTS use(
  place TEXT NOT NULL,
  memory TEXT NOT NULL,
  uses INTEGER NOT NULL,
  last REAL NOT NULL,
  PRIMARY KEY(place, memory)
) WITHOUT ROWID
"""


@struct
class Use:
    """How often and when a memory was used."""

    uses: int
    last: float
    """Seconds since the epoch."""


class UseCounts:
    """Use counts by place (a folder of memories) and memory id. Safe for concurrent processes.

    The file need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self, place: str) -> Mapping[str, Use]:
        """Return the uses of a place's memories by id; empty if the file cannot be read."""
        if not self.path.exists():
            return {}
        try:
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                connection.set_busy_timeout(BUSY_MS)
                rows = connection.execute("SELECT memory, uses, last FROM use WHERE place = ?", (place,)).fetchall()
        except apsw.Error:
            return {}
        return {str(memory): Use(int(str(uses)), float(str(last))) for memory, uses, last in rows}

    def count(self, place: str, memories: Iterable[str], now: float) -> bool:
        """Count one use of each memory at a time in seconds since the epoch; return whether it was written."""
        ids = json.dumps(sorted(set(memories)))
        return self._write(
            lambda connection: connection.execute(
                "INSERT INTO use SELECT ?, value, 1, ? FROM json_each(?) WHERE true "
                "ON CONFLICT DO UPDATE SET uses = uses + 1, last = max(last, excluded.last)",
                (place, now, ids),
            )
        )

    def put(self, place: str, uses: Mapping[str, Use]) -> bool:
        """Merge imported uses; the larger count and the later time win."""
        rows = [(place, memory, use.uses, use.last) for memory, use in uses.items()]
        return self._write(
            lambda connection: connection.executemany(
                "INSERT INTO use VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET uses = max(uses, excluded.uses), last = max(last, excluded.last)",
                rows,
            )
        )

    def forget(self, place: str, memories: Iterable[str]) -> bool:
        """Delete the counts of deleted memories."""
        if not self.path.exists():
            return True
        ids = json.dumps(list(memories))
        return self._write(
            lambda connection: connection.execute(
                "DELETE FROM use WHERE place = ? AND memory IN (SELECT value FROM json_each(?))", (place, ids)
            )
        )

    def _write(self, change: Callable[[apsw.Connection], object]) -> bool:
        for first_try in (True, False):
            try:
                private_directory(self.path.parent)
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
                    connection.set_busy_timeout(BUSY_MS)
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(_TABLE)
                    change(connection)
                    connection.execute("COMMIT")
                return True
            except (apsw.NotADBError, apsw.CorruptError):
                if first_try:
                    set_aside(self.path)
            except (apsw.Error, OSError):
                return False
        return False
