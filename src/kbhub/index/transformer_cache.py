"""Cache of second-look vectors: a small SQLite file in the user's cache, separate from the indexes.

All of it can be recomputed, so failures to read or write are ignored.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from kbhub.workspace.places import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_VECTORS = 50_000
"""Vectors to keep, some 20 MB; the oldest are dropped first."""

BUSY_MS = 200
"""Timeout for another process's transaction: a search is waiting, and a lost vector does not matter."""

_TABLE = """
CREATE TABLE IF NOT EXISTS look(number INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, vector BLOB NOT NULL)
"""


class KeptVectors:
    """Vectors by key. Safe for concurrent processes.

    Args:
        path: the file; it need not exist.
        most: number of vectors to keep.
    """

    def __init__(self, path: Path, most: int = MOST_VECTORS) -> None:
        self.path, self.most = path, most

    def get(self, keys: Iterable[int]) -> dict[int, bytes]:
        """Return the cached vectors; empty if the file cannot be read."""
        if not self.path.exists():
            return {}
        try:
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                connection.set_busy_timeout(BUSY_MS)
                rows = connection.execute(
                    "SELECT key, vector FROM look WHERE key IN (SELECT value FROM json_each(?))",
                    (json.dumps(list(keys)),),
                ).fetchall()
        except apsw.Error:
            return {}
        return {key: vector for key, vector in rows if isinstance(key, int) and isinstance(vector, bytes)}

    def put(self, vectors: Mapping[int, bytes]) -> bool:
        """Store vectors, and drop the oldest beyond the limit.

        Returns:
            Whether they could be written.
        """
        for first_try in (True, False):
            try:
                self._write(vectors)
                return True
            except (apsw.NotADBError, apsw.CorruptError):
                if not first_try or not self._deleted():
                    return False
            except (apsw.Error, OSError):
                return False
        return False

    def _write(self, vectors: Mapping[int, bytes]) -> None:
        private_directory(self.path.parent)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            with connection:
                connection.execute(_TABLE)
                connection.executemany("INSERT OR IGNORE INTO look(key, vector) VALUES (?, ?)", list(vectors.items()))
                connection.execute("DELETE FROM look WHERE number <= (SELECT max(number) FROM look) - ?", (self.most,))

    def _deleted(self) -> bool:
        """Delete a damaged file."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            return False
        return True
