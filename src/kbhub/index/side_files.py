"""SQLite files beside the indexes: transformer vectors, a project's query log, and how often memories were used."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

import apsw
import filelock

from kbhub.errors import QueryLogUnavailable
from kbhub.index.sqlite.schema import BUSY_MS, set_aside
from kbhub.values import struct
from kbhub.workspace.files import private_directory

DAMAGED = (apsw.NotADBError, apsw.CorruptError)


@struct(frozen=False)
class SideFile:
    """A SQLite file of one user and many processes; it need not exist.

    kbhub does without it: what cannot be read counts as empty, and a damaged file makes room for a new one.
    """

    path: Path

    busy_ms = BUSY_MS
    tables = ""

    def _rows(self, statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        if not self.path.exists():
            return []
        try:
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                connection.set_busy_timeout(self.busy_ms)
                return connection.execute(statement, values).fetchall()
        except apsw.Error:
            return []

    def _write(self, statement: str, rows: Sequence[tuple[apsw.SQLiteValue, ...]]) -> bool:
        """Run a statement for each row in a transaction; return whether it was written."""
        with suppress(apsw.Error, OSError):
            for _ in range(2):
                try:
                    with self._writing() as connection:
                        connection.executemany(statement, rows)
                    return True
                except (*DAMAGED, apsw.SQLError):  # or with tables that are not ours
                    self._replace_damaged()
        return False

    def _replace_damaged(self) -> None:
        set_aside(self.path)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """Yield a connection in a transaction, which is committed on success."""
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        private_directory(self.path.parent)
        # Created here with the right mode, so that no other user can ever read it.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(self.busy_ms)
            self._prepare(connection)
            yield connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.execute(self.tables)


SUFFIX = ".minilm"


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
        return self._write("INSERT OR REPLACE INTO vector(key, embedding) VALUES (?, ?)", list(vectors.items()))

    def drop(self, keys: Collection[int]) -> bool:
        """Delete the vectors of texts that no chunk has any more; return whether that was possible."""
        return not keys or self._write("DELETE FROM vector WHERE key = ?", [(key,) for key in keys])

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


APPLICATION_ID = 0x6B62716C
"""Marks a SQLite file as a query log of kbhub ("kbql")."""

VERSION = 5
"""Schema version; a file with another one belongs to another version of kbhub and is left alone."""

JOURNAL_BYTES = 1 << 20
"""Size from which the journal is checkpointed. Opening the file reads all of it, and SQLite only truncates it for
connections that stay open, while these are closed after each burst."""

READ_SECONDS = 1800
"""Time after a query within which reading a hit means that it answered: issue "Memories", half an hour."""

ONCE_SECONDS = 300
"""Time within which equal queries of one client count as one: five minutes cover a script that tries several formats
and retries; someone who returns to a question comes back later."""

_TABLES = """
CREATE TABLE asked(
  id INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  text TEXT NOT NULL,
  subject TEXT NOT NULL,
  key TEXT NOT NULL,
  mode TEXT NOT NULL,
  bases TEXT NOT NULL,
  verdict TEXT,
  score REAL,
  client TEXT NOT NULL,
  took REAL
);
CREATE INDEX asked_at ON asked(at);
CREATE INDEX asked_key ON asked(key);
CREATE TABLE listed(
  asked_id INTEGER NOT NULL,
  place INTEGER NOT NULL,
  ref TEXT NOT NULL,
  opened REAL,
  PRIMARY KEY(asked_id, place)
) WITHOUT ROWID;
CREATE INDEX listed_ref ON listed(ref);
CREATE TABLE gap(
  id TEXT PRIMARY KEY,
  key TEXT NOT NULL,
  question TEXT NOT NULL,
  state TEXT NOT NULL,
  since REAL NOT NULL,
  count INTEGER NOT NULL,
  last REAL NOT NULL,
  clients TEXT NOT NULL,
  ref TEXT NOT NULL,
  reopened REAL
) WITHOUT ROWID;
CREATE TABLE state(key TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
"""


class QueryLog(SideFile):
    """The query log of one project.

    All methods raise QueryLogUnavailable if the file cannot be read or written; a damaged file is set aside.
    """

    tables = _TABLES

    def exists(self) -> bool:
        """Return whether anything was ever logged."""
        with self._translated():
            return self.path.exists()

    def lock(self) -> AbstractContextManager[object] | None:
        """Return a held lock against concurrent processing of the log, or None if another process holds it."""
        with self._translated():
            try:
                return filelock.FileLock(self.path.with_suffix(".lock"), mode=0o600).acquire(timeout=0)
            except filelock.Timeout:
                return None

    def write(self, entries: Iterable[Asked | Opening]) -> None:
        """Append queries and readings in one transaction."""
        with self._writing() as connection:
            for entry in entries:
                if isinstance(entry, Opening):
                    # In the latest query that listed the document, preferably one of the same client.
                    connection.execute(
                        "UPDATE listed SET opened = coalesce(opened, ?1) WHERE (asked_id, place) IN ("
                        "SELECT asked_id, place FROM listed JOIN asked ON asked.id = asked_id "
                        "WHERE ref IN (SELECT value FROM json_each(?2)) AND at BETWEEN ?1 - ?3 AND ?1 "
                        "ORDER BY client = ?4 DESC, at DESC, asked.id DESC LIMIT 1)",
                        (entry.at, json.dumps(entry.refs), READ_SECONDS, entry.client),
                    )
                    continue
                connection.execute(
                    "INSERT INTO asked(at, text, subject, key, mode, bases, verdict, score, client, took) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(entry.at, entry.text, entry.subject, entry.key, entry.mode, json.dumps(entry.bases)),
                        *(entry.verdict, entry.score, entry.client, entry.took),
                    ),
                )
                number = connection.last_insert_rowid()
                listed = [(number, place, ref) for place, ref in enumerate(entry.hits, 1)]
                connection.executemany("INSERT INTO listed VALUES (?, ?, ?, NULL)", listed)

    def recent(self, limit: int) -> list[Asked]:
        """Return the latest queries, newest first; a limit of -1 means all."""
        listed = "(SELECT json_group_array(ref) FROM (SELECT ref FROM listed WHERE asked_id = id {} ORDER BY place))"
        rows = self._rows(
            f"SELECT at, text, subject, key, mode, bases, verdict, score, client, {listed.format('')}, "
            f"{listed.format('AND opened')}, took FROM asked ORDER BY at DESC, id DESC LIMIT ?",
            limit,
        )
        queries = []
        for row in rows:
            values: list[Any] = list(row)
            for column in (5, 9, 10):  # lists
                values[column] = tuple(json.loads(values[column]))
            queries.append(Asked(*values))
        return queries

    def judged(self) -> list[Asked]:
        """Return the queries with a hit that was read, oldest first."""
        return [query for query in reversed(self.recent(-1)) if query.opened]

    def distinct(self, limit: int) -> list[Distinct]:
        """Return distinct queries, the most recent first."""
        rows = self._rows(
            "SELECT subject, key, sum(again), max(at), json_group_array(DISTINCT client), sum(verdict IS 'strong'), "
            "sum(verdict IS 'weak'), sum(verdict IS 'none') FROM "
            f"(SELECT subject, key, at, client, verdict, {_AGAIN} FROM asked WHERE key <> '') "
            "GROUP BY key ORDER BY max(at) DESC, key LIMIT ?",
            *(ONCE_SECONDS, limit),
        )
        return [
            Distinct(subject, key, count, last, tuple(sorted(json.loads(clients))), *verdicts)
            for subject, key, count, last, clients, *verdicts in rows
        ]

    def count(self) -> int:
        """Return the number of queries."""
        return sum(number for (number,) in self._rows("SELECT count(*) FROM asked"))

    def verdicts(self, since: float) -> Mapping[str | None, int]:
        """Count the queries since a time by verdict; None for those without a verdict."""
        rows = self._rows("SELECT verdict, count(*) FROM asked WHERE at >= ? GROUP BY verdict", since)
        return {verdict: int(count) for verdict, count in rows}

    def unanswered(self, keys: Sequence[str], since: float) -> int:
        """Count the unanswered queries with some keys since a time."""
        rows = self._rows(
            f"SELECT coalesce(sum(again), 0) FROM (SELECT {_AGAIN} FROM asked "
            "WHERE key IN (SELECT value FROM json_each(?)) AND verdict = 'none' AND at >= ?)",
            *(ONCE_SECONDS, json.dumps(list(keys)), since),
        )
        return int(rows[0][0]) if rows else 0

    def gaps(self) -> list[LoggedGap]:
        """Return the gaps, sorted by id."""
        rows = self._rows(f"SELECT {_GAP} FROM gap ORDER BY id")
        return [LoggedGap(*row[:7], *(tuple(json.loads(row[7])), *row[8:])) for row in rows]

    def put(self, gap: LoggedGap, before: State | None = None) -> bool:
        """Write a gap, unless its state is no longer `before` (None if it is new); return whether it was written."""
        first = gap.id, gap.key, gap.question, gap.state, gap.since, gap.count, gap.last
        values = (*first, json.dumps(list(gap.clients)), gap.ref, gap.reopened)
        with self._writing() as connection:
            current = connection.execute("SELECT state FROM gap WHERE id = ?", (gap.id,)).get
            if current != before:
                return False
            connection.execute(f"INSERT OR REPLACE INTO gap({_GAP}) VALUES ({', '.join('?' * 10)})", values)
        return True

    def moment(self, key: str) -> float:
        """Return a recorded time, seconds since the epoch; 0 if there is none."""
        rows = self._rows("SELECT value FROM state WHERE key = ?", key)
        return float(rows[0][0]) if rows else 0.0

    def note(self, key: str, moment: float) -> None:
        """Record a time, seconds since the epoch."""
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, moment))

    def noted(self, beginning: str) -> list[str]:
        """Return the keys of recorded times that begin so, latest first."""
        rows = self._rows("SELECT key FROM state WHERE substr(key, 1, length(?1)) = ?1 ORDER BY value DESC", beginning)
        return [key for (key,) in rows]

    def forget(self, key: str) -> None:
        """Delete a recorded time."""
        with self._writing() as connection:
            connection.execute("DELETE FROM state WHERE key = ?", (key,))

    def expire(self, before: float, most: int) -> int:
        """Delete queries before a time, and the oldest beyond a number; return how many."""
        if not self.exists():
            return 0
        with self._writing() as connection:
            connection.execute(
                "DELETE FROM asked WHERE at < ? "
                "OR id IN (SELECT id FROM asked ORDER BY at DESC, id DESC LIMIT -1 OFFSET ?)",
                (before, most),
            )
            gone = connection.changes()
            if gone:
                connection.execute("DELETE FROM listed WHERE asked_id NOT IN (SELECT id FROM asked)")
            connection.execute("DELETE FROM gap WHERE state <> 'closed' AND last < ?", (before,))
            connection.execute(_WORDLESS + " AND last < ?", (before,))
        return gone

    def clear(self) -> int:
        """Delete every query and gap so that no trace is left in the file; return the number of queries."""
        if not self.exists():
            return 0
        with self._writing() as connection:
            count = int(str(connection.execute("SELECT count(*) FROM asked").get))
            connection.execute("DELETE FROM asked; DELETE FROM listed; DELETE FROM state")
            connection.execute("DELETE FROM gap WHERE state <> 'closed'")
            connection.execute(_WORDLESS)
        with self._translated(), self._opened() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return count

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self._translated(), self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            # The write is done; if this fails, for example because of a reader, the next process tries again.
            with suppress(OSError, apsw.Error):
                if self.path.with_name(f"{self.path.name}-wal").stat().st_size > JOURNAL_BYTES:
                    connection.set_busy_timeout(0)
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _rows(self, statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        if not self.exists():
            return []
        with self._translated(), self._opened() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise QueryLogUnavailable(
                self.path, f"it was damaged; the damaged file was moved to {set_aside(self.path)}"
            ) from error
        except apsw.Error as error:
            raise QueryLogUnavailable(self.path, str(error)) from error
        except OSError as error:
            raise QueryLogUnavailable(self.path, error.strerror or str(error)) from error

    def _prepare(self, connection: apsw.Connection) -> None:
        # Checkpoint only a long journal, not at every close, which would wait for the disk.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # Concurrent creators of a file would not wait for each other when they set the journal mode.
        made = filelock.FileLock(self.path.with_suffix(".new.lock"), mode=0o600)
        with nullcontext() if self.path.stat().st_size else made:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON").fetchall()
        connection.wal_autocheckpoint(0)
        format_of = "SELECT * FROM pragma_application_id, pragma_user_version"
        if connection.execute(format_of).get == (APPLICATION_ID, VERSION):
            return
        connection.execute("BEGIN IMMEDIATE")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        application, version = connection.execute(format_of).get
        if not tables:
            connection.execute(self.tables)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}").fetchall()
        elif application != APPLICATION_ID:
            raise QueryLogUnavailable(self.path, "it is not a query log of kbhub")
        elif version != VERSION:
            raise QueryLogUnavailable(self.path, f"it has format {version}, but this version of kbhub uses {VERSION}")
        connection.execute("COMMIT")


_AGAIN = "coalesce(at - lag(at) OVER (PARTITION BY key, client ORDER BY at) > ?, 1) AS again"
"""SQL: whether a query counts as a new one."""

_GAP = "id, key, question, state, since, count, last, clients, ref, reopened"

_WORDLESS = "UPDATE gap SET question = '', clients = '[]', ref = '' WHERE state = 'closed'"

State = Literal["open", "answered", "closed"]


@struct
class Asked:
    """A query and its result."""

    at: float
    """Seconds since the epoch."""
    text: str
    subject: str
    """The text on one line, without filters."""
    key: str
    """Normalised key of equivalent queries."""
    mode: str
    bases: tuple[str, ...]
    verdict: str | None
    score: float | None
    """Score of the best hit; None without hits."""
    client: str
    hits: tuple[str, ...]
    """Refs, best first."""
    opened: tuple[str, ...] = ()
    took: float | None = None
    """Seconds that the search took; None if that was not measured."""


@struct
class Opening:
    """An event: a document was read."""

    at: float
    refs: tuple[str, ...]
    """Refs the read one may mean; any of them."""
    client: str


@struct
class Distinct:
    """Queries with the same key."""

    subject: str
    key: str
    count: int
    """How often they were asked; repetitions by one client within `ONCE_SECONDS` count once."""
    last: float
    clients: tuple[str, ...]
    strong: int
    weak: int
    none: int


@struct
class LoggedGap:
    """A recurring question without an answer."""

    id: str
    key: str
    """Hash of the query it was found by."""
    question: str
    """Empty once the queries have expired."""
    state: State
    since: float
    """Time of the last change of state, seconds since the epoch."""
    count: int = 0
    last: float = 0.0
    clients: tuple[str, ...] = ()
    ref: str = ""
    reopened: float | None = None


@struct
class Use:
    """How often and when a memory was used."""

    uses: int
    last: float
    """Seconds since the epoch."""


class UseCounts(SideFile):
    """Use counts by place (a folder of memories) and memory id."""

    tables = """
CREATE TABLE IF NOT EXISTS use(
  place TEXT NOT NULL,
  memory TEXT NOT NULL,
  uses INTEGER NOT NULL,
  last REAL NOT NULL,
  PRIMARY KEY(place, memory)
) WITHOUT ROWID
"""

    def all(self, place: str) -> Mapping[str, Use]:
        """Return the uses of a place's memories by id; empty if the file cannot be read."""
        rows = self._rows("SELECT memory, uses, last FROM use WHERE place = ?", place)
        return {str(memory): Use(int(str(uses)), float(str(last))) for memory, uses, last in rows}

    def count(self, place: str, memories: Iterable[str], now: float) -> bool:
        """Count one use of each memory at a time in seconds since the epoch; return whether it was written."""
        return self._write(
            "INSERT INTO use VALUES (?, ?, 1, ?) "
            "ON CONFLICT DO UPDATE SET uses = uses + 1, last = max(last, excluded.last)",
            [(place, memory, now) for memory in sorted(set(memories))],
        )

    def put(self, place: str, uses: Mapping[str, Use]) -> bool:
        """Merge imported uses; the larger count and the later time win."""
        return self._write(
            "INSERT INTO use VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET uses = max(uses, excluded.uses), last = max(last, excluded.last)",
            [(place, memory, use.uses, use.last) for memory, use in uses.items()],
        )

    def forget(self, place: str, memories: Iterable[str]) -> bool:
        """Delete the counts of deleted memories."""
        rows = [(place, memory) for memory in memories]
        return not self.path.exists() or self._write("DELETE FROM use WHERE place = ? AND memory = ?", rows)
