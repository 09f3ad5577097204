"""Ends the daemon that can be proved to be one. Light."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NamedTuple

from kbhub.daemon.folder import Folder, Record, read_token
from kbhub.daemon.identity import process_mark
from kbhub.daemon.link import Refused, dial, greet
from kbhub.daemon.locks import is_held
from kbhub.daemon.starting import running

STOP_SECONDS = 10.0
"""How long a daemon that was asked to end may take: it gives its calls five seconds."""

SIGNAL_SECONDS = 5.0
"""How long one may take that was sent a signal."""

POLL_SECONDS = 0.02
"""Time between two looks."""


class Stopped(NamedTuple):
    """What became of the daemon."""

    running: bool
    """Whether there was one."""
    stopped: bool
    """Whether there is none any more."""
    pid: int | None
    how: str
    """`asked`, `signal` or `killed`; `none` if nothing was done."""
    message: str
    """For a person."""


def stop(folder: Folder, seconds: float = STOP_SECONDS) -> Stopped:
    """End the daemon: ask it, then send it a signal, if its process is proved to be it.

    Args:
        folder: of the daemon.
        seconds: how long it may take when it is asked.
    """
    if not is_held(folder.lock):
        return Stopped(False, True, None, "none", "No daemon is running.")
    record = running(folder)
    if record is None:
        message = (
            f"A daemon is starting or holds {folder.lock} without saying which process it is; try again in a moment."
        )
        return Stopped(True, False, None, "none", message)
    if _asked(folder, record) and _gone(folder, seconds):
        return Stopped(True, True, record.pid, "asked", f"The daemon (process {record.pid}) has ended.")
    if not _is_it(record):
        message = (
            f"The daemon does not answer, and process {record.pid} cannot be proved to be it; end it by other means."
        )
        return Stopped(True, False, record.pid, "none", message)
    for number, how in _signals():
        try:
            os.kill(record.pid, number)
        except OSError:
            pass
        if _gone(folder, SIGNAL_SECONDS):
            message = f"The daemon (process {record.pid}) did not answer and was ended by a signal."
            return Stopped(True, True, record.pid, how, message)
    return Stopped(True, False, record.pid, "killed", f"The daemon (process {record.pid}) does not end.")


def _asked(folder: Folder, record: Record) -> bool:
    token = read_token(folder)
    if token is None:
        return False
    try:
        with dial(record.link) as link:
            greet(link, "stop", token, why="user")
    except Refused as refusal:
        return refusal.reason == "leaving"
    except OSError:
        return False
    return True


def _gone(folder: Folder, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_held(folder.lock):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _is_it(record: Record) -> bool:
    """Whether the process of that id is the one that wrote the record: no later one started at the same tick."""
    return record.mark is not None and process_mark(record.pid) == record.mark


def _signals() -> list[tuple[signal.Signals, str]]:
    if sys.platform == "win32":
        return [(signal.SIGTERM, "killed")]
    return [(signal.SIGTERM, "signal"), (signal.SIGKILL, "killed")]
