"""The locks of a base: one process writes its index, and one thread changes its files, at a time."""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import filelock
from filelock import FileLock, Timeout

from kbhub.errors import WriteRefused
from kbhub.workspace.files import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kbhub.hub import Hub
    from kbhub.types import Base


INDEX_LOCK_SECONDS = 0.1
"""Timeout for the lock: longer than `is_being_indexed` holds it, shorter than a batch takes."""

_TRYING = threading.Lock()
"""Held while the lock of an index is acquired: `is_being_indexed` takes that lock for a moment, which another thread of
this process would mistake for indexing."""


FOLDER_LOCK_SECONDS = 10.0
"""How long to wait for another writer, which needs milliseconds."""


def is_being_indexed(path: Path) -> bool:
    """Return whether another process or thread is writing an index."""
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
    """Hold the write lock of an index; raise `filelock.Timeout` if it is held elsewhere."""
    lock = filelock.FileLock(f"{path}.lock", timeout=INDEX_LOCK_SECONDS, mode=0o600)
    with _TRYING:
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def writing(hub: Hub, base: Base, ref: str) -> Iterator[None]:
    """Hold the write lock of a base; raise `WriteRefused`, which names the document, if it cannot be had."""
    name = hashlib.sha256(str(base.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = hub.data / "locks"
    lock = FileLock(folder / f"{name}.lock", timeout=FOLDER_LOCK_SECONDS, mode=0o600)
    try:
        private_directory(folder)
        lock.acquire()
    except Timeout as error:
        reason = f"another kbhub process has been writing to {base.id!r} for {FOLDER_LOCK_SECONDS:g} s; try again"
        raise WriteRefused(ref, reason) from error
    except OSError as error:
        raise WriteRefused(ref, f"no lock can be created in {folder} ({error.strerror})") from error
    try:
        yield
    finally:
        lock.release()
