"""The default base for saved chat answers: a folder in the data directory, active once it exists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.types import Base, Discovery
from kbhub.workspace.places import is_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLETIONS_ID = "completions"
"""Id of the base; a base of the user's with this id takes precedence."""


def completions_folder(data: Path) -> Path:
    """Return its folder in kbhub's data directory, links resolved."""
    return Path(os.path.realpath(data)) / COMPLETIONS_ID


def with_completions(discovery: Discovery, data: Path, configured: Mapping[str, object]) -> Discovery:
    """Add the base to those found by discovery, if its folder exists.

    Args:
        discovery: the active bases of a workspace.
        data: kbhub's data directory.
        configured: ids of the user's own bases, active here or not.
    """
    if discovery.off:
        return discovery
    folder = completions_folder(data)
    taken = {name for base in discovery.bases for name in (base.id, *base.names)} | set(configured)
    if COMPLETIONS_ID in taken or not is_directory(folder) or folder in {base.path for base in discovery.bases}:
        return discovery
    base = Base(
        id=COMPLETIONS_ID,
        path=folder,
        origin="config",
        name="Chat answers",
        description="Answers of language models, saved by `kbhub distil`; not checked by anybody.",
        writable=True,
    )
    return discovery.model_copy(update={"bases": (*discovery.bases, base)})
