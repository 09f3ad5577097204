"""What was asked in a project, and what became of recurring questions: a SQLite file in the user's data.

Not derived from anything, so it never lies in the cache. Any number of processes write at once; a commit does not wait
for the disk, so a power failure may take the last moments with it, and the end of a process nothing that was written.
"""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import apsw

from kbhub.errors import QueryLogUnavailable
from kbhub.index.schema import BUSY_MS, set_aside
from kbhub.later import filelock
from kbhub.places import private_directory
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

APPLICATION_ID = 0x6B62716C
"""Marks a SQLite file as a query log of kbhub ("kbql")."""

VERSION = 1
"""Of the tables; a file with a higher one is a later version's and is left alone."""

JOURNAL_BYTES = 1 << 20
"""Length of the journal from which it is taken in. Whoever opens the file reads all of it, and only who takes all of it
in makes it short again: SQLite does so for connections that stay open, and these are closed after each burst."""

READ_SECONDS = 1800
"""Seconds after a query within which reading a hit says that it answered: issue "Memories", half an hour."""

ONCE_SECONDS = 300
"""Seconds within which equal queries of one client are one asking: five minutes outlast a script that asks in several
formats, a retry and a second look, and whoever comes back to a question comes back later."""

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
  client TEXT NOT NULL
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
CREATE TABLE topic(
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  question TEXT NOT NULL,
  state TEXT NOT NULL,
  since REAL NOT NULL,
  count INTEGER NOT NULL,
  last REAL NOT NULL,
  clients TEXT NOT NULL,
  ref TEXT NOT NULL,
  memory TEXT NOT NULL,
  digest TEXT NOT NULL,
  reopened REAL
) WITHOUT ROWID;
CREATE TABLE state(key TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
"""

Kind = Literal["gap", "promotion"]
State = Literal["open", "answered", "closed", "promoted", "withdrawn", "forgotten", "own"]


@struct
class Asked:
    """A query and what it found."""

    at: float
    """Seconds since the epoch."""
    text: str
    subject: str
    """What of the text has a meaning: without filters, on one line."""
    key: str
    """Equal for texts that differ in nothing that matters."""
    mode: str
    bases: tuple[str, ...]
    verdict: str | None
    score: float | None
    """Of the best hit; none if nothing was found."""
    client: str
    hits: tuple[str, ...]
    """Refs, best first."""
    opened: tuple[str, ...] = ()
    """Those of them that were read afterwards."""


@struct
class Opening:
    """A document was read."""

    at: float
    refs: tuple[str, ...]
    """What its ref can mean; any of them."""
    client: str


@struct
class Distinct:
    """Queries with one key."""

    subject: str
    key: str
    count: int
    """How often they were asked: a client's within `ONCE_SECONDS` of each other count once."""
    last: float
    """Seconds since the epoch."""
    clients: tuple[str, ...]
    strong: int
    weak: int
    none: int


@struct
class Topic:
    """A recurring question: a gap, or one whose answer was promoted to a memory."""

    id: str
    kind: Kind
    key: str
    """A hash of the query it was found by."""
    question: str
    """Empty once the queries are too old to be kept."""
    state: State
    since: float
    """When the state came about, seconds since the epoch."""
    count: int = 0
    last: float = 0.0
    clients: tuple[str, ...] = ()
    ref: str = ""
    """What answers."""
    memory: str = ""
    """Id of the promoted memory."""
    digest: str = ""
    """Of what the ref led to when that was last looked at."""
    reopened: float | None = None
    """When a gap that was answered was opened again."""


class QueryLog:
    """The log of one project.

    Every method raises QueryLogUnavailable if the file cannot be read or written; one that is damaged is set aside.

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Whether anything was ever written to it."""
        with self._translated():
            return self.path.exists()

    def lock(self) -> AbstractContextManager[object] | None:
        """Keep other processes from looking through it, until what is given is left; none if one does already."""
        with self._translated():
            try:
                return filelock.FileLock(self.path.with_suffix(".lock"), mode=0o600).acquire(timeout=0)
            except filelock.Timeout:
                return None

    def write(self, entries: Iterable[Asked | Opening]) -> None:
        """Append queries and readings, all or none."""
        with self._writing() as connection:
            for entry in entries:
                if isinstance(entry, Asked):
                    _append(connection, entry)
                else:
                    _open(connection, entry)

    def recent(self, limit: int, since: float = float("-inf")) -> list[Asked]:
        """Give the latest queries, newest first.

        Args:
            limit: how many; -1 for all.
            since: none from before, seconds since the epoch.
        """
        listed = "(SELECT json_group_array(ref) FROM (SELECT ref FROM listed WHERE asked_id = id {} ORDER BY place))"
        rows = self._rows(
            f"SELECT at, text, subject, key, mode, bases, verdict, score, client, {listed.format('')}, "
            f"{listed.format('AND opened')} FROM asked WHERE at >= ? ORDER BY at DESC, id DESC LIMIT ?",
            *(since, limit),
        )
        return [_asked(row) for row in rows]

    def judged(self) -> list[Asked]:
        """Give the queries of which a hit was read, oldest first."""
        return [one for one in reversed(self.recent(-1)) if one.opened]

    def distinct(self, limit: int) -> list[Distinct]:
        """Give what was asked, equal queries as one, the latest asked first."""
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
        """Count the queries."""
        return int(self._rows("SELECT count(*) FROM asked", default=((0,),))[0][0])

    def verdicts(self, since: float) -> Mapping[str | None, int]:
        """Count the queries since a moment by verdict; none stands for those that were not judged."""
        rows = self._rows("SELECT verdict, count(*) FROM asked WHERE at >= ? GROUP BY verdict", since)
        return {verdict: int(count) for verdict, count in rows}

    def unanswered(self, keys: Sequence[str], since: float) -> int:
        """Count the askings of some keys since a moment that nothing answered."""
        rows = self._rows(
            f"SELECT coalesce(sum(again), 0) FROM (SELECT {_AGAIN} FROM asked "
            "WHERE key IN (SELECT value FROM json_each(?)) AND verdict = 'none' AND at >= ?)",
            *(ONCE_SECONDS, json.dumps(list(keys)), since),
        )
        return int(rows[0][0]) if rows else 0

    def topics(self, kind: Kind) -> list[Topic]:
        """Give the topics of a kind, by id."""
        rows = self._rows(f"SELECT {_TOPIC} FROM topic WHERE kind = ? ORDER BY id", kind)
        return [Topic(*row[:8], *(tuple(json.loads(row[8])), *row[9:])) for row in rows]

    def put(self, topic: Topic, before: State | None = None) -> bool:
        """Write a topic, unless its state is not any more what the caller takes it for.

        Args:
            topic: as it is to be.
            before: its state so far; none if it is new.

        Returns:
            Whether it was written.
        """
        values = (
            *(topic.id, topic.kind, topic.key, topic.question, topic.state, topic.since, topic.count, topic.last),
            *(json.dumps(list(topic.clients)), topic.ref, topic.memory, topic.digest, topic.reopened),
        )
        with self._writing() as connection:
            found = connection.execute("SELECT state FROM topic WHERE id = ?", (topic.id,)).get
            if found != before:
                return False
            connection.execute(f"INSERT OR REPLACE INTO topic({_TOPIC}) VALUES ({', '.join('?' * 13)})", values)
        return True

    def moment(self, key: str) -> float:
        """Give a moment that was noted, seconds since the epoch; 0 if none was."""
        rows = self._rows("SELECT value FROM state WHERE key = ?", key)
        return float(rows[0][0]) if rows else 0.0

    def note(self, key: str, moment: float) -> None:
        """Note a moment, seconds since the epoch."""
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, moment))

    def expire(self, before: float, most: int) -> int:
        """Forget what was asked before a moment, and the oldest queries above a number; gives how many queries.

        Of questions that nobody asked since, only what must not come back is kept, without its words.
        """
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
            connection.execute(
                "DELETE FROM topic WHERE state IN ('open', 'answered', 'withdrawn') AND last < ?", (before,)
            )
            connection.execute(_WORDLESS + " AND last < ?", (before,))
        return gone

    def clear(self) -> int:
        """Forget every query and gap, so that nothing of them is left in the file; gives how many queries."""
        if not self.exists():
            return 0
        with self._writing() as connection:
            count = int(str(connection.execute("SELECT count(*) FROM asked").get))
            connection.execute("DELETE FROM asked; DELETE FROM listed; DELETE FROM state")
            connection.execute("DELETE FROM topic WHERE state IN ('open', 'answered', 'withdrawn')")
            connection.execute(_WORDLESS)
        with self._translated(), closing(self._opened()) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return count

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """Give a connection in a transaction, which is committed if nothing is raised."""
        with self._translated(), closing(self._opened()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            self._shorten_journal(connection)

    def _shorten_journal(self, connection: apsw.Connection) -> None:
        # What was to be written has been; who comes next tries again, also where somebody reads now.
        with suppress(OSError, apsw.Error):
            if self.path.with_name(f"{self.path.name}-wal").stat().st_size > JOURNAL_BYTES:
                connection.set_busy_timeout(0)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _rows(self, statement: str, *values: apsw.SQLiteValue, default: Sequence[Any] = ()) -> Sequence[Any]:
        if not self.exists():
            return default
        with self._translated(), closing(self._opened()) as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise QueryLogUnavailable(self.path, f"it was damaged and lies in {set_aside(self.path)} now") from error
        except apsw.Error as error:
            raise QueryLogUnavailable(self.path, str(error)) from error
        except OSError as error:
            raise QueryLogUnavailable(self.path, error.strerror or str(error)) from error

    def _opened(self) -> apsw.Connection:
        if self.path.exists() and self.path.stat().st_size:
            return self._connected()
        private_directory(self.path.parent)
        # Two processes that make one file at the same time would not wait for each other when its journal is chosen.
        with filelock.FileLock(self.path.with_suffix(".new.lock"), mode=0o600):
            # Made here with the right mode, so that no other user reads it even for a moment.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            return self._connected()

    def _connected(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_MS)
            # The journal is taken in when it is long, not by every process that ends: that would wait for the disk.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON").fetchall()
            connection.wal_autocheckpoint(0)
            self._check(connection)
        except BaseException:
            connection.close(force=True)
            raise
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        application, version = (connection.execute(f"PRAGMA {name}").get for name in ("application_id", "user_version"))
        if (application, version) == (APPLICATION_ID, VERSION):
            return
        connection.execute("BEGIN IMMEDIATE")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        application, version = (connection.execute(f"PRAGMA {name}").get for name in ("application_id", "user_version"))
        if not tables:
            connection.execute(_TABLES)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}").fetchall()
        elif application != APPLICATION_ID:
            raise QueryLogUnavailable(self.path, "it is not a query log of kbhub")
        elif version != VERSION:
            raise QueryLogUnavailable(self.path, f"it has format {version}, this version of kbhub uses {VERSION}")
        connection.execute("COMMIT")


