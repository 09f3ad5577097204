"""Connections to a database of shared bases: opened on first use, pooled, and given up on after a deadline."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Any

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from kbhub.errors import EngineUnavailable
from kbhub.extensions.team.schema import VERSION
from kbhub.values import struct
from kbhub.workspace.config import shown_url

MOST_CONNECTIONS = 4
"""Connections of a process to one database, one per concurrent read (`hub.SharedState`)."""

IDLE_SECONDS = 60.0
"""After which an idle connection is given back: fifty people with some processes each share what the server has."""

LEAST_SECONDS = 2

GRACE_SECONDS = 1.0
"""Seconds after the deadline of a statement at which its connection is cut: the server did not keep the deadline."""

AGAIN_SECONDS = 5.0
"""Seconds for which a server that could not be reached is not tried again: each try can take the whole deadline."""

WATCHED_SECONDS = 0.25
"""How often connections are looked at for overdue statements."""

_CONNECTED: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
"""Nothing is prepared: a pooler between here and the server may give each transaction another session; and a plan for
any list of ids reads whole tables."""

LEAST_VERSION = 150_000
"""Oldest usable PostgreSQL, as `server_version_num`."""

LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


@struct
class DatabaseSession:
    """The role and its rights in a database."""

    role: str
    version: str
    tls: str | None
    """Version of TLS; None without."""
    now: float
    """The server's clock, seconds since the epoch."""
    local: bool


logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what it warns of is told as errors here


