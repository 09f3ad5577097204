"""Run the daemon: `python -m kbhub.server.daemon '{…}'`, started only by kbhub itself."""

from __future__ import annotations

import json
import os
import sys
import time

from kbhub.errors import KbhubError
from kbhub.server.daemon.launch import start_of
from kbhub.server.daemon.protocol import DaemonFolder, Lock, try_lock
from kbhub.workspace.child_processes import be_frugal
from kbhub.workspace.files import data_dir

LOCK_SECONDS = 15.0
"""How long to wait for a daemon that is ending."""

POLL_SECONDS = 0.02

TAKEN = 3
"""Exit code if another daemon keeps running."""


def main() -> int:
    """Run the daemon, unless one is running."""
    be_frugal(os.environ)
    folder = DaemonFolder(data_dir(os.environ))
    folder.make()
    lock = wait_for_lock(folder, LOCK_SECONDS)
    if lock is None:
        sys.stderr.write("another daemon is running and does not stop\n")
        return TAKEN
    # The SDK takes half a second to import: a process that comes second need not.
    from kbhub.server.daemon import process  # noqa: PLC0415

    try:
        process.run(start_of(json.loads(sys.argv[1])), folder, lock)
    except KbhubError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def wait_for_lock(folder: DaemonFolder, seconds: float) -> Lock | None:
    """Take the daemon's lock; None if another process keeps it for longer than some seconds."""
    end = time.monotonic() + seconds
    while (lock := try_lock(folder.lock)) is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return lock


if __name__ == "__main__":
    sys.exit(main())
