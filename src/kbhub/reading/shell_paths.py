"""Paths as typed or completed in a shell, relative to the working directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.documents.traversal import inside_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbhub.types import Base


def typed_into(here: Path | None, path: str, bases: Iterable[Base]) -> list[tuple[Base, str]]:
    """Return the bases that a path leads into, each with the path in it, innermost first.

    Args:
        here: directory the path is relative to; without one (None) it leads nowhere.
        path: any string.
        bases: all bases it may lead into.
    """
    if here is None or not path or "\0" in path:
        return []
    whole = os.path.normpath(os.path.join(here, path))  # noqa: PTH118 - any string comes here
    folder, name = os.path.split(whole)
    # Bases have real paths. A symlink within a base is a document of its own; one to the base is the base.
    reals = dict.fromkeys((os.path.join(os.path.realpath(folder), name), os.path.realpath(whole)))  # noqa: PTH118
    places = [
        (base, inside.replace(os.sep, "/"))
        for real in reals
        for base in bases
        if (inside := inside_of(str(base.path), real)) is not None
    ]
    return sorted(places, key=lambda place: len(place[0].path.parts), reverse=True)
