"""The daemon as a process of its own: `python -m kbhub.daemon '{…}'`, started by kbhub and nobody else."""

from __future__ import annotations

import os
import sys
import time

from kbhub.daemon.folder import Folder
from kbhub.daemon.locks import Lock, try_lock
from kbhub.frugality import be_frugal
from kbhub.places import data_dir

LOCK_SECONDS = 15.0
"""How long to wait for a daemon that is ending."""

POLL_SECONDS = 0.02

TAKEN = 3
"""Exit code where there is a daemon that does not end."""


def main() -> int:
    """Be the daemon, unless there is one."""
    be_frugal(os.environ)
    folder = Folder(data_dir(os.environ))
    folder.make()
    lock = wait_for_lock(folder, LOCK_SECONDS)
    if lock is None:
        sys.stderr.write("another daemon runs and does not end\n")
        return TAKEN
    # The SDK takes half a second to import: a process that comes second need not.
    from kbhub.daemon.asked import Start  # noqa: PLC0415
    from kbhub.daemon.process import run  # noqa: PLC0415
    from kbhub.errors import KbhubError  # noqa: PLC0415

    try:
        run(Start.model_validate_json(sys.argv[1]), folder, lock)
    except KbhubError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def wait_for_lock(folder: Folder, seconds: float) -> Lock | None:
    """Take the daemon's lock; none if somebody holds it for longer than some seconds."""
    end = time.monotonic() + seconds
    while (lock := try_lock(folder.lock)) is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return lock


if __name__ == "__main__":
    sys.exit(main())
