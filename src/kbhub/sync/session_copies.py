"""Logs in kbhub's data directory, one for each session that a client keeps in a database: a file is a document."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import apsw

from kbhub.index.foreign_sessions import events, last_change, opencode_database, opened, stored_sessions
from kbhub.types import Base
from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import SESSIONS, private_directory

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


def place_of(data: Path, project: Path, client: str) -> Path:
    """Return the folder of the logs of a project."""
    key = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return data / SESSIONS / f"{key}-{client}"


def refresh(base: Base, env: Mapping[str, str], home: Path) -> None:
    """Bring the logs in step with the database, if that has changed; what cannot be read leaves them as they are."""
    database, folder = opencode_database(env, home), base.path
    mark, state = folder.with_suffix(".json"), _state(database)
    with suppress(OSError, ValueError):
        if json.loads(mark.read_text("utf-8")) == state:
            return
    with suppress(OSError, ValueError, apsw.Error):
        _copy(database, folder, base.sessions_of)
        write_atomically(mark, json.dumps(state))


def _state(database: Path) -> list[list[int]]:
    """Return what tells whether a database has changed."""
    states = []
    for file in (database, Path(f"{database}-wal")):
        with suppress(OSError):
            found = file.stat()
            states.append([found.st_mtime_ns, found.st_size])
    return states


def _copy(database: Path, folder: Path, project: Path | None) -> None:
    private_directory(folder)
    kept = set()
    with opened(database) as connection:
        for session in stored_sessions(connection):
            if not _ID.fullmatch(session.id) or not _is_of(session.folder, project):
                continue
            file, changed = folder / f"{session.id}.jsonl", last_change(connection, session) * 1_000_000
            kept.add(file.name)
            if not file.is_file() or file.stat().st_mtime_ns != changed:
                text = "".join(f"{json.dumps(event)}\n" for event in events(connection, session))
                write_atomically(file, text)
                os.utime(file, ns=(changed, changed))
    for file in folder.glob("*.jsonl"):
        if file.name not in kept:
            file.unlink(missing_ok=True)


def _is_of(folder: str, project: Path | None) -> bool:
    """Whether a session began in a project or below; which of those are another's, the base's filter knows."""
    return project is not None and Path(os.path.realpath(folder)).is_relative_to(project)
