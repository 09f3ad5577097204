"""What `kbhub restore --json` prints; apart from other results, for it loads all that changes documents."""

from __future__ import annotations

from pydantic import Field

from kbhub.editing.trash import TrashEntry
from kbhub.frozen import Model


class TrashResult(Model):
    """What `kbhub restore` listed or removed for good."""

    entries: tuple[TrashEntry, ...] = Field((), description="What is in the trash, with `--list`; the latest first.")
    removed: tuple[TrashEntry, ...] = Field((), description="What was removed for good.")
