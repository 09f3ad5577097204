"""The daemon's account of itself: its record, with a mark of its process, and its token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.server.daemon.folder import TOKEN_BYTES, read_token
from kbhub.workspace.files import write_atomically

if TYPE_CHECKING:
    from kbhub.server.daemon.folder import DaemonFolder, DaemonRecord

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
