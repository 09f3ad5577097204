"""Where the daemon's files lie, and what it says of itself there. Light: every editor window loads it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from kbhub.places import private_directory, write_atomically

TOKEN_BYTES = 32
"""Random bytes of the token: 256 bits cannot be guessed."""


class Folder:
    """The daemon's folder in kbhub's data directory, for the current user alone.

    Args:
        data: the data directory; each has a daemon of its own.
    """

    def __init__(self, data: Path) -> None:
        self.path = data / "daemon"
        self.record = self.path / "daemon.json"
        """What the daemon says of itself while it runs."""
        self.lock = self.path / "daemon.lock"
        """Held by the daemon as long as it lives."""
        self.starting = self.path / "starting.lock"
        """Held by who starts it."""
        self.token = self.path / "token"
        self.log = self.path / "daemon.log"
        self.crash = self.path / "crash.log"
        """What a daemon printed that was not written to its log: the end of one that could not even begin."""

    def make(self) -> None:
        """Make the folder, and take it from everybody else.

        Raises:
            OSError: it cannot be made.
        """
        private_directory(self.path)
        if os.name != "nt" and stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            self.path.chmod(0o700)

    def dead_socket(self) -> Path | None:
        """Give the socket of which the record speaks; to be asked by who holds the lock, so that it is a dead one's."""
        record = read_record(self)
        return Path(record.link) if record and isinstance(record.link, str) else None


class Record(NamedTuple):
    """What a daemon says of itself."""

    pid: int
    mark: str | None
    """What tells the process from a later one of the same id; none where the system does not say."""
    version: str
    """Of kbhub."""
    link: str | int
    """Path of its Unix socket, or its port on the loopback interface."""
    http: str | None
    """Address of its HTTP endpoint."""
    start: dict[str, Any] | None
    """What it was told at its start, so that the one after it can be told the same; none if it runs in a terminal."""


def read_record(folder: Folder) -> Record | None:
    """Give what the last daemon said of itself; it may be dead. None if there is nothing that can be understood."""
    try:
        said: dict[str, Any] = json.loads(folder.record.read_bytes())
        record = Record(**said)
    except (OSError, ValueError, TypeError):
        return None
    sound = isinstance(record.pid, int) and isinstance(record.link, str | int) and isinstance(record.version, str)
    return record if sound else None


def write_record(folder: Folder, record: Record) -> None:
    """Say that a daemon is ready.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(folder.record, json.dumps(record._asdict()))


def read_token(folder: Folder) -> str | None:
    """Give the token; none if there is none, or others could have read or written it."""
    try:
        descriptor = os.open(folder.token, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if os.name != "nt" and (facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077):
            return None
        token = file.read(4 * TOKEN_BYTES).decode("ascii", "replace").strip()
    return token if len(token) == 2 * TOKEN_BYTES else None


def make_token(folder: Folder) -> str:
    """Give the token, made anew if there is none that only the user could have read.

    Raises:
        OSError: it cannot be written.
    """
    if token := read_token(folder):
        return token
    token = os.urandom(TOKEN_BYTES).hex()
    write_atomically(folder.token, f"{token}\n")
    return token
