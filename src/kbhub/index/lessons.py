"""Documents that were read after a question was asked in vain: tables of the query log."""

from __future__ import annotations

import json
import threading
from array import array
from math import sqrt
from typing import TYPE_CHECKING, Any

import apsw

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TABLES = """
CREATE TABLE question(
  asked_id INTEGER PRIMARY KEY,
  session TEXT NOT NULL,
  model TEXT NOT NULL,
  vector BLOB NOT NULL
);
CREATE TABLE lesson(
  asked_id INTEGER NOT NULL,
  ref TEXT NOT NULL,
  at REAL NOT NULL,
  remembered INTEGER NOT NULL,
  PRIMARY KEY(asked_id, ref)
) WITHOUT ROWID;
CREATE INDEX lesson_at ON lesson(at);
CREATE TRIGGER forget AFTER DELETE ON asked BEGIN
  DELETE FROM question WHERE asked_id = old.id;
  DELETE FROM lesson WHERE asked_id = old.id;
END;
"""

LISTED_FIRST = 3
"""Hits that count as listed first: three of four reads are of one of them."""

REWORDED = 0.3
"""Cosine from which an earlier query of a session asks the same as its last one: 69 of 100 pairs of wordings of one
question are nearer, and 3 of 100 pairs of different questions about one subject."""

MOST_LESSONS = 500
"""Limit of readings that a search looks at, the latest first; reading them takes half a millisecond."""


@struct
class Lesson:
    """A document that was read after a question was asked in vain."""

    asked_id: int
    ref: str
    at: float
    """When it was read, seconds since the epoch."""
    remembered: bool
    """Whether a memory was written about the document, rather than the document read."""
    session: str
    vector: bytes
    """Of the question, int8."""


def learn(
    connection: apsw.Connection, refs: Sequence[str], at: float, session: str, since: float, *, remembered: bool
) -> None:
    """Link a document to the queries of a session that were asked in vain: the last one, and earlier wordings of it.

    A query was asked in vain if its verdict was not `strong`, or the document was not among the first hits (query
    chains: Radlinski, Joachims, KDD 2005).

    Args:
        connection: to the log, in a transaction.
        refs: all refs the document may have in lists of hits; the shortest one is stored.
        at: seconds since the epoch.
        session: the session in which it was read.
        since: earlier queries do not count, seconds since the epoch.
        remembered: whether a memory was written about it, rather than the document read.
    """
    rows: list[Any] = connection.execute(
        "SELECT id, vector, verdict IS 'strong' AND EXISTS (SELECT 1 FROM listed WHERE asked_id = id AND place <= ?1 "
        "AND ref IN (SELECT value FROM json_each(?2))) FROM asked JOIN question ON asked_id = id "
        "WHERE at BETWEEN ?3 AND ?4 AND session = ?5 ORDER BY at DESC, id DESC",
        (LISTED_FIRST, json.dumps(refs), since, at, session),
    ).fetchall()
    last = array("b", rows[0][1]) if rows else None
    for asked, vector, found in rows:
        if last is None or found or _cosine(last, array("b", vector)) < REWORDED:
            continue
        connection.execute(
            "INSERT INTO lesson VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET at = max(at, excluded.at), remembered = max(remembered, excluded.remembered)",
            (asked, min(refs, key=len, default=""), at, remembered),
        )


class Lessons:
    """Reader of lessons for every search. Thread-safe.

    The connection stays open: a new one reads the schema first, which takes half a millisecond.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._file: tuple[Path, int, int] | None = None
        """The file of the connection: path, device and inode."""

    def latest(self, path: Path, model: str) -> list[Lesson]:
        """Return the latest lessons with the vectors of a model, newest first; none if the log cannot be read."""
        rows = self._rows(
            path,
            "SELECT lesson.asked_id, ref, at, remembered, session, vector "
            "FROM (SELECT * FROM lesson ORDER BY at DESC LIMIT ?) AS lesson "
            "JOIN question ON question.asked_id = lesson.asked_id WHERE model = ?",
            (MOST_LESSONS, model),
        )
        return [Lesson(asked, ref, at, bool(remembered), *rest) for asked, ref, at, remembered, *rest in rows]

    def questions(self, path: Path, asked: Sequence[int]) -> dict[int, str]:
        """Return the wording of queries by id; empty if the log cannot be read."""
        marks = ", ".join("?" * len(asked))
        return dict(self._rows(path, f"SELECT id, subject FROM asked WHERE id IN ({marks})", tuple(asked)))

    def _rows(self, path: Path, statement: str, values: tuple[apsw.SQLiteValue, ...]) -> list[Any]:
        with self._lock:
            try:
                state = path.stat()
                if self._file != (path, state.st_dev, state.st_ino):
                    self._close()
                    self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
                    self._file = path, state.st_dev, state.st_ino
                assert self._connection is not None
                return self._connection.execute(statement, values).fetchall()
            except (OSError, apsw.Error):
                self._close()
                return []

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close(force=True)
        self._connection = self._file = None


def _cosine(one: array[int], other: array[int]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=False))
    return product / sqrt((sum(a * a for a in one) or 1) * (sum(b * b for b in other) or 1))
