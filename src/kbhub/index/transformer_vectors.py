"""Transformer vectors of a base's chunks: a SQLite file beside the index, which a rebuilt index finds again.

They take minutes to hours to compute and are only needed to rerank, so a file that cannot be read or written is as
good as none, and a chunk without a vector is ranked without one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import apsw

SUFFIX = ".minilm"
"""Appended to the name of the index."""

BUSY_MS = 200
"""Timeout for another process's transaction: a search is waiting, and can rank without."""

_TABLES = """
CREATE TABLE IF NOT EXISTS model(fingerprint TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vector(key INTEGER PRIMARY KEY, embedding BLOB NOT NULL);
"""


class TransformerVectors:
    """Vectors by the key of their text (`references.chunk_key`), beside an index file. Safe for concurrent processes.

    Vectors of a model with another fingerprint are not read, and dropped by the next write.
    """

    def __init__(self, index: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = index.with_name(index.name + SUFFIX), fingerprint

    def get(self, keys: Iterable[int]) -> dict[int, bytes]:
        """Return the int8 vectors of texts that have one; empty if the file cannot be read."""
        rows = self._read(
            "SELECT key, embedding FROM vector WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys))
        )
        return {key: vector for key, vector in rows if isinstance(key, int) and isinstance(vector, bytes)}

    def keys(self) -> set[int]:
        """Return the keys of all texts that have a vector."""
        return {key for (key,) in self._read("SELECT key FROM vector") if isinstance(key, int)}

    def count(self) -> int:
        """Return how many texts have a vector."""
        return sum(number for (number,) in self._read("SELECT count(*) FROM vector") if isinstance(number, int))

    def put(self, vectors: Mapping[int, bytes]) -> bool:
        """Store vectors; return whether they could be written."""
        return self._write("INSERT OR REPLACE INTO vector(key, embedding) VALUES (?, ?)", list(vectors.items()))

    def drop(self, keys: Collection[int]) -> bool:
        """Delete the vectors of texts that no chunk has any more; return whether that was possible."""
        return not keys or self._write("DELETE FROM vector WHERE key = ?", [(key,) for key in keys])

    def _read(self, statement: str, *values: str) -> list[tuple[object, ...]]:
        if not self.path.exists():
            return []
        try:
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                connection.set_busy_timeout(BUSY_MS)
                if connection.execute("SELECT fingerprint FROM model").get != self.fingerprint:
                    return []
                return connection.execute(statement, values).fetchall()
        except apsw.Error:
            return []

    def _write(self, statement: str, rows: Sequence[tuple[int, ...] | tuple[int, bytes]]) -> bool:
        for again in (False, True):
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
                    connection.set_busy_timeout(BUSY_MS)
                    with connection:
                        connection.execute(_TABLES)
                        if connection.execute("SELECT fingerprint FROM model").get != self.fingerprint:
                            connection.execute("DELETE FROM vector; DELETE FROM model")
                            connection.execute("INSERT INTO model VALUES (?)", (self.fingerprint,))
                        connection.executemany(statement, rows)
            except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError):
                if again or not self._deleted():
                    return False
            except (apsw.Error, OSError):
                return False
            else:
                return True
        return False

    def _deleted(self) -> bool:
        """Delete a damaged file."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            return False
        return True
