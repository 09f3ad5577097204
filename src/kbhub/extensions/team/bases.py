"""The bases of a database: their list, the rights of roles, and publishing; what is refused is an EngineUnavailable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, errors
from psycopg.rows import dict_row
from psycopg.sql import Identifier

from kbhub.errors import EngineUnavailable, UsageError
from kbhub.extensions.team import schema
from kbhub.extensions.team.server import Server, check_version, schema_version
from kbhub.values import struct

PATIENCE_MS = 3_000
"""How long a publisher waits, in ms: the server may take a moment to notice that another one was killed."""

_RIGHT_NAMES = {number: name for name, number in schema.RIGHTS.items()}

INIT = "kbhub team init"
"""Name of the connection that creates the schema."""

WAIT_MS = 10_000
"""How long to wait for another writer of a base before a memory is refused, in ms."""


def init(server: Server) -> tuple[int, bool]:
    """Create the schema of a database; return its version before (0 for none), and whether sizes are hidden."""
    with server.opened(INIT) as connection:
        if version := schema_version(connection):
            check_version(server.name, version)
        try:
            with connection.transaction():
                connection.execute(schema.CLOSING if version else schema.creation_sql())
        except psycopg.Error:
            if schema_version(connection) != schema.VERSION:  # else another one did it at the same time
                raise
            version = schema.VERSION
        return version, bool(connection.execute(schema.CLOSED).fetchone()[0])  # type: ignore[index]


def init_sql(server: Server | None = None, admin: str | None = None) -> str:
    """Return the SQL that `init` runs, without a server for a new database; `admin` may create bases from then on."""
    if server:
        with server.opened(INIT) as connection:
            if version := schema_version(connection):
                check_version(server.name, version)
                return "-- Nothing to do.\n"
    return f"BEGIN;\n{schema.creation_sql(admin)}COMMIT;\n"


def shared_bases(server: Server) -> list[schema.SharedBase]:
    """Return the bases that the role may read, by name."""
    statement = (
        "SELECT name, description, memories, rights, documents, meta->>'synced' AS published, "
        "meta->>'publisher' AS publisher FROM kbhub.bases() ORDER BY name"
    )
    with server.reading() as connection, server.deadline(connection):
        rows = connection.cursor(row_factory=dict_row).execute(statement).fetchall()
    return [schema.SharedBase(**{**row, "rights": _RIGHT_NAMES[row["rights"]]}) for row in rows]


@contextmanager
def changing(
    server: Server, name: str, who: str, *, create: bool = False, wait: bool = False, undo: bool = False
) -> Iterator[tuple[Connection[Any], int]]:
    """Hold a base against other writers and yield (connection, its number), in a transaction that `undo` rolls back."""
    with server.writing(who) as connection, connection.transaction(force_rollback=undo):
        connection.execute("SET LOCAL search_path = pg_catalog")
        found = opened(connection, name)
        number = _created(server, connection, name) if create and not found else _number(server, name, found)
        connection.execute(f"SET LOCAL lock_timeout = {WAIT_MS if wait else PATIENCE_MS}")
        try:
            connection.execute("SELECT kbhub.hold(%s)", (number,))
        except errors.LockNotAvailable:
            with server.connect() as other:
                row = other.execute("SELECT role, application FROM kbhub.holder(%s)", (number,)).fetchone()
            by = f"{row[1] or 'someone'} (role {row[0]})" if row else "someone else"
            raise EngineUnavailable(server.name, f"{name!r} is being written by {by}", "Try again later.") from None
        connection.execute("SET LOCAL lock_timeout = 0")
        yield connection, number


@struct
class OpenedBase:
    """A base that the role may read."""

    number: int
    memories: bool
    """Whether agents may remember in it."""
    meta: dict[str, Any]


def opened(connection: Connection[Any], name: str) -> OpenedBase | None:
    """Look up a base by name; None if the role may read none of that name."""
    row = connection.execute("SELECT base_id, memories, meta FROM kbhub.open(%s)", (name,)).fetchone()
    return OpenedBase(row[0], row[1], row[2] or {}) if row else None


def _created(server: Server, connection: Connection[Any], name: str) -> int:
    try:
        return int(connection.execute("SELECT kbhub.create_base(%s)", (name,)).fetchone()[0])  # type: ignore[index]
    except errors.UniqueViolation as error:
        reason = f"the name {name!r} is taken by a base that you may not read"
        raise EngineUnavailable(server.name, reason, "Publish under another name, or ask its admin.") from error
    except errors.InsufficientPrivilege as error:
        reason = f"there is no base {name!r} that you may write, and you may not create one"
        remedy = "An administrator can grant that with `kbhub team grant URL ROLE admin`."
        raise EngineUnavailable(server.name, reason, remedy) from error


def _number(server: Server, name: str, found: OpenedBase | None) -> int:
    """Return the number of a base; one that does not exist and one that is hidden look the same."""
    if found is None:
        remedy = "`kbhub team publish --status --to URL` lists the bases that you may read."
        raise EngineUnavailable(server.name, f"there is no base {name!r} that you may read", remedy)
    return found.number


def remove(server: Server, name: str) -> int:
    """Remove a base with all its documents; return how many there were."""
    with changing(server, name, "kbhub team publish --remove") as (connection, number):
        return int(connection.execute("SELECT kbhub.remove_base(%s)", (number,)).fetchone()[0])  # type: ignore[index]


def describe(server: Server, name: str, *, description: str | None = None, memories: bool | None = None) -> None:
    """Change a base's description, or whether agents may remember in it; create an empty base if there is none."""
    with changing(server, name, "kbhub team publish", create=memories is True) as (connection, number):
        others = "SELECT FROM kbhub.document_rows(%s) WHERE kind <> 'memory' LIMIT 1"
        if memories and connection.execute(others, (number,)).fetchone() is not None:
            reason = f"{name!r} contains documents of a folder, and memories need a base of their own"
            raise EngineUnavailable(server.name, reason, "Name another base with #NAME.")
        connection.execute("SELECT kbhub.describe(%s, %s, %s)", (number, description, memories))


