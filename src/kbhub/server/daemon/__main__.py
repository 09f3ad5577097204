"""Run the daemon: `python -m kbhub.server.daemon '{…}'`, started only by kbhub itself."""

from __future__ import annotations

import json
import os
import sys
import time

from kbhub.errors import KbhubError
from kbhub.server.daemon.launch import start_of
from kbhub.server.daemon.protocol import DaemonFolder, try_lock
from kbhub.workspace.child_processes import be_frugal
from kbhub.workspace.files import own_folder

LOCK_SECONDS = 15.0
"""How long to wait for a daemon that is ending."""

POLL_SECONDS = 0.02

TAKEN = 3
"""Exit code if another daemon keeps running."""


def main() -> int:
    """Run the daemon, unless one is running."""
    be_frugal(os.environ)
    folder = DaemonFolder(own_folder("data", os.environ))
    folder.make()
    end = time.monotonic() + LOCK_SECONDS
    while (lock := try_lock(folder.lock)) is None:
        if time.monotonic() > end:
            sys.stderr.write("another daemon is running and does not stop\n")
            return TAKEN
        time.sleep(POLL_SECONDS)
    # The SDK takes half a second to import: a process that comes second need not.
    from kbhub.server.daemon import process  # noqa: PLC0415

    try:
        process.run(start_of(json.loads(sys.argv[1])), folder, lock)
    except KbhubError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
