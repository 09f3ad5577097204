"""kbhub's own folders, path helpers, and safe reading and writing of files. Light: every editor window loads it.

Readers and crashes see the old content of a file or the new, never a part. `write_atomically` takes a path;
`open_folder` holds a folder of a base open, so that nothing leads out of it.
"""

from __future__ import annotations

import errno
import operator
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import reduce
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbhub.errors import ConfigError, PathNotContained
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.types import Base

RACY_SECONDS = 2.0
"""A file changed this recently may change again within one tick of its clock (2 s on FAT)."""


@struct(frozen=False)
class FileStates:
    """The files and folders behind a cached value, which holds while none of them changes."""

    seen: dict[tuple[str, bool], tuple[int, ...]] = field(default_factory=dict)
    """Path, and whether the names in it count → its state."""
    uncertain: bool = False

    def as_list(self) -> list[tuple[str, bool, tuple[int, ...]]] | None:
        """Return them for another process, or None if they are uncertain."""
        return None if self.uncertain else [(*key, state) for key, state in self.seen.items()]

    @contextmanager
    def record(self) -> Iterator[None]:
        """Note every path that this thread asks about meanwhile; see `probe`."""
        _recorder.states = self
        try:
            yield
        finally:
            _recorder.states = None

    def unchanged(self) -> bool:
        """Return whether every file and folder is certainly as it was."""
        return not self.uncertain and all(
            _state(path, entries=entries) == state for (path, entries), state in self.seen.items()
        )


class _Recorder(threading.local):
    states: FileStates | None = None


_recorder = _Recorder()


def probe(path: Path | str, *, entries: bool = False) -> None:
    """Tell `FileStates.record` that a path decides: its content, for a folder with `entries` the names in it."""
    if (states := _recorder.states) and (key := (str(path), entries)) not in states.seen:
        states.seen[key] = state = _state(key[0], entries=entries)
        # As git does: what changed just now may change once more and look the same.
        states.uncertain |= state[0] > (time.time() - RACY_SECONDS) * 1e9


def probe_in_vain() -> None:
    """Tell `FileStates.record` that something decides which is in no file."""
    if _recorder.states:
        _recorder.states.uncertain = True


def real_path(path: Path | str) -> Path:
    """Return a path with links resolved, which need not exist."""
    if _recorder.states:
        probe(path)
        place, above = str(path), None
        while place != above and not os.path.lexists(place):  # a link further up may come to lead elsewhere
            above, place = place, os.path.dirname(place)  # noqa: PTH120
            probe(place)
    return Path(os.path.realpath(path))


