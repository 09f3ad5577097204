"""Write a file so that readers and crashes see the old content or the new, never a part of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

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
