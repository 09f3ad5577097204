"""Reading, writing and trashing memory files: atomically, by one process at a time per folder."""

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

import filelock

from kbhub.documents.walk import open_contained
from kbhub.errors import MemoriesUnavailable
from kbhub.memory.documents import MAX_FILE_BYTES, parse_memory
from kbhub.values import DAY_SECONDS, struct
from kbhub.workspace.files import ABANDONED_SECONDS, private_directory, write_atomically
from kbhub.workspace.formats import MARKDOWN_SUFFIX, MARKDOWN_SUFFIXES
from kbhub.workspace.memory_folders import USER_ID, memories_folder, project_folders

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kbhub.memory.documents import MemoryText
    from kbhub.workspace.memory_folders import MemoryFolder

LOCK_SECONDS = 30.0
"""How long to wait for other processes that write to a folder; each takes some milliseconds."""

TRASH = "trash"

_NUMBERED = re.compile(r"-\d{1,3}$")
"""Suffix that `memories move` appends to a name that is taken."""

_UNFINISHED = re.compile(r"\.[^.].*\.md\.(\d+\.new|[a-z0-9_]{8}\.tmp)|\.\.[^.].*\.md\.\d+\.new\.[a-z0-9_]{8}\.tmp")
"""Temporary names used by `create` and `replace`."""


@struct
class MemoryFile:
    """A memory's file with its current content."""

    shelf: MemoryFolder
    path: str
    """Path in the base."""
    content: MemoryText
    written: float
    """Modification time, seconds since the epoch."""


@contextmanager
def locked(data: Path, place: str) -> Iterator[None]:
    """Lock a memory folder, a `MemoryFolder.place`, against other processes.

    Raises `MemoriesUnavailable` if another process holds the lock too long, or the folder is not writable.
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


def read(shelf: MemoryFolder, path: str) -> MemoryFile | None:
    """Read a memory's file, or return None if it does not exist; raise `PathNotContained` if it is outside the base."""
    if shelf.files:
        if (file_of := shelf.files.read(path)) is None:
            return None
        return MemoryFile(shelf, path, parse_memory(path, file_of[0]), file_of[1])
    try:
        with open_contained(shelf.base, path) as file:
            content = parse_memory(path, file.read(MAX_FILE_BYTES + 1))
            return MemoryFile(shelf, path, content, os.fstat(file.fileno()).st_mtime)
    except OSError:
        return None


def with_ids(shelf: MemoryFolder, ids: Collection[str]) -> Iterator[MemoryFile]:
    """Yield the memories whose file names have one of some ids, by name."""
    try:
        names = sorted(name for name in _names(shelf) if _id_in(name) in ids)
    except OSError:
        return
    for name in names:
        if stored := read(shelf, f"{shelf.prefix}{name}"):
            yield stored


def with_id(shelf: MemoryFolder, name: str) -> MemoryFile | None:
    """Find a memory by the id in its file name, or return None if no file name has it."""
    try:
        names = sorted(file for file in _names(shelf) if f"-{file}".endswith(f"-{name}.md"))
    except OSError:
        return None
    files = (read(shelf, f"{shelf.prefix}{file_name}") for file_name in names)
    return next((stored for stored in files if stored and stored.content.facts.id == name), None)


def taken_ids(data: Path, shelves: Iterable[MemoryFolder] = ()) -> set[str]:
    """Return the ids in use in all folders, other projects' and additional ones included, judging by file names."""
    every: list[str] = []
    for folder in {*project_folders(data), memories_folder(data) / USER_ID}:
        with suppress(OSError), os.scandir(folder) as entries:
            every += [entry.name for entry in entries]
    for shelf in shelves:
        with suppress(OSError):
            every += _names(shelf)
    return {_id_in(name) for name in every}


def _id_in(name: str) -> str:
    return _NUMBERED.sub("", name.removesuffix(MARKDOWN_SUFFIX)).rpartition("-")[2]


