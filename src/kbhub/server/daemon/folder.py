"""The daemon's files: its record of itself, its locks, its token."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kbhub.workspace.atomic_writes import write_atomically
from kbhub.workspace.files import private_directory

TOKEN_BYTES = 32
"""Random bytes of the token: 256 bits cannot be guessed."""

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Lock:
    """A held lock on an open file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock, as the end of the process would."""
        os.close(self._descriptor)


def try_lock(path: Path) -> Lock | None:
    """Take a lock without waiting; None if it is held. Its file is created if missing and never removed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return Lock(descriptor)


def is_held(path: Path) -> bool:
    """Return whether a lock is held."""
    if not path.exists():
        return False
    lock = try_lock(path)
    if lock:
        lock.release()
    return lock is None


class DaemonFolder:
    """The daemon's folder in a data directory, accessible to the current user only; each has its own daemon."""

    def __init__(self, data: Path) -> None:
        self.path = data / "daemon"
        self.record = self.path / "daemon.json"
        """The daemon's record of itself while it runs."""
        self.lock = self.path / "daemon.lock"
        """Held by the daemon for its lifetime."""
        self.starting = self.path / "starting.lock"
        """Held while starting a daemon."""
        self.token = self.path / "token"
        self.log = self.path / "daemon.log"
        self.crash = self.path / "crash.log"
        """Output of a daemon that did not go to its log, such as a crash at startup."""

    def make(self) -> None:
        """Create the folder and restrict it to the user."""
        private_directory(self.path)
        if os.name != "nt" and stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            self.path.chmod(0o700)

    def dead_socket(self) -> Path | None:
        """Return the recorded socket; call it while holding the lock, so that the record is a dead daemon's."""
        record = read_record(self)
        return Path(record.link) if record and isinstance(record.link, str) else None


class DaemonRecord(NamedTuple):
    """A daemon's record of itself."""

    pid: int
    mark: str | None
    """Distinguishes the process from later ones with the same id; None if the system does not tell."""
    version: str
    """Version of kbhub."""
    link: str | int
    """Path of its Unix socket, or its loopback port."""
    http: str | None
    """Address of its HTTP endpoint."""
    start: dict[str, Any] | None
    """Its start parameters, to start a successor in the same way; None if it runs in a terminal."""


def read_record(folder: DaemonFolder) -> DaemonRecord | None:
    """Return the record of the last daemon, which may be dead, or None if it is missing or invalid."""
    try:
        stored: dict[str, Any] = json.loads(folder.record.read_bytes())
        record = DaemonRecord(**stored)
    except (OSError, ValueError, TypeError):
        return None
    sound = isinstance(record.pid, int) and isinstance(record.link, str | int) and isinstance(record.version, str)
    return record if sound else None


def running(folder: DaemonFolder) -> DaemonRecord | None:
    """Return the record of the running daemon, or None; without a held lock, the recorded daemon is dead."""
    return read_record(folder) if is_held(folder.lock) else None


def read_token(folder: DaemonFolder) -> str | None:
    """Return the token, or None if it is missing or was accessible to others."""
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


START_FIELD = 19
"""Field of `/proc/PID/stat`, counted after the name in brackets: start in clock ticks since boot (proc(5): 22)."""

PS_SECONDS = 2.0
"""Timeout of `ps`, which reads a kernel table."""


def process_mark(pid: int) -> str | None:
    """Return opaque text that tells a process from later ones with its id: its start time; None if unknown."""
    if sys.platform == "win32":
        return None
    if Path("/proc/self/stat").exists():
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return f"{boot} {int(fields[START_FIELD])}"
        except (OSError, ValueError, IndexError):
            return None
    command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    try:
        ps = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False)  # noqa: S603 - an int
    except (OSError, subprocess.SubprocessError):
        return None
    return ps.stdout.strip() or None


def write_record(folder: DaemonFolder, record: DaemonRecord) -> None:
    """Announce that a daemon is ready."""
    write_atomically(folder.record, json.dumps(record._asdict()))


def make_token(folder: DaemonFolder) -> str:
    """Return the token, creating a new one unless an existing one was private to the user."""
    if token := read_token(folder):
        return token
    token = os.urandom(TOKEN_BYTES).hex()
    write_atomically(folder.token, f"{token}\n")
    return token