_AGAIN = "coalesce(at - lag(at) OVER (PARTITION BY key, client ORDER BY at) > ?, 1) AS again"
"""Whether a query is an asking of its own."""

_TOPIC = "id, kind, key, question, state, since, count, last, clients, ref, memory, digest, reopened"

_WORDLESS = "UPDATE topic SET question = '', clients = '[]', ref = '' WHERE state IN ('closed', 'forgotten')"


def _append(connection: apsw.Connection, one: Asked) -> None:
    connection.execute(
        "INSERT INTO asked(at, text, subject, key, mode, bases, verdict, score, client) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (one.at, one.text, one.subject, one.key, one.mode, json.dumps(one.bases), one.verdict, one.score, one.client),
    )
    number = connection.last_insert_rowid()
    connection.executemany(
        "INSERT INTO listed VALUES (?, ?, ?, NULL)", [(number, place, ref) for place, ref in enumerate(one.hits, 1)]
    )


def _open(connection: apsw.Connection, one: Opening) -> None:
    """Note with the latest query that listed a document that it was read; with one of the same client's, if any did."""
    connection.execute(
        "UPDATE listed SET opened = coalesce(opened, ?1) WHERE (asked_id, place) IN ("
        "SELECT asked_id, place FROM listed JOIN asked ON asked.id = asked_id "
        "WHERE ref IN (SELECT value FROM json_each(?2)) AND at BETWEEN ?1 - ?3 AND ?1 "
        "ORDER BY client = ?4 DESC, at DESC, asked.id DESC LIMIT 1)",
        (one.at, json.dumps(one.refs), READ_SECONDS, one.client),
    )


def _asked(row: Sequence[Any]) -> Asked:
    at, text, subject, key, mode, bases, verdict, score, client, hits, opened = row
    return Asked(
        *(at, text, subject, key, mode, tuple(json.loads(bases)), verdict, score, client),
        hits=tuple(json.loads(hits)),
        opened=tuple(json.loads(opened)),
    )
