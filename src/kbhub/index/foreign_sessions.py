"""Read the sessions in opencode's SQLite database as events like Copilot CLI's, and copy a project's to logs, one each.

A file is a document, so the copies are what is indexed. They lie in kbhub's data directory.

Sources, read in November 2026: a database that opencode 1.18 wrote, its types (`@opencode-ai/sdk`) for the tables of
version 2 (`session_v2`, `session_message`), and reports of their columns. Before 1.2, sessions were JSON files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from kbhub.documents.sessions import LINE_BYTES, TOOL_CHARACTERS
from kbhub.types import Base
from kbhub.values import struct
from kbhub.workspace.files import SESSIONS, open_regular, private_directory, write_atomically

SECONDS = 20.0
"""Time after which a database is given up: a view in a crafted one may never end."""

LATEST = 1 << 42
"""The latest time that is taken for one, in milliseconds: a file has none that is much later."""

MOST_OUTPUT = 4 * TOOL_CHARACTERS
"""Characters of what a tool said: its log is not to be as long as a build's."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""An id that may be the name of a file."""

_TABLES = {
    "session_v2": (
        "session_message",
        "SELECT type, CAST(data AS BLOB), '', time_created FROM session_message WHERE session_id = ?1"
        " AND octet_length(data) < ?2 ORDER BY seq",
    ),
    "session": (
        "part",
        "SELECT '', CAST(message.data AS BLOB), CAST(part.data AS BLOB), part.time_created"
        " FROM message JOIN part ON part.message_id = message.id WHERE message.session_id = ?1"
        " AND octet_length(message.data) < ?2 AND octet_length(part.data) < ?2"
        " ORDER BY message.time_created, message.id, part.id",
    ),
}
"""Table of sessions, that of the latest version first → the table whose rows change while one runs, and what selects
those of one: type of a message, its data, data of its part, time."""


@struct
class StoredSession:
    """A session in a database."""

    id: str
    folder: str
    title: str
    table: str
    updated: int
    """Milliseconds since 1970."""
    inner: bool
    """Whether it is a subagent's, to which no person speaks."""


def opencode_database(env: Mapping[str, str], home: Path) -> Path:
    """Return where opencode keeps its sessions, on all systems."""
    return Path(env.get("XDG_DATA_HOME") or home / ".local/share") / "opencode" / "opencode.db"


