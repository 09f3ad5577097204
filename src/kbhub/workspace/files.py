"""kbhub's own folders, path helpers, and safe reading and writing of files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Mapping

# O_NONBLOCK: opening a FIFO would otherwise block until there is a writer; regular files ignore it.
# O_NOCTTY: a terminal must not become our controlling one. O_BINARY: Windows would translate line endings.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def open_regular(path: Path | str, *, dir_fd: int | None = None, follow: bool = True) -> int:
    """Open a file for reading if it is a regular one, and return a descriptor, which the caller must close.

    `path` is relative to the descriptor `dir_fd` if that is given, and may be a symbolic link with `follow`.
    """
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


ABANDONED_SECONDS = 3600.0
"""Age in seconds from which a temporary file was left behind by a killed process; writing one takes milliseconds."""


def write_atomically(path: Path, text: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically: readers, and crashes, see either the old content or the new.

    The folder must exist; a `str` is encoded as UTF-8. If it fails, the old file is untouched and nothing is left
    behind.
    """
    data = text.encode("utf-8") if isinstance(text, str) else text
    # mkstemp creates a 0600 file with an unpredictable name; renaming is only atomic within a folder.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode != 0o600 and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power failure; Windows cannot open folders, so it is skipped there."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_OURS_ALONE = 0o700

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


def cache_dir(env: Mapping[str, str], override: Path | None = None) -> Path:
    """Return the folder of indexes: `override` (an option), `KBHUB_CACHE_DIR`, else the user's cache directory."""
    named = str(override) if override is not None else env.get("KBHUB_CACHE_DIR")
    if named:
        return expand(named, user_home(env), Path()).absolute()
    return Path(platformdirs.user_cache_dir("kbhub", appauthor=False))


def data_dir(env: Mapping[str, str]) -> Path:
    """Return the folder of data that cannot be rebuilt: `KBHUB_DATA_DIR`, else the user's data directory."""
    named = env.get("KBHUB_DATA_DIR")
    if named:
        return expand(named, user_home(env), Path()).absolute()
    return Path(platformdirs.user_data_dir("kbhub", appauthor=False))


def is_directory(path: Path) -> bool:
    """Return whether a folder exists and is accessible; permission errors and missing drives count as no."""
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
        folder.mkdir(mode=_OURS_ALONE, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path
