"""How much is taken on, as the settings say it, in the form that walking and indexing take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from kbhub.keeping import FOLDER
from kbhub.later import opening

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kbhub.config import LimitSettings
    from kbhub.opening import Opener
    from kbhub.types import Kind


class Limits(TypedDict):
    """Keyword arguments of `compare` and `sync_base`."""

    max_bytes: int
    max_files: int
    kind_bytes: Mapping[Kind, int]
    kept: Path


def limits_of(settings: LimitSettings, data: Path) -> Limits:
    """Give the limits of the settings.

    Args:
        settings: the group `limits`.
        data: kbhub's data directory, which has the kept texts.
    """
    return {
        "max_bytes": settings.file_bytes,
        "max_files": settings.files,
        "kind_bytes": {"pdf": settings.pdf_bytes, "session": settings.session_bytes},
        "kept": data / FOLDER,
    }


def opener_of(limits: Limits) -> Opener:
    """Give what opens documents within these limits."""
    return opening.Opener(limits["max_bytes"], limits["kind_bytes"], limits["kept"])
