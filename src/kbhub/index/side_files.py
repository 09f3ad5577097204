"""SQLite files beside the indexes, and one of them: transformer vectors, which a rebuilt index finds again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from kbhub.index.sqlite.schema import BUSY_MS, set_aside
from kbhub.workspace.files import private_directory

DAMAGED = (apsw.NotADBError, apsw.CorruptError)


class SideFile:
    """A SQLite file of one user and many processes; it need not exist.

    kbhub does without it: what cannot be read counts as empty, and a damaged file makes room for a new one.
    """

    busy_ms = BUSY_MS
    tables = ""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _rows(self, statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        if not self.path.exists():
            return []
        try:
            with closing(self._connected(apsw.SQLITE_OPEN_READONLY)) as connection:
                return connection.execute(statement, values).fetchall()
        except apsw.Error:
            return []

    def _write(self, change: Callable[[apsw.Connection], object]) -> bool:
        """Make a change in a transaction; return whether it was written."""
        try:
            for _ in range(2):
                try:
                    with self._writing() as connection:
                        change(connection)
                    return True
                except (*DAMAGED, apsw.SQLError):  # or with tables that are not ours
                    self._replace_damaged()
        except (apsw.Error, OSError):
            pass
        return False

    def _replace_damaged(self) -> None:
        set_aside(self.path)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """Yield a connection in a transaction, which is committed on success."""
        with closing(self._opened()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            self._committed(connection)

    def _opened(self) -> apsw.Connection:
        private_directory(self.path.parent)
        # Created here with the right mode, so that no other user can ever read it.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = self._connected(apsw.SQLITE_OPEN_READWRITE)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close(force=True)
            raise
        return connection

    def _connected(self, flags: int) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(self.busy_ms)
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.execute(self.tables)

    def _committed(self, connection: apsw.Connection) -> None:
        """Tidy up after a transaction."""


SUFFIX = ".minilm"
"""Appended to the name of the index."""


class TransformerVectors(SideFile):
    """Vectors of a base's chunks by the key of their text (`references.chunk_key`), beside its index.

    They take minutes to hours to compute and are only needed to rerank: a chunk without one is ranked without it.
    Vectors of a model with another fingerprint are not read, and dropped by the next write.
    """

    busy_ms = 200
    """A search is waiting, and can rank without."""
    tables = """
CREATE TABLE IF NOT EXISTS model(fingerprint TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vector(key INTEGER PRIMARY KEY, embedding BLOB NOT NULL);
"""

    def __init__(self, index: Path, fingerprint: str) -> None:
        super().__init__(index.with_name(index.name + SUFFIX))
        self.fingerprint = fingerprint

    def get(self, keys: Iterable[int]) -> dict[int, bytes]:
        """Return the int8 vectors of texts that have one; empty if the file cannot be read."""
        rows = self._selected("key, embedding", "WHERE key IN (SELECT value FROM json_each(?))", json.dumps(list(keys)))
        return {key: vector for key, vector in rows if isinstance(key, int) and isinstance(vector, bytes)}

    def keys(self) -> set[int]:
        """Return the keys of all texts that have a vector."""
        return {key for (key,) in self._selected("key") if isinstance(key, int)}

    def count(self) -> int:
        """Return how many texts have a vector."""
        return sum(number for (number,) in self._selected("count(*)") if isinstance(number, int))

    def put(self, vectors: Mapping[int, bytes]) -> bool:
        """Store vectors; return whether they could be written."""
        rows = list(vectors.items())
        return self._write(
            lambda connection: connection.executemany(
                "INSERT OR REPLACE INTO vector(key, embedding) VALUES (?, ?)", rows
            )
        )

    def drop(self, keys: Collection[int]) -> bool:
        """Delete the vectors of texts that no chunk has any more; return whether that was possible."""
        rows = [(key,) for key in keys]
        return not rows or self._write(
            lambda connection: connection.executemany("DELETE FROM vector WHERE key = ?", rows)
        )

    def _selected(self, columns: str, condition: str = "", *values: str) -> list[Any]:
        statement = f"SELECT {columns} FROM model CROSS JOIN vector ON fingerprint = ? {condition}"
        return self._rows(statement, self.fingerprint, *values)

    def _prepare(self, connection: apsw.Connection) -> None:
        super()._prepare(connection)
        if connection.execute("SELECT fingerprint FROM model").get != self.fingerprint:
            with connection:
                connection.execute("DELETE FROM vector; DELETE FROM model")
                connection.execute("INSERT INTO model VALUES (?)", (self.fingerprint,))

    def _replace_damaged(self) -> None:
        self.path.unlink(missing_ok=True)
