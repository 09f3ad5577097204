"""What lies in a folder, byte for byte, to see whether anything has changed."""

import os
from pathlib import Path


def snapshot(folder: Path, *, leaving_out: tuple[Path, ...] = ()) -> dict[str, tuple]:
    """Give everything below a folder: path → kind and mode, and content or target of a link."""
    found = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(parent, name) not in leaving_out]
        for path in (Path(parent, name) for name in (*folders, *files)):
            content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path)] = (path.lstat().st_mode, content)
    return found
