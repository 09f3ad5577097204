"""Paths as a person types them in a shell, or the shell completes them: from the working directory into a base."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.traversal import inside_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbhub.types import Base


def typed_into(here: Path | None, path: str, bases: Iterable[Base]) -> list[tuple[Base, str]]:
    """Give the bases that a path leads into, each with the path in there, the innermost first.

    Args:
        here: directory that the path is typed in; none if there is none, and then it leads nowhere.
        path: any string.
        bases: all that it may lead into.
    """
    if here is None or not path or "\0" in path:
        return []
    whole = os.path.normpath(os.path.join(here, path))  # noqa: PTH118 - any string comes here
    folder, name = os.path.split(whole)
    # A base is known by its real path. A link in it is a document of its own; one to the base is the base.
    reals = dict.fromkeys((os.path.join(os.path.realpath(folder), name), os.path.realpath(whole)))  # noqa: PTH118
    found = [
        (base, inside.replace(os.sep, "/"))
        for real in reals
        for base in bases
        if (inside := inside_of(str(base.path), real)) is not None
    ]
    return sorted(found, key=lambda one: len(one[0].path.parts), reverse=True)
