"""Find git roots and main worktrees from git's files, without running git."""

from __future__ import annotations

import os
from pathlib import Path

from kbhub.workspace.files import read_regular

_MAX_LINE_BYTES = 8192
"""Largest `.git`, `gitdir` or `commondir` file in bytes; it has one path, which no system allows beyond 4096."""


def git_root(directory: Path, home: Path | None) -> Path | None:
    """Return the nearest folder at or above `directory` that contains `.git`, a directory or a file, or None.

    The home directory is never a git root, as a repository of dotfiles would make all of the user's files part of a
    project.

    Args:
        directory: absolute, links resolved.
        home: the home directory, links resolved; None to accept a repository there.
    """
    folder, above = str(directory), None
    while folder != above:  # plain strings, as pathlib takes three times as long per folder
        if os.path.exists(f"{folder}{os.sep}.git"):  # noqa: PTH110
            return None if home and folder == str(home) else Path(folder)
        above, folder = folder, os.path.dirname(folder)  # noqa: PTH120
    return None


def main_worktree(root: Path) -> Path | None:
    """Return the main worktree of a repository if `root` is a linked worktree, else None.

    The repository must list this worktree too: a `.git` file could come from an archive and name any of the user's
    repositories. Submodules have no main worktree.

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
        return None  # not the repository's own administrative folder
    main = common.parent
    return main if common.name == ".git" and main != root else None


def _path_in(file: Path, prefix: str = "") -> Path | None:
    """Path in one of git's single-line files, resolved against the file's folder."""
    try:
        text = os.fsdecode(read_regular(file, _MAX_LINE_BYTES)).rstrip("\r\n")
    except OSError:
        return None
    if not text.startswith(prefix) or "\0" in text or len(text) == len(prefix):
        return None
    return Path(os.path.normpath(file.parent / text.removeprefix(prefix)))