def grant(server: Server, role: str, rights: schema.Rights, name: str | None = None) -> None:
    """Grant a role rights on a base, or without a name the right to create bases, which only an `admin` can have."""
    if name is None and rights != "admin":
        raise UsageError(
            "Without a base, only the right `admin` can be granted, which allows creating bases. Name the base with "
            "--base."
        )
    with _ruling(server, name) as (connection, number):
        try:
            connection.execute("SELECT kbhub.grant_rights(%s, %s, %s)", (number, role, schema.RIGHTS[rights]))
        except errors.UndefinedObject as error:
            quoted = Identifier(role).as_string()
            remedy = (
                f"An administrator of the server creates a group with `CREATE ROLE {quoted};` and adds members with "
                f"`GRANT {quoted} TO …;`, or creates a person's role with `CREATE ROLE {quoted} LOGIN;`."
            )
            raise EngineUnavailable(server.name, f"there is no role {quoted}", remedy) from error


def revoke(server: Server, role: str, name: str | None = None) -> bool:
    """Take a role's rights on a base; return whether it had any. Raises as `grant` does."""
    with _ruling(server, name) as (connection, number):
        row = connection.execute("SELECT kbhub.revoke_rights(%s, %s)", (number, role)).fetchone()
        return bool(row and row[0])


def members(server: Server, name: str | None = None) -> list[schema.Member]:
    """Return the roles with rights on a base, or that may create bases. Raises as `grant` does."""
    with _ruling(server, name) as (connection, number):
        rows = connection.execute("SELECT role, rights FROM kbhub.members(%s)", (number,)).fetchall()
    return [schema.Member(role=role, rights=_RIGHT_NAMES[rights]) for role, rights in rows]


@contextmanager
def _ruling(server: Server, name: str | None) -> Iterator[tuple[Connection[Any], int]]:
    with server.writing("kbhub team") as connection, connection.transaction():
        yield connection, schema.EVERY_BASE if name is None else _number(server, name, opened(connection, name))
