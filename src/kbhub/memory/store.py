"""Reading, writing and removing the files of memories: whole or not at all, one process at a time per folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.document_names import MARKDOWN_SUFFIXES
from kbhub.errors import MemoriesUnavailable
from kbhub.later import filelock
from kbhub.memory.documents import MAX_FILE_BYTES, parse_memory
from kbhub.memory.folders import USER_ID, memories_folder, project_folders
from kbhub.memory.strength import DAY_SECONDS
from kbhub.places import ABANDONED_SECONDS, private_directory, write_atomically
from kbhub.values import struct
from kbhub.walk import open_contained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kbhub.memory.documents import MemoryText
    from kbhub.memory.folders import Shelf

LOCK_SECONDS = 30.0
"""How long to wait for other processes that write in a folder; each takes it some milliseconds."""

TRASH = "trash"

_NUMBERED = re.compile(r"-\d{1,3}$")
"""What `memories move` puts behind a name that another file has."""

_UNFINISHED = re.compile(r"\.[^.].*\.md\.(\d+\.new|[a-z0-9_]{8}\.tmp)|\.\.[^.].*\.md\.\d+\.new\.[a-z0-9_]{8}\.tmp")
"""Names that files have while `create` and `replace` write them."""


@struct
class Stored:
    """A memory's file with what it says now."""

    shelf: Shelf
    path: str
    """In the base."""
    content: MemoryText
    written: float
    """When the file was last written, seconds since the epoch."""


@contextmanager
def locked(data: Path, place: str) -> Iterator[None]:
    """Keep other processes from writing memories of one place meanwhile.

    Args:
        data: kbhub's data directory.
        place: the folder, as `Shelf.place` names it.

    Raises:
        MemoriesUnavailable: another process held it too long, or nothing can be written there.
    """
    top = memories_folder(data)
    name = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    lock = filelock.FileLock(top / f".{name}.lock", timeout=LOCK_SECONDS, mode=0o600)
    try:
        private_directory(top)
        lock.acquire()
    except filelock.Timeout as error:
        raise MemoriesUnavailable(top, f"another process has held {lock.lock_file} for {LOCK_SECONDS:g} s") from error
    except OSError as error:
        raise MemoriesUnavailable(top, error.strerror or str(error)) from error
    try:
        yield
    except OSError as error:
        raise MemoriesUnavailable(top, error.strerror or str(error)) from error
    finally:
        lock.release()


def read(shelf: Shelf, path: str) -> Stored | None:
    """Read a memory's file as it is now; none if it is not there.

    Args:
        shelf: where it is.
        path: in the base.

    Raises:
        PathNotContained: the path leads out of the base.
    """
    try:
        with open_contained(shelf.base, path) as file:
            content = parse_memory(path, file.read(MAX_FILE_BYTES + 1))
            return Stored(shelf, path, content, os.fstat(file.fileno()).st_mtime)
    except OSError:
        return None


def with_id(shelf: Shelf, name: str) -> Stored | None:
    """Find a memory by its id in the names of files alone; none if its file has another name, or there is none."""
    try:
        with os.scandir(shelf.folder) as entries:
            names = sorted(entry.name for entry in entries if f"-{entry.name}".endswith(f"-{name}.md"))
    except OSError:
        return None
    found = (read(shelf, f"{shelf.prefix}{entry}") for entry in names)
    return next((one for one in found if one and one.content.facts.id == name), None)


def taken_ids(data: Path, shelves: Iterable[Shelf] = ()) -> set[str]:
    """Give what may be the ids of memories in all folders, of other projects too, by the names of their files.

    Args:
        data: kbhub's data directory.
        shelves: further folders.
    """
    folders = {*project_folders(data), memories_folder(data) / USER_ID, *(shelf.folder for shelf in shelves)}
    found: set[str] = set()
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            names = (_NUMBERED.sub("", entry.name.removesuffix(".md")) for entry in entries)
            found |= {name.rpartition("-")[2] for name in names}
    return found


def create(shelf: Shelf, name: str, text: str) -> str:
    """Write a new file; the caller holds the lock.

    Args:
        shelf: where.
        name: of the file.
        text: all of it.

    Returns:
        Its path in the base.

    Raises:
        FileExistsError: there is one of this name.
        OSError: it cannot be written; nothing is left behind.
    """
    folder = private_directory(shelf.folder)
    final, temporary = folder / name, folder / f".{name}.{os.getpid()}.new"
    write_atomically(temporary, text)
    try:
        try:
            os.link(temporary, final)  # unlike a rename, it never takes the place of a file
        except OSError as error:
            if error.errno == errno.EEXIST:
                raise
            if final.exists():  # a file system without hard links
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from error
            temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return f"{shelf.prefix}{name}"


def sweep(shelf: Shelf) -> None:
    """Remove what killed processes left half written; what is younger may be somebody's who writes just now."""
    with suppress(OSError), os.scandir(shelf.folder) as entries:
        for entry in entries:
            if not _UNFINISHED.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError):  # somebody else did it, or owns it
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED_SECONDS:
                    Path(entry).unlink()


def replace(stored: Stored, data: bytes) -> None:
    """Write a file anew, with the mode that it had; the caller holds the lock.

    Raises:
        OSError: it cannot be written; the old one is untouched.
    """
    path = _contained(stored)
    write_atomically(path, data, mode=path.stat().st_mode & 0o777)


def discard(stored: Stored, data: Path, now: float) -> Path:
    """Move a file into the trash; the caller holds the lock.

    Args:
        stored: the memory.
        data: kbhub's data directory.
        now: seconds since the epoch.

    Returns:
        The folder in the trash.

    Raises:
        OSError: it cannot be moved; it is where it was.
    """
    path = _contained(stored)
    label = stored.shelf.place if stored.shelf.scope != "shared" else f"shared-{stored.shelf.base.path.name}"
    folder = private_directory(Path(os.path.realpath(data)) / TRASH / label)
    target, number = folder / f"{path.stem}.{int(now)}{path.suffix}", 0
    while target.exists():
        number += 1
        target = folder / f"{path.stem}.{int(now)}-{number}{path.suffix}"
    shutil.move(path, target)
    os.utime(target, (now, now))  # how long it is kept counts from now
    return folder


def empty_trash(data: Path, days: int, now: float) -> None:
    """Delete what was forgotten longer ago than some days; what cannot be deleted stays.

    Args:
        data: kbhub's data directory.
        days: how long it is kept; 0 keeps nothing.
        now: seconds since the epoch.
    """
    trash = Path(os.path.realpath(data)) / TRASH
    for folder in (one for one in (trash.iterdir() if trash.is_dir() else ()) if one.is_dir() and not one.is_symlink()):
        for file in (one for one in folder.iterdir() if one.suffix.lower() in MARKDOWN_SUFFIXES):
            try:
                if not days or file.lstat().st_mtime < now - days * DAY_SECONDS:
                    file.unlink()
            except OSError:
                continue


def _contained(stored: Stored) -> Path:
    """Give the path of a memory's file, whose folder is in the base also when links are followed."""
    path = stored.shelf.base.path / stored.path
    parent = Path(os.path.realpath(path.parent))
    if not parent.is_relative_to(stored.shelf.base.path):
        raise OSError(errno.EPERM, f"{stored.path} leads out of the base")
    return parent / path.name
