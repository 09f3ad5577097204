"""The lock of an index: one process writes it at a time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import filelock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_SECONDS = 0.1
"""Timeout for the lock: longer than `is_being_indexed` holds it, shorter than a batch takes."""

_TRYING = threading.Lock()
"""Held while the lock of an index is acquired: `is_being_indexed` takes that lock for a moment, which another thread of
this process would mistake for indexing."""


def is_being_indexed(path: Path) -> bool:
    """Return whether another process or thread is writing an index.

    Args:
        path: the index file.
    """
    try:
        if not path.parent.is_dir():
            return False
        with _TRYING, filelock.FileLock(f"{path}.lock", timeout=0, mode=0o600):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # no lock can be created there, so nobody holds one
        return False


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the write lock of an index.

    Raises:
        filelock.Timeout: another process or thread holds it.
        OSError: it cannot be created.
    """
    lock = filelock.FileLock(f"{path}.lock", timeout=LOCK_SECONDS, mode=0o600)
    with _TRYING:
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
