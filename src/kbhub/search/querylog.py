"""Location of a project's query log, and the session of its entries."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.search.evidence import packaged
from kbhub.workspace.memory_folders import identify

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Discovery

MODEL_DIGITS = 8
"""Hex digits of the model's hash kept with a vector; vectors of another release's model do not count."""

FOLDER = "queries"
"""Folder of the logs in the data directory, with one file per project."""

NO_PROJECT = "no-project"
"""Name of the log if kbhub runs without a directory."""


class _Log:
    """The location of the log of a hub's project."""

    found: tuple[Discovery, Path] | None = None
    """The discovery whose workspace the path was found for, and the path: telling which project it is may take git."""


class LogSession:
    """The session that a hub's queries and reads belong to."""

    name = ""
    """Of the connection; empty where there is none, as on the command line."""

    def at(self, now: float) -> str:
        """Return the session at a time: without a connection, all of a day (UTC) is one."""
        return self.name or datetime.fromtimestamp(now, UTC).date().isoformat()


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


def question_vector(text: str) -> bytes:
    """Return the vector of a question by the packaged model, int8; empty if the model does not know its words."""
    # Imports numpy, which a command that only reads documents does without.
    from kbhub.models.vectors import quantise  # noqa: PLC0415

    try:
        vector = packaged().embed_query(text)
    except EmbedderError:
        return b""
    return quantise(vector).tobytes() if vector.any() else b""