@contextmanager
def opened(file: Path) -> Iterator[apsw.Connection]:
    """Open another program's database, which may be in use; nothing is written, neither to it nor beside it.

    Raises `OSError` for what is no regular file, `apsw.Error` or `ValueError` for what cannot be read.
    """
    os.close(open_regular(file, follow=False))
    # Without its shared memory nobody has it open, so the file is complete.
    how = "readonly_shm=1" if Path(f"{file}-shm").is_file() else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    end = time.monotonic() + SECONDS
    with closing(apsw.Connection(f"{file.absolute().as_uri()}?mode=ro&{how}", flags=flags)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON").fetchall()
        with connection:
            yield connection


def stored_sessions(connection: apsw.Connection) -> list[StoredSession]:
    """Return the sessions of a database; of one that two versions have, the later version's."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    found: dict[str, StoredSession] = {}
    for table in (name for name in _TABLES if name in there):
        columns = (f"CAST({name} AS BLOB)" for name in ("id", "directory", "title"))  # which need not be UTF-8
        rows = f"SELECT {', '.join(columns)}, time_updated, parent_id IS NOT NULL FROM {table}"
        for *names, updated, inner in connection.execute(rows):
            key, folder, title = ((name or b"").decode("utf-8", "replace").replace("\0", "") for name in names)
            when = updated if isinstance(updated, int) else 0
            found.setdefault(key, StoredSession(key, folder, title, table, when, bool(inner)))
    return list(found.values())


def last_change(connection: apsw.Connection, session: StoredSession) -> int:
    """Return when something of a session changed last, in milliseconds since 1970."""
    latest = f"SELECT max(time_updated) FROM {_TABLES[session.table][0]} WHERE session_id = ?"
    changed = connection.execute(latest, (session.id,)).get
    return min(max(session.updated, changed if isinstance(changed, int) else 0, 0), LATEST)


def events(connection: apsw.Connection, session: StoredSession) -> Iterator[dict[str, Any]]:
    """Yield what was said and done in a session; rows that cannot be read are left out."""
    start = {"sessionId": session.id, "context": {"cwd": session.folder}, "title": session.title}
    yield _event("session.start", session.updated, producer="opencode", **start)
    for kind, data, part, at in connection.execute(_TABLES[session.table][1], (session.id, LINE_BYTES)):
        with suppress(ValueError, RecursionError, AttributeError, TypeError, KeyError):
            message = json.loads(data)
            yield from list(_said(kind, message, at) if kind else _part(message, json.loads(part), at))


def _said(kind: str, message: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a message of version 2."""
    if kind == "user":
        yield _event("user.message", at, content=message.get("text"))
    elif kind == "compaction":
        yield _event("session.compaction_complete", at, summaryContent=message.get("summary"))
    elif kind == "shell":
        done = {"status": "completed", "input": {"command": message.get("command")}, "output": message.get("output")}
        yield from _tool({"tool": "shell", "callID": message.get("callID"), "state": done}, at)
    elif kind == "assistant":
        about = {"role": kind, "modelID": (message.get("model") or {}).get("id")}
        for part in message.get("content") or ():
            yield from _part(about, part, at)


def _part(message: dict[str, Any], part: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a part of a message."""
    if part.get("type") == "tool":
        yield from _tool(part, at)
    elif part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored"):
        text = part.get("text")
        if message.get("summary") is True:
            yield _event("session.compaction_complete", at, summaryContent=text)
        elif message.get("role") == "user":
            yield _event("user.message", at, content=text)
        else:
            yield _event("assistant.message", at, content=text, model=message.get("modelID"))


def _tool(part: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    state, key = part["state"], part.get("callID") or part.get("id")
    given = {"toolName": part.get("tool") or part.get("name"), "arguments": state.get("input")}
    yield _event("tool.execution_start", at, toolCallId=key, **given)
    if state.get("status") in ("completed", "error"):
        error = state.get("error")
        failure = error.get("message") if isinstance(error, dict) else error
        said = state.get("output") or state.get("content") or failure
        said = said[:MOST_OUTPUT] if isinstance(said, str) else said
        about = state.get("metadata") or state.get("structured") or {}
        ended = {"success": state["status"] == "completed", "shellExecution": {"exitCode": about.get("exit")}}
        yield _event("tool.execution_complete", at, toolCallId=key, result={"content": said}, **ended)


def _event(kind: str, at: int, **data: Any) -> dict[str, Any]:
    when = ""
    with suppress(ValueError, OverflowError, OSError, TypeError):
        when = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return {"type": kind, "timestamp": when, "data": data}


def folder_of_copies(data: Path, project: Path, client: str) -> Path:
    """Return the folder of the logs of a project."""
    key = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return data / SESSIONS / f"{key}-{client}"


def refresh(base: Base, env: Mapping[str, str], home: Path) -> None:
    """Bring the logs in step with the database, if that has changed; what cannot be read leaves them as they are."""
    database, mark = opencode_database(env, home), base.path.with_suffix(".json")
    with suppress(OSError, ValueError, apsw.Error):
        states = [file.stat() for file in (database, Path(f"{database}-wal")) if file.is_file()]
        state = json.dumps([[found.st_mtime_ns, found.st_size] for found in states])
        if not base.sessions_of or (mark.is_file() and mark.read_text("utf-8") == state):
            return
        folder, kept = private_directory(base.path), set()
        with opened(database) as connection:
            for session in stored_sessions(connection):
                # Which of those below the project are another's, the base's filter knows.
                inside = Path(os.path.realpath(session.folder)).is_relative_to(base.sessions_of)
                if not inside or not _ID.fullmatch(session.id):
                    continue
                file, changed = folder / f"{session.id}.jsonl", last_change(connection, session) * 1_000_000
                kept.add(file.name)
                if not file.is_file() or file.stat().st_mtime_ns != changed:
                    write_atomically(file, "".join(f"{json.dumps(event)}\n" for event in events(connection, session)))
                    os.utime(file, ns=(changed, changed))
        for file in folder.glob("*.jsonl"):
            if file.name not in kept:
                file.unlink(missing_ok=True)
        write_atomically(mark, state)
