"""Detection of Obsidian vaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.workspace.git import git_root
from kbhub.workspace.places import is_directory

if TYPE_CHECKING:
    from pathlib import Path

VAULT_FOLDER = ".obsidian"
"""Folder in which Obsidian keeps its settings, in the root of a vault."""


def has_inline_tags(said: bool | None, folder: Path, home: Path | None) -> bool:
    """Return whether `#tags` in the text of a base's documents are tags.

    If the configuration does not say (`said` is None), they are where the folder is in a vault, whose root is the
    folder itself or, within a git repository, above it. `home` is no repository; None if the folder is known to be in
    one.
    """
    if said is not None:
        return said
    root = git_root(folder, home)
    for place in (folder, *folder.parents):
        if is_directory(place / VAULT_FOLDER):
            return True
        if root is None or place == root:
            break
    return False
