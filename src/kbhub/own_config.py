"""The global config as a file to edit: where it is, what it says of places, and how it is changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.checking import nearest
from kbhub.config import checked_config, config_path
from kbhub.config_editing import alone, edit_file
from kbhub.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbhub.config import GlobalConfig
    from kbhub.hub import Hub


def config_file(hub: Hub) -> Path:
    """Give the global config that is in force, which need not exist yet."""
    return config_path(hub.options.config, hub.options.env, hub.options.home)[0]


def edit_config(hub: Hub, edit: Callable[[str, GlobalConfig], str]) -> bool:
    """Edit the global config that is in force, and look at it anew; nothing is written that would not load.

    Args:
        hub: of the workspace.
        edit: gives the new text for the old, and for what it says.

    Returns:
        Whether anything changed.

    Raises:
        ConfigError: the file is malformed, would be, or cannot be written.
    """
    path, home = config_file(hub), hub.options.home

    def check(data: Any) -> None:
        checked_config(data, path, home)

    with alone(hub.trust.path.parent):
        # What was read a moment ago may have been edited since.
        hub.rediscover()
        changed = edit_file(path, lambda text: edit(text, hub.config().settings), check)
    hub.rediscover()
    return changed


def portable(folder: Path, home: Path) -> str:
    """Give a path as it means the same on another machine of the user's: below `~`, if it is."""
    for above in (home, Path(os.path.realpath(home))):
        if folder.is_relative_to(above):
            inside = folder.relative_to(above).as_posix()
            return "~" if inside == "." else f"~/{inside}"
    return str(folder)


def places_of(settings: GlobalConfig, name: str) -> tuple[str, ...]:
    """Give the entries of `repos` that name a base."""
    return tuple(key for key in settings.repos if name in settings.active_in(key))


def unknown_base(name: str, known: Iterable[str]) -> UsageError:
    """Give the error about an id that the config has not, with the nearest that it has."""
    known = list(known)
    near = nearest(name, known)
    listed = f"did you mean {near!r}?" if near else f"there {'are ' + ', '.join(known) if known else 'is none'}."
    return UsageError(f"No base {name!r}; {listed}")
