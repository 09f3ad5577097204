"""What lies in a folder, byte for byte, to see whether anything has changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def snapshot(folder: Path, *, leaving_out: tuple[Path, ...] = ()) -> dict[str, tuple]:
    """Give everything below a folder: path → kind and mode, and content or target of a link."""
    found = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(parent, name) not in leaving_out]
        for name in (*folders, *files):
            path = Path(parent, name)
            state = path.lstat()
            content: object = None
            if stat.S_ISLNK(state.st_mode):
                content = path.readlink()
            elif stat.S_ISREG(state.st_mode):
                content = path.read_bytes()
            found[str(path)] = (state.st_mode, content)
    return found
