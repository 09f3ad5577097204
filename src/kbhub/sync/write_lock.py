"""Write lock of a base: kbhub's processes and threads take turns changing its files."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kbhub.errors import WriteRefused
from kbhub.workspace.places import data_dir, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.hub import Hub
    from kbhub.types import Base

LOCK_SECONDS = 10.0
"""How long to wait for another writer, which needs milliseconds."""


@contextmanager
def writing(hub: Hub, base: Base, ref: str) -> Iterator[None]:
    """Hold the write lock of a base.

    Args:
        hub: the hub.
        base: the base.
        ref: the document to change, for the error message.

    Raises:
        WriteRefused: another process does not release the lock, or it cannot be created.
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
