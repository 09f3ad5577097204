"""Vectors of the second look, kept: a small SQLite file in the user's cache, apart from every index.

All of it can be made anew. Who cannot read or write it computes again.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from kbhub.places import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_VECTORS = 50_000
"""Vectors kept, some 20 MB; the oldest give way."""

BUSY_MS = 200
"""Milliseconds to wait for another process's transaction: a search is waiting, and no vector is lost."""

_TABLE = """
CREATE TABLE IF NOT EXISTS look(number INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, vector BLOB NOT NULL)
"""


class KeptVectors:
    """Vectors by key. Any number of processes may use the file at once.

    Args:
        path: the file; it need not exist.
        most: vectors to keep.
    """

    def __init__(self, path: Path, most: int = MOST_VECTORS) -> None:
        self.path, self.most = path, most

    def get(self, keys: Iterable[int]) -> dict[int, bytes]:
        """Give those vectors that are kept; none if nothing can be read."""
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
        """Keep vectors, and drop the oldest beyond the limit.

        Returns:
            Whether they could be written.
        """
        for again in (True, False):
            try:
                self._write(vectors)
                return True
            except (apsw.NotADBError, apsw.CorruptError):
                if not again or not self._deleted():
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
        """Delete a file that is damaged: nothing in it is anybody's only copy."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            return False
        return True
