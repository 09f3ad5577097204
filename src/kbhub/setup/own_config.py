"""Locate and edit the global config file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.errors import UsageError
from kbhub.workspace.checking import nearest
from kbhub.workspace.config import checked_config, config_path
from kbhub.workspace.config_editing import alone, edit_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kbhub.hub import Hub
    from kbhub.workspace.settings import GlobalConfig


def config_file(hub: Hub) -> Path:
    """Return the path of the global config in force, which need not exist yet."""
    return config_path(hub.options.config, hub.options.env, hub.options.home)[0]


def edit_config(hub: Hub, edit: Callable[[str, GlobalConfig], str]) -> bool:
    """Edit the global config in force and reload it; invalid content is never written.

    Args:
        hub: hub of the workspace.
        edit: returns the new text for the old text and its parsed settings.

    Returns:
        Whether anything changed.

    Raises:
        ConfigError: the file is or would become invalid, or cannot be written.
    """
    path, home = config_file(hub), hub.options.home

    def check(data: Any) -> None:
        checked_config(data, path, home)

    with alone(hub.trust.path.parent):
        # Reload, as the file may have been edited since.
        hub.rediscover()
        changed = edit_file(path, lambda text: edit(text, hub.config().settings), check)
    hub.rediscover()
    return changed


def portable(folder: Path, home: Path) -> str:
    """Return a path relative to `~` if it is below the home directory, to be valid on other machines too."""
    for above in (home, Path(os.path.realpath(home))):
        if folder.is_relative_to(above):
            inside = folder.relative_to(above).as_posix()
            return "~" if inside == "." else f"~/{inside}"
    return str(folder)


def places_of(settings: GlobalConfig, name: str) -> tuple[str, ...]:
    """Return the entries of `repos` that include a base."""
    return tuple(key for key in settings.repos if name in settings.active_in(key))


def unknown_base(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for an unknown base id, with the most similar known one."""
    names = list(known)
    near = nearest(name, names)
    listed = f"did you mean {near!r}?" if near else f"there {'are ' + ', '.join(names) if names else 'is none'}."
    return UsageError(f"No base {name!r}; {listed}")
