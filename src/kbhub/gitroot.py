"""What git's files tell about a directory, read without running git."""

from __future__ import annotations

import os
from pathlib import Path

from kbhub.files import read_regular

_MAX_LINE_BYTES = 8192
"""Bytes of a `.git`, `gitdir` or `commondir` file: one path, and no system takes longer ones than 4096."""


def git_root(directory: Path, home: Path | None) -> Path | None:
    """The nearest folder at or above `directory` that holds `.git`, a directory or a file.

    The home directory is never a git root: a repository of dotfiles would make every file of the user's
    part of a project.

    Args:
        directory: absolute, links resolved.
        home: the home directory, links resolved; none to take a repository there, too.
    """
    folder, above = str(directory), None
    while folder != above:  # plain strings: pathlib takes three times as long, in every folder on the way
        if os.path.exists(f"{folder}{os.sep}.git"):  # noqa: PTH110
            return None if home and folder == str(home) else Path(folder)
        above, folder = folder, os.path.dirname(folder)  # noqa: PTH120
    return None


def main_worktree(root: Path) -> Path | None:
    """The main worktree of a repository, if `root` is the root of a linked one.

    Only believed if the repository knows this worktree too: a `.git` file could have come in an archive and
    name any repository of the user's. A submodule's `.git` file leads to no other worktree.

    Args:
        root: a git root, absolute, links resolved.
    """
    admin = _path_in(root / ".git", "gitdir: ")
    if admin is None:
        return None
    back, common = _path_in(admin / "gitdir"), _path_in(admin / "commondir")
    if back is None or common is None or back.name != ".git" or back.parent.resolve() != root:
        return None
    common = common.resolve()
    if admin.resolve().parent != common / "worktrees":
        return None  # the folder that says so is not the repository's own
    main = common.parent
    return main if common.name == ".git" and main != root else None


def _path_in(file: Path, prefix: str = "") -> Path | None:
    """The path that a file of git's consists of, relative to the file's folder."""
    try:
        text = os.fsdecode(read_regular(file, _MAX_LINE_BYTES)).rstrip("\r\n")
    except OSError:
        return None
    if not text.startswith(prefix) or "\0" in text or len(text) == len(prefix):
        return None
    return Path(os.path.normpath(file.parent / text.removeprefix(prefix)))
