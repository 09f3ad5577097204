"""How much of the files of a base is read."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kbhub.types import Kind
    from kbhub.workspace.settings import LimitSettings

KEPT = "kept"
"""Folder in kbhub's data directory with the texts of deleted files."""


@struct
class Limits:
    """How much of the files of a base is read."""

    file_bytes: int
    """Bytes of the longest file."""
    files: int
    """Files of one base; the rest is left out."""
    kind_bytes: Mapping[Kind, int] = field(default_factory=dict)
    """Bytes of the longest file of kinds with a limit of their own."""
    kept: Path | None = None
    """Folder with the texts of deleted files; None if there is none."""

    @staticmethod
    def of(settings: LimitSettings, data: Path) -> Limits:
        """Return the limits of the settings.

        Args:
            settings: the group `limits`.
            data: kbhub's data directory.
        """
        kinds: dict[Kind, int] = {"pdf": settings.pdf_bytes, "session": settings.session_bytes}
        return Limits(settings.file_bytes, settings.files, kinds, data / KEPT)