def _names(shelf: MemoryFolder) -> list[str]:
    if shelf.files:
        return shelf.files.names()
    with os.scandir(shelf.folder) as entries:
        return [entry.name for entry in entries]


def create(shelf: MemoryFolder, name: str, text: str) -> str:
    """Write a new file and return its path in the base; the caller holds the lock.

    Raises `FileExistsError` if the name is taken. A failed write leaves nothing behind.
    """
    if shelf.files:
        shelf.files.create(name, text.encode())
        return name
    folder = private_directory(shelf.folder)
    final, temporary = folder / name, folder / f".{name}.{os.getpid()}.new"
    write_atomically(temporary, text)
    try:
        try:
            os.link(temporary, final)  # unlike a rename, it never overwrites a file
        except OSError as error:
            if error.errno == errno.EEXIST:
                raise
            if final.exists():  # a file system without hard links
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from error
            temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return f"{shelf.prefix}{name}"


def sweep(shelf: MemoryFolder) -> None:
    """Delete half-written files of killed processes, except recent ones that may still be in use."""
    with suppress(OSError), os.scandir(shelf.folder) as entries:
        for entry in entries:
            if not _UNFINISHED.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError):  # already deleted, or owned by another user
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > ABANDONED_SECONDS:
                    Path(entry).unlink()


def replace(stored: MemoryFile, data: bytes) -> None:
    """Overwrite a file, keeping its mode; the caller holds the lock. A failed write leaves the old content intact."""
    if stored.shelf.files:
        stored.shelf.files.replace(stored.path, data)
        return
    path = _contained(stored)
    write_atomically(path, data, mode=path.stat().st_mode & 0o777)


def label_of(shelf: MemoryFolder) -> str:
    """Return the name of a shelf's folder in the trash."""
    return f"{shelf.scope}-{shelf.base.path.name}" if shelf.scope in ("shared", "team") else shelf.place


def discard(stored: MemoryFile, data: Path, now: float) -> Path:
    """Move a file to the trash and return its folder there; the caller holds the lock. On failure, the file stays."""
    path, files = _contained(stored), stored.shelf.files
    folder = private_directory(Path(os.path.realpath(data)) / TRASH / label_of(stored.shelf))
    target, number = folder / f"{path.stem}.{int(now)}{path.suffix}", 0
    while target.exists():
        number += 1
        target = folder / f"{path.stem}.{int(now)}-{number}{path.suffix}"
    if files:
        content = files.read(stored.path)
        write_atomically(target, content[0] if content else b"")
        files.remove(stored.path)
    else:
        shutil.move(path, target)
    os.utime(target, (now, now))  # it expires from now on
    return folder


def remove(stored: MemoryFile) -> None:
    """Delete a file that has been written elsewhere; the caller holds the lock."""
    if stored.shelf.files:
        stored.shelf.files.remove(stored.path)
    else:
        _contained(stored).unlink()


def empty_trash(data: Path, days: int, now: float) -> None:
    """Delete files older than some days (0 keeps none) from the trash; files that cannot be deleted stay."""
    trash = Path(os.path.realpath(data)) / TRASH
    for folder in trash.iterdir() if trash.is_dir() else ():
        if not folder.is_dir() or folder.is_symlink():
            continue
        for file in folder.iterdir():
            with suppress(OSError):
                expired = not days or file.lstat().st_mtime < now - days * DAY_SECONDS
                if expired and file.suffix.lower() in MARKDOWN_SUFFIXES:
                    file.unlink()


def _contained(stored: MemoryFile) -> Path:
    """Return the path of a memory's file, checking that its folder is in the base when links are resolved."""
    path = stored.shelf.base.path / stored.path
    parent = Path(os.path.realpath(path.parent))
    if not parent.is_relative_to(stored.shelf.base.path):
        raise OSError(errno.EPERM, f"{stored.path} leads out of the base")
    return parent / path.name
