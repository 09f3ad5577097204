"""Location of a project's query log, and the session of a connection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.workspace.memory_folders import identify

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Discovery

FOLDER = "queries"
"""Folder of the logs in the data directory, with one file per project."""

NO_PROJECT = "no-project"
"""Name of the log if kbhub runs without a directory."""


class _Log:
    """The location of the log of a hub's project."""

    found: tuple[Discovery, Path] | None = None
    """The discovery whose workspace the path was found for, and the path: telling which project it is may take git."""


class LogSession:
    """The session that a hub's memories belong to."""

    name = ""
    """Of the connection; empty where there is none, as on the command line."""


def logs_folder(hub: Hub) -> Path:
    """Return the folder of the logs of all projects."""
    return Path(os.path.realpath(hub.data)) / FOLDER


def log_path(hub: Hub) -> Path:
    """Return the path of the log of a hub's project; clones and worktrees share one."""
    discovery, log = hub.discovery(), hub.state(_Log)
    if log.found is None or log.found[0] is not discovery:
        identity = identify(discovery.workspace)
        log.found = discovery, logs_folder(hub) / f"{identity.digest if identity else NO_PROJECT}.db"
    return log.found[1]