def _state(path: str, *, entries: bool) -> tuple[int, ...]:
    """Return what tells a path from itself changed or replaced; first, the last time of change that counts (ns)."""
    newest = 0
    link: tuple[int, ...] = ()
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            newest, link = status.st_ctime_ns, (status.st_ino, status.st_ctime_ns, status.st_uid)
            status = os.stat(path)  # noqa: PTH116 - half the time of pathlib
    except (OSError, ValueError) as error:
        return (newest, getattr(error, "errno", None) or 0, *link)
    state = (status.st_ino, status.st_dev, status.st_mode, status.st_uid, *link)
    if stat.S_ISDIR(status.st_mode) and not entries:
        return (newest, *state)
    newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
    return (newest, *state, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def flags(*names: str) -> int:
    """Return the flags of `os.open` by their names without `O_`; those that this system lacks are left out."""
    return reduce(operator.or_, (getattr(os, f"O_{name}", 0) for name in names))


# O_NONBLOCK: opening a FIFO would otherwise block until there is a writer; regular files ignore it.
# O_NOCTTY: a terminal must not become our controlling one. O_BINARY: Windows would translate line endings.
_READ = flags("RDONLY", "CLOEXEC", "NONBLOCK", "NOCTTY", "BINARY")


def open_regular(path: Path | str, *, dir_fd: int | None = None, follow: bool = True) -> int:
    """Open a file for reading if it is a regular one, or with `follow` a link, and return a descriptor."""
    probe(path)
    descriptor = os.open(path, _READ | (0 if follow else getattr(os, "O_NOFOLLOW", 0)), dir_fd=dir_fd)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_regular(path: Path | str, limit: int, *, follow: bool = True) -> bytes:
    """Read a whole regular file; raise `OSError` with `EFBIG` if it is larger than `limit` bytes."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"Larger than {limit} bytes", str(path))
    return data


WORKING_DIRECTORY_GONE = (
    "The working directory no longer exists. Change to another directory, or name one with --root DIR."
)


def user_home(env: Mapping[str, str]) -> Path:
    """Return the home directory named by `env`, else that of the current user."""
    named = env.get("USERPROFILE" if os.name == "nt" else "HOME")
    return Path(named) if named else Path.home()


def expand(text: str, home: Path, folder: Path) -> Path:
    """Expand a path: `~` and `~/…` are below `home`, a relative path is below `folder`, `~name` too."""
    if text == "~" or text.startswith(("~/", f"~{os.sep}")):  # `~name` would depend on a machine's accounts
        return home / text[2:].lstrip("/" + os.sep)
    return folder / text


def working_directory() -> Path | None:
    """Return the working directory, or None if it was deleted or is not accessible any more."""
    with suppress(OSError):
        return Path.cwd()
    return None


ANSWERS, PACKAGES, SESSIONS = "answers", "packages", "sessions"
"""Folders of a language model's answers in the cache directory; in the data directory, of the documentation of packages
and of the logs that are made of clients' databases."""


def own_folder(kind: Literal["cache", "data"], env: Mapping[str, str], override: Path | None = None) -> Path:
    """Return kbhub's folder of indexes, or of data that cannot be rebuilt.

    It is `override` (an option), else `KBHUB_CACHE_DIR` or `KBHUB_DATA_DIR`, else the user's cache or data directory.
    """
    if named := env.get(f"KBHUB_{kind.upper()}_DIR") if override is None else str(override):
        return expand(named, user_home(env), Path()).absolute()
    if sys.platform == "linux":
        named = env.get(f"XDG_{kind.upper()}_HOME", "").strip()
        return Path(named or user_home(env) / {"data": ".local/share", "cache": ".cache"}[kind]) / "kbhub"
    import platformdirs  # noqa: PLC0415 - 4 MB, which windows on Linux do without

    folder = platformdirs.user_data_dir if kind == "data" else platformdirs.user_cache_dir
    return Path(folder("kbhub", appauthor=False))


def numbered(path: str) -> Iterator[str]:
    """Yield a path, then the same with `-2`, `-3` … before its suffix, for who looks for a free name."""
    stem, dot, suffix = path.rpartition(".")
    yield path
    yield from (f"{stem}-{number}{dot}{suffix}" for number in count(2))


def is_directory(path: Path) -> bool:
    """Return whether a folder exists and is accessible; permission errors and missing drives count as no."""
    probe(path)
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises for them


def why_no_directory(path: Path) -> str:
    """Return why a path is not a folder, as a phrase to follow its name."""
    try:
        path.stat()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "is not a directory"


def private_directory(path: Path) -> Path:
    """Create a folder and its missing parents, accessible to the current user only; existing ones keep their mode."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path


@contextmanager
def held(lock: Path, seconds: float, failed: Callable[[str], Exception]) -> Iterator[None]:
    """Hold a lock file; raise what `failed` makes of the reason if others hold it for so long, or it cannot be had."""
    import filelock  # noqa: PLC0415 - imports asyncio, which windows do without

    try:
        private_directory(lock.parent)
        acquired = filelock.FileLock(lock, timeout=seconds, mode=0o600).acquire()
    except filelock.Timeout as error:
        raise failed(f"another process has held {lock} for {seconds:g} s; try again") from error
    except OSError as error:
        raise failed(f"{lock} cannot be created: {error.strerror or error}") from error
    with acquired:
        yield


ABANDONED_SECONDS = 3600.0
"""Age in seconds from which a temporary file was left behind by a killed process; writing one takes milliseconds."""

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".kbhub-", ".tmp"
"""Of unfinished files; hidden, so that they are never indexed."""

NEW_FILE_MODE, NEW_FOLDER_MODE = 0o666, 0o777
"""Modes of new files and folders before the umask, as in other editors."""

STEPWISE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
"""Whether paths can be opened step by step, so that no folder is replaced by a link between check and open."""
FOLDER = flags("RDONLY", "DIRECTORY", "NOFOLLOW", "CLOEXEC")
_NEW = flags("WRONLY", "CREAT", "EXCL", "NOFOLLOW", "CLOEXEC", "BINARY")
_SAME = operator.attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


def write_atomically(path: Path, text: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically: readers, and crashes, see either the old content or the new."""
    # Renaming is only atomic within a folder.
    data = text.encode("utf-8") if isinstance(text, str) else text
    with _unfinished(path.parent, None, data, mode) as temporary:
        os.replace(temporary, path)  # noqa: PTH105
    sync_folder(path.parent)


@contextmanager
def _unfinished(
    folder: Path, descriptor: int | None, data: bytes, mode: int | None, like: os.stat_result | None = None
) -> Iterator[str]:
    """Write bytes to a new file, removed at the end if it still exists; yield its path, or its name in `descriptor`."""
    name = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    place = str(folder / name) if descriptor is None else name
    opened = os.open(place, _NEW, NEW_FILE_MODE if mode is None else 0o600, dir_fd=descriptor)
    try:
        with os.fdopen(opened, "wb") as file:
            if like is not None and hasattr(os, "fchown"):
                with suppress(OSError):  # only root may change the owner
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            if mode is not None and mode != 0o600 and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield place
    finally:
        with suppress(FileNotFoundError):
            os.unlink(place, dir_fd=descriptor)


def content_of(path: Path, limit: int) -> bytes | None:
    """Return a configuration file, following links; None if there is none, `ConfigError` if it cannot be read."""
    try:
        return read_regular(os.path.realpath(path), limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error


def edit_content(
    path: Path, limit: int, change: Callable[[bytes | None], bytes | None], *, new_mode: int = 0o644
) -> bytes | None:
    """Edit, create or delete a configuration file, and return what it was; a link stays one, and a mode what it was.

    `change` maps the old content to the new; None stands for no file. `ConfigError` if the file changed meanwhile.
    """
    real = Path(os.path.realpath(path))
    before = content_of(path, limit)
    after = change(before)
    if after == before:
        return before
    if content_of(path, limit) != before:
        raise ConfigError(path, "another program changed the file at the same time; nothing was written, try again")
    try:
        if after is None:
            real.unlink()
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            mode = new_mode if before is None else stat.S_IMODE(real.stat().st_mode)
            write_atomically(real, after, mode=mode)
    except OSError as error:
        raise ConfigError(path, f"cannot be written: {error.strerror or error}") from error
    return before


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power failure; Windows cannot open folders, so it is skipped there."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_new(source: str, target: str, source_fd: int | None, target_fd: int | None) -> None:
    """Rename a file, or raise `FileExistsError` if the new name is taken; the descriptors are of open folders."""
    if os.name == "nt":
        os.rename(source, target)  # noqa: PTH104 - never overwrites on Windows
        return
    follow = os.link not in os.supports_follow_symlinks
    try:
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The lock excludes other kbhub processes; only a foreign program could come between these two lines.
        with suppress(FileNotFoundError):
            os.stat(target, dir_fd=target_fd, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        return
    os.unlink(source, dir_fd=source_fd)


@struct
class Content:
    """A file as it was read."""

    data: bytes
    status: os.stat_result


@struct(frozen=False)
class Folder:
    """An open folder of a base."""

    path: Path
    base: Base
    descriptor: int | None
    """None if the system has no operations relative to a descriptor."""

    def names(self) -> list[str]:
        """Return the names of its entries."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)  # noqa: PTH208

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, without following links, or None if there is none."""
        with suppress(FileNotFoundError):
            return os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False)
        return None

    def read(self, name: str) -> Content:
        """Read a regular file; links and other kinds of files raise `OSError`."""
        with os.fdopen(open_regular(self._at(name), dir_fd=self.descriptor, follow=False), "rb") as file:
            return Content(file.read(), os.fstat(file.fileno()))

    def create(self, name: str, data: bytes, mode: int | None = None) -> None:
        """Write a new file; without a mode, it gets the default under the umask."""
        with _unfinished(self.path, self.descriptor, data, mode) as temporary:
            self._check()
            _move_new(temporary, self._at(name), self.descriptor, self.descriptor)
        self.flush()

    def replace(self, name: str, data: bytes, old: Content) -> bool:
        """Replace a file, keeping its mode and, where allowed, its owner."""
        mode = stat.S_IMODE(old.status.st_mode)
        with _unfinished(self.path, self.descriptor, data, mode, old.status) as temporary:
            self._check()
            if not self.is_still(name, old):
                return False
            os.replace(temporary, self._at(name), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.flush()
        return True

    def remove(self, name: str, old: Content) -> bool:
        """Remove a file; return False and leave it alone if it changed since it was read."""
        self._check()
        if not self.is_still(name, old):
            return False
        os.unlink(self._at(name), dir_fd=self.descriptor)
        self.flush()
        return True

    def move(self, name: str, target: Folder, new: str) -> None:
        """Move a file within the base, without overwriting anything."""
        self._check()
        target._check()
        old, existing = self.status(name), target.status(new)
        same = old is not None and existing is not None and os.path.samestat(old, existing)
        if same and old is not None and old.st_nlink == 1:  # only the case differs, on a case-insensitive system
            os.rename(self._at(name), target._at(new), src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        else:
            _move_new(self._at(name), target._at(new), self.descriptor, target.descriptor)
        target.flush()
        if self.path != target.path:
            self.flush()

    def is_still(self, name: str, old: Content) -> bool:
        """Return whether a file is unchanged since it was read."""
        now = self.status(name)
        return now is not None and bool(_SAME(now) == _SAME(old.status))

    def flush(self) -> None:
        """Sync renames and removals to disk, except on Windows, which cannot."""
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def sweep(self) -> None:
        """Delete half-written files of killed processes."""
        for name in self.names():
            if name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
                status = self.status(name)
                if status and stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > ABANDONED_SECONDS:
                    with suppress(OSError):  # already deleted, or owned by another user
                        os.unlink(self._at(name), dir_fd=self.descriptor)

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def _check(self) -> None:
        """Raise `PathNotContained` if the folder was moved or replaced since it was opened."""
        if os.path.realpath(self.path) != str(self.path):
            raise PathNotContained(str(self.path), self.base.id)


@contextmanager
def open_folder(base: Base, parts: Sequence[str], *, make: bool = False) -> Iterator[Folder]:
    """Hold a folder of a base open; `parts` are the folder names from the base downwards, none of them a link.

    With `make`, missing folders are created; those that are still empty in the end are removed.
    """
    root, made = os.path.realpath(base.path), list[Path]()
    folder = Folder(Path(root, *parts), base, os.open(root, FOLDER) if STEPWISE else None)
    try:
        for depth, part in enumerate(parts, start=1):
            path, outer = Path(root, *parts[:depth]), folder.descriptor
            if make:
                with suppress(FileExistsError):
                    os.mkdir(path if outer is None else part, NEW_FOLDER_MODE, dir_fd=outer)
                    made.append(path)
                    folder.flush()
            if outer is None:
                if os.path.realpath(path) != str(path):
                    raise PathNotContained("/".join(parts[:depth]), base.id)
                continue
            try:
                folder.descriptor = os.open(part, FOLDER, dir_fd=outer)
            except OSError as error:
                # For a link to a folder, O_NOFOLLOW fails with ENOTDIR on Linux and with ELOOP or EMLINK elsewhere.
                with suppress(OSError):
                    if stat.S_ISLNK(os.stat(part, dir_fd=outer, follow_symlinks=False).st_mode):
                        raise PathNotContained(part, base.id) from error
                raise
            os.close(outer)
        yield folder
    finally:
        if folder.descriptor is not None:
            os.close(folder.descriptor)
        for path in reversed(made):
            with suppress(OSError):  # it is not empty
                path.rmdir()
