"""kbhub's own folders, and path helpers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Mapping

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
