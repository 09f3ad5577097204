"""kbhub's own folders, path helpers, and safe reading and writing of files."""

from __future__ import annotations

import errno
import operator
import os
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from itertools import count
from pathlib import Path

RACY_SECONDS = 2.0
"""A file changed this recently may change again within one tick of its clock (2 s on FAT)."""


class FileStates:
    """The files and folders behind a cached value, which holds while none of them changes."""

    def __init__(self, listed: Iterable[tuple[str, bool, list[int]]] = ()) -> None:
        self._seen = {(path, entries): tuple(state) for path, entries, state in listed}
        self._uncertain = False

    def as_list(self) -> list[tuple[str, bool, tuple[int, ...]]] | None:
        """Return them for another process, or None if they are uncertain."""
        return None if self._uncertain else [(*key, state) for key, state in self._seen.items()]

    @contextmanager
    def record(self) -> Iterator[None]:
        """Note every path that this thread asks about meanwhile; see `probe`."""
        _recorder.states = self
        try:
            yield
        finally:
            _recorder.states = None

    def note(self, path: str, *, entries: bool) -> None:
        """Note the state of a path before it is looked at."""
        if (path, entries) not in self._seen:
            self._seen[path, entries] = state = _state(path, entries=entries)
            # As git does: what changed just now may change once more and look the same.
            self._uncertain |= state[0] > (time.time() - RACY_SECONDS) * 1e9

    def doubt(self) -> None:
        """Note that no file tells whether the result is still the same."""
        self._uncertain = True

    def unchanged(self) -> bool:
        """Return whether every file and folder is certainly as it was."""
        return not self._uncertain and all(
            _state(path, entries=entries) == state for (path, entries), state in self._seen.items()
        )


class _Recorder(threading.local):
    states: FileStates | None = None


_recorder = _Recorder()


def probe(path: Path | str, *, entries: bool = False) -> None:
    """Tell `FileStates.record` that a path decides: its content, for a folder with `entries` the names in it."""
    if _recorder.states:
        _recorder.states.note(str(path), entries=entries)


def probe_in_vain() -> None:
    """Tell `FileStates.record` that something decides which is in no file."""
    if _recorder.states:
        _recorder.states.doubt()


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
    """Open a file for reading if it is a regular one, and return a descriptor, which the caller must close.

    `path` is relative to the descriptor `dir_fd` if that is given, and may be a symbolic link with `follow`.
    """
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
    """Expand a path: `~` and `~/…` are below `home`, a relative path is below `folder`.

    `~name` is an ordinary relative path, so that a file's meaning never depends on a machine's accounts.
    """
    if text == "~":
        return home
    if text.startswith(("~/", f"~{os.sep}")):
        return home / text[2:].lstrip("/" + os.sep)
    return folder / text


def working_directory() -> Path | None:
    """Return the working directory, or None if it was deleted or is not accessible any more."""
    try:
        return Path.cwd()
    except OSError:
        return None


ANSWERS = "answers"
"""Folder of a language model's answers in the cache directory."""

PACKAGES = "packages"
"""Folder of the documentation of packages in the data directory."""

SESSIONS = "sessions"
"""Folder of the logs that are made of clients' databases in the data directory."""


def cache_dir(env: Mapping[str, str], override: Path | None = None) -> Path:
    """Return the folder of indexes: `override` (an option), `KBHUB_CACHE_DIR`, else the user's cache directory."""
    return _own_folder("cache", env, env.get("KBHUB_CACHE_DIR") if override is None else str(override))


def data_dir(env: Mapping[str, str]) -> Path:
    """Return the folder of data that cannot be rebuilt: `KBHUB_DATA_DIR`, else the user's data directory."""
    return _own_folder("data", env, env.get("KBHUB_DATA_DIR"))


def _own_folder(kind: str, env: Mapping[str, str], named: str | None) -> Path:
    """Return the folder that is named, else the system's for data or caches of kbhub."""
    if named:
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
    """Create a folder and its missing parents, accessible to the current user only.

    Existing folders keep their mode.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path