class Server:
    """One database with shared bases, as one role. Thread-safe.

    The URL has no password; `timeout` is in seconds, for a connection and for each statement; `env` are environment
    variables, of which libpq reads some from its own process.
    """

    def __init__(self, url: str, timeout: float, env: Mapping[str, str]) -> None:
        self.url, self.timeout, self._env = url, timeout, env
        self._lock, self._local = threading.Lock(), threading.local()
        self._pool: ConnectionPool[Connection[Any]] | None = None
        self._failed: tuple[float, EngineUnavailable] | None = None
        """When the last try failed (monotonic), and why."""
        self._busy: dict[Connection[Any], float] = {}
        """Connection → when its statement is overdue (monotonic)."""
        self._watch: threading.Thread | None = None

    @contextmanager
    def reading(self) -> Iterator[Connection[Any]]:
        """Yield a connection in a read-only transaction that sees one state of the database."""
        if (held := getattr(self._local, "connection", None)) is not None:
            yield held  # one state of all bases that a thread reads at once, and one connection however many they are
            return
        with self._begun() as connection:
            self._local.connection, self._local.failure = connection, None
            try:
                yield connection
            finally:
                self._local.connection = None
                with suppress(EngineUnavailable), self.deadline(connection):
                    connection.execute("COMMIT")

    @contextmanager
    def deadline(self, connection: Connection[Any]) -> Iterator[None]:
        """Run a statement; cut the connection if no answer comes in time; raise the first error of the transaction."""
        self._busy[connection] = time.monotonic() + self.timeout + GRACE_SECONDS
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # a statement of ours is wrong
                raise
            if (first := getattr(self._local, "failure", None)) is not None:
                raise first from error
            fault = self.fault(error)
            if time.monotonic() > self._busy[connection]:
                fault = self._failure(EngineUnavailable(self.name, f"it did not answer within {self.timeout:g} s"))
                self.close()
            self._local.failure = fault
            raise fault from error
        finally:
            self._busy.pop(connection, None)

    @contextmanager
    def writing(self, application: str) -> Iterator[Connection[Any]]:
        """Yield a separate connection, listed as `application`, without a deadline and in no transaction."""
        with self.opened(application) as connection:
            if connection.info.server_version < LEAST_VERSION:
                major = connection.info.server_version // 10_000
                reason = f"it is PostgreSQL {major}, but kbhub requires 15 or newer"
                raise EngineUnavailable(self.name, reason, "Upgrade the server.")
            check_version(self.name, schema_version(connection))
            yield connection

    @contextmanager
    def opened(self, application: str) -> Iterator[Connection[Any]]:
        """Yield a connection to a database of any version."""
        with closing(self.connect(application)) as connection:
            try:
                yield connection
            except psycopg.Error as error:
                raise self.fault(error) from error

    @property
    def name(self) -> str:
        """The database for people: the URL without options."""
        return shown_url(self.url)

    def connect(self, application: str = "kbhub") -> Connection[Any]:
        """Open a connection, whatever the database holds."""
        try:
            info, seconds = self._info(), max(LEAST_SECONDS, math.ceil(self.timeout))
            return psycopg.connect(info, **_CONNECTED, application_name=application, connect_timeout=seconds)
        except psycopg.Error as error:
            raise self.fault(error) from error
        except UnicodeError as error:
            raise EngineUnavailable(self.name, "its host name is invalid", "Fix the URL.") from error

    def session(self) -> DatabaseSession:
        """Open a connection and return its role and rights, for `doctor`."""
        with self.writing("kbhub doctor") as connection:
            query = "SELECT current_user, extract(epoch FROM clock_timestamp()), current_setting('server_version')"
            role, now, version = connection.execute(query).fetchone() or ("", 0, "")
            tls = (
                connection.pgconn.ssl_in_use
                and connection.execute("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
            )
            local = all(is_local(host) for host in str(connection.info.host or "").split(","))
            return DatabaseSession(str(role), version.split()[0], tls[0] if tls else None, float(now), local)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool:
            pool.close(timeout=0)

    def fault(self, error: psycopg.Error) -> EngineUnavailable:
        """Return an error that explains a failure in words."""
        return EngineUnavailable(self.name, *reason(error, self.timeout))

    def _info(self) -> str:
        try:
            return connection_info(self.url, self._env)
        except (psycopg.Error, UnicodeError) as error:
            reason = f"its URL is malformed ({' '.join(str(error).split())})"
            raise EngineUnavailable(self.name, reason, "Fix the URL.") from error

    @contextmanager
    def _begun(self) -> Iterator[Connection[Any]]:
        """Take a connection from the pool and begin a read-only transaction."""
        begin = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog; "
            f"SET LOCAL statement_timeout = {round(self.timeout * 1000)}"
        )
        for left in reversed(range(MOST_CONNECTIONS + 1)):
            pool = self._opened_pool()
            try:
                connection = pool.getconn(timeout=self.timeout)
            except PoolTimeout:
                self.close()
                raise self._failure(EngineUnavailable(self.name, f"no connection within {self.timeout:g} s")) from None
            try:
                self._local.failure = None
                try:
                    with self.deadline(connection):
                        connection.execute(begin)
                except EngineUnavailable:
                    # A server that was started anew has closed the connections that were idle here.
                    if connection.closed and left and self._pool is pool:
                        continue
                    raise
                yield connection
                return
            finally:
                pool.putconn(connection)

    def _opened_pool(self) -> ConnectionPool[Connection[Any]]:
        with self._lock:
            if self._pool:
                return self._pool
            if self._failed and time.monotonic() - self._failed[0] < AGAIN_SECONDS:
                raise self._failed[1]
            # The first connection is made here: a pool says only that it has none, not why.
            try:
                with self.writing("kbhub"):
                    pass
            except EngineUnavailable as error:
                raise self._failure(error) from None
            self._failed = None
            self._pool = ConnectionPool(
                self._info(),
                kwargs={**_CONNECTED, "application_name": "kbhub", "connect_timeout": LEAST_SECONDS},
                min_size=0,
                max_size=MOST_CONNECTIONS,
                max_idle=IDLE_SECONDS,
                reconnect_timeout=self.timeout,
                open=True,
                name=self.name,
            )
            self._watch = threading.Thread(target=self._cut_overdue, args=(self._pool,), daemon=True)
            self._watch.start()
            return self._pool

    def _failure(self, error: EngineUnavailable) -> EngineUnavailable:
        self._failed = time.monotonic(), error
        return error

    def _cut_overdue(self, pool: ConnectionPool[Connection[Any]]) -> None:
        while self._pool is pool:
            time.sleep(WATCHED_SECONDS)
            now = time.monotonic()
            for connection, due in list(self._busy.items()):
                if now > due:
                    with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as wire:
                        wire.shutdown(SHUT_RDWR)


