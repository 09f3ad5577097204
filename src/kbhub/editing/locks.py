"""One writer at a time: kbhub's own processes and threads wait for each other before they change a base's files."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kbhub.errors import WriteRefused
from kbhub.places import data_dir, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.hub import Hub
    from kbhub.types import Base

LOCK_SECONDS = 10.0
"""How long to wait for another writer of the base, which takes it milliseconds."""


@contextmanager
def writing(hub: Hub, base: Base, ref: str) -> Iterator[None]:
    """Be the only kbhub that changes files of a base.

    Args:
        hub: the hub.
        base: the base.
        ref: the document to be changed, for the message.

    Raises:
        WriteRefused: another process does not let go, or the lock cannot be made.
    """
    name = hashlib.sha256(str(base.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = data_dir(hub.options.env) / "locks"
    lock = FileLock(folder / f"{name}.lock", timeout=LOCK_SECONDS, mode=0o600)
    try:
        private_directory(folder)
        lock.acquire()
    except Timeout as error:
        reason = f"another kbhub process has been writing to {base.id!r} for {LOCK_SECONDS:g} s; try again"
        raise WriteRefused(ref, reason) from error
    except OSError as error:
        raise WriteRefused(ref, f"no lock can be made in {folder} ({error.strerror})") from error
    try:
        yield
    finally:
        lock.release()
