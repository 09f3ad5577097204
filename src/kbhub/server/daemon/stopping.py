"""Stop the daemon, if its process is proved to be one. Light."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NamedTuple

from kbhub.server.daemon.folder import Folder, Record, read_token
from kbhub.server.daemon.identity import process_mark
from kbhub.server.daemon.link import Refused, dial, greet
from kbhub.server.daemon.locks import is_held
from kbhub.server.daemon.starting import running

STOP_SECONDS = 10.0
"""Time for a daemon to end on request: it gives its calls five seconds."""

SIGNAL_SECONDS = 5.0
"""Time for a daemon to end on a signal."""

POLL_SECONDS = 0.02
"""Interval of checks."""


class Stopped(NamedTuple):
    """The result of stopping the daemon."""

    running: bool
    """Whether there was a daemon."""
    stopped: bool
    """Whether there is none any more."""
    pid: int | None
    how: str
    """`asked`, `signal` or `killed`; `none` if nothing was done."""
    message: str
    """For people."""


def stop(folder: Folder, seconds: float = STOP_SECONDS) -> Stopped:
    """End the daemon: by request, then by signal if its process is proved to be the recorded one.

    Args:
        folder: the daemon's folder.
        seconds: time to end on request.
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
    """Whether the process with the recorded id is the recorded one, by its start time."""
    return record.mark is not None and process_mark(record.pid) == record.mark


def _signals() -> list[tuple[signal.Signals, str]]:
    if sys.platform == "win32":
        return [(signal.SIGTERM, "killed")]
    return [(signal.SIGTERM, "signal"), (signal.SIGKILL, "killed")]