def check_version(name: str, version: int) -> None:
    """Raise EngineUnavailable unless a database, named so, has this version of the schema."""
    if not version:
        remedy = f"`kbhub team init {name}` by an administrator brings it up."
        raise EngineUnavailable(name, "the database was not created for kbhub", remedy)
    if version != VERSION:
        reason = f"the database has schema {version}, but this version of kbhub uses {VERSION}"
        remedy = "Upgrade kbhub." if version > VERSION else "Let an administrator drop it."
        raise EngineUnavailable(name, reason, remedy)


def schema_version(connection: Connection[Any]) -> int:
    """Return the number of kbhub's schema in a database; 0 if it has none."""
    if connection.execute("SELECT to_regprocedure('kbhub.version()')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT kbhub.version()").fetchone()
    return int(row[0]) if row else 0


def connection_info(url: str, env: Mapping[str, str]) -> str:
    """Return the connection string of a URL; TLS is verified unless said otherwise or the server is local."""
    info = conninfo_to_dict(url)
    hosts = str(info.get("host") or env.get("PGHOST") or "").split(",")
    said = "sslmode" in info or "PGSSLMODE" in env or "service" in info or "PGSERVICE" in env
    if not said and not all(is_local(host) for host in hosts):
        info["sslmode"] = "verify-full"
        if "sslrootcert" not in info and "PGSSLROOTCERT" not in env:
            info["sslrootcert"] = "system"
    return make_conninfo(**{key: str(value) for key, value in info.items() if value is not None})


def is_local(host: str) -> bool:
    """Return whether a host is this machine: a loopback address, or a folder with a socket."""
    return host in LOOPBACK or host.startswith(("/", "@"))


def reason(error: psycopg.Error, timeout: float) -> tuple[str, str]:
    """Return why a statement or connection failed, and what to do; `timeout` is the deadline in seconds."""
    said = " ".join(str(error.diag.message_primary or error).rpartition("FATAL: ")[2].split())
    if isinstance(error, errors.InsufficientPrivilege) and not said.startswith(("permission", "new row", "must be")):
        return said, ""  # one of our own functions says who may not do what
    for kinds, why, remedy in _REASONS:
        if isinstance(error, kinds):
            return why.format(timeout=timeout), remedy
    for words, why, remedy in _BEFORE_LOGIN:
        if words in said.lower():
            return why.format(timeout=timeout, said=said.rstrip(".")), remedy
    return said.rstrip("."), ""


_LOGIN = "Put the password in ~/.pgpass, a service file or PGPASSWORD."

_REASONS: tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], str, str], ...] = (
    (errors.QueryCanceled, "it did not answer within {timeout:g} s", "Raise `timeout`, or try again later."),
    (errors.InsufficientPrivilege, "the role may not do that", "An admin of the base can grant it."),
    ((errors.DiskFull, errors.OutOfMemory), "its disk or memory is full", "Ask whoever runs the server."),
    (errors.ReadOnlySqlTransaction, "it is a read-only replica", "Name the primary server."),
    (errors.TooManyConnections, "it has no free connection", "Try again later."),
    (errors.AdminShutdown, "it is being shut down", "Try again later."),
    (errors.CannotConnectNow, "it is starting up or shutting down", "Try again later."),
    (errors.SerializationFailure, "the data being read is no longer available on this replica", "Try again."),
)

_BEFORE_LOGIN = (
    ("does not exist", "{said}", "Create it, or fix the URL."),
    ("password authentication failed", "it rejected the password", _LOGIN),
    ("no password supplied", "it asks for a password", _LOGIN),
    ("connection refused", "nothing listens there", "Start the server, or fix the URL."),
    ("timeout expired", "no connection within {timeout:g} s", "Check the network, or try again later."),
    ("could not translate host name", "the host name is unknown", "Fix the URL, or connect to the network."),
    ("failed to resolve host", "the host name is unknown", "Fix the URL, or connect to the network."),
    ("server does not support ssl", "it does not support TLS", "Enable TLS, or add `?sslmode=disable` to the URL."),
    (
        "certificate verify failed",
        "its TLS certificate cannot be verified",
        "Set its root certificate with `?sslrootcert=FILE`.",
    ),
    ("no such file", "no server listens on that socket", "Start the server, or fix the URL."),
    ("server closed the connection", "the connection was cut", "Try again."),
    ("starting up", "it is starting up", "Try again later."),
    ("shutting down", "it is being shut down", "Try again later."),
)
