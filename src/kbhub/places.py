"""kbhub's own folders, and writing a file whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Mapping

ABANDONED_SECONDS = 3600.0
"""Age from which a file half written is what a killed process left behind; writing one takes milliseconds."""

_OURS_ALONE = 0o700

WORKING_DIRECTORY_GONE = (
    "The working directory is gone; change to one that exists, or name the one to work for with --root DIR."
)


def user_home(env: Mapping[str, str]) -> Path:
    """The home directory that `env` names, else that of the user of this process."""
    named = env.get("USERPROFILE" if os.name == "nt" else "HOME")
    return Path(named) if named else Path.home()


def expand(text: str, home: Path, folder: Path) -> Path:
    """A path as people write it: `~` and `~/…` are below `home`, a relative one is below `folder`.

    Only the user's own `~` is known: `~name` is an ordinary relative path, so that what a file says never
    depends on which accounts a machine has.
    """
    if text == "~":
        return home
    if text.startswith(("~/", f"~{os.sep}")):
        return home / text[2:].lstrip("/" + os.sep)
    return folder / text


def working_directory() -> Path | None:
    """The working directory; none if it was deleted, or may not be looked at any more."""
    try:
        return Path.cwd()
    except OSError:
        return None


def cache_dir(env: Mapping[str, str], override: Path | None = None) -> Path:
    """Where indexes lie: `override` (an option), `KBHUB_CACHE_DIR`, else the user's cache directory."""
    named = str(override) if override is not None else env.get("KBHUB_CACHE_DIR")
    if named:
        return expand(named, user_home(env), Path()).absolute()
    return Path(platformdirs.user_cache_dir("kbhub", appauthor=False))


def data_dir(env: Mapping[str, str]) -> Path:
    """Where lies what cannot be made anew (trust): `KBHUB_DATA_DIR`, else the user's data directory."""
    named = env.get("KBHUB_DATA_DIR")
    if named:
        return expand(named, user_home(env), Path()).absolute()
    return Path(platformdirs.user_data_dir("kbhub", appauthor=False))


def is_directory(path: Path) -> bool:
    """Whether a folder is there; one that cannot be looked at (rights, a drive that is gone) is not."""
    return os.path.isdir(path)  # noqa: PTH112 - pathlib's own raises then


def why_no_directory(path: Path) -> str:
    """Say what is in place of a folder that is not there, in words that follow its name."""
    try:
        path.stat()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    return "is not a directory"


def private_directory(path: Path) -> Path:
    """Make a folder, and those above it that are missing, for the current user alone.

    A folder that exists keeps its mode: somebody chose it.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=_OURS_ALONE, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path


def write_atomically(path: Path, text: str | bytes, *, mode: int = 0o600) -> None:
    """Write a file such that any reader, and any crash, sees the old or the new one whole.

    Args:
        path: the file, in a folder that exists.
        text: what it holds; a `str` becomes UTF-8.
        mode: its mode.

    Raises:
        OSError: it cannot be written; the old file is untouched and nothing is left behind.
    """
    data = text.encode("utf-8") if isinstance(text, str) else text
    # mkstemp makes it 0600 under a name that nobody can guess, in the same folder: only there is a rename atomic.
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
    """Make a rename in `folder` survive a power failure; Windows cannot open folders and does without."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
