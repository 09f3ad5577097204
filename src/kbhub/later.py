"""Modules that are loaded when something of them is first used.

The handshake of a server needs a tenth of kbhub, and a client waits for it; what its calls want is loaded by them. Who
is imported for the handshake takes such modules from here: `from kbhub.later import syncing`, and `syncing.compare`
loads `kbhub.sync`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "catalogue",
    "chunking",
    "gaps",
    "hits",
    "indexes",
    "known",
    "limits",
    "maintenance",
    "markdown",
    "mentions",
    "parts",
    "pdf",
    "querying",
    "reading",
    "recording",
    "searching",
    "sessions",
    "states",
    "surroundings",
    "syncing",
    "walk",
]


class _Later:
    """Stands for a module.

    Args:
        module: its whole name.
    """

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._module), name)


if TYPE_CHECKING:
    from kbhub import chunking, hits, limits, markdown, reading, surroundings, walk
    from kbhub import index as indexes
    from kbhub import query as querying
    from kbhub import search as searching
    from kbhub import status as states
    from kbhub import sync as syncing
    from kbhub.index import catalogue, mentions
    from kbhub.memory import known
    from kbhub.querylog import maintenance, recording
    from kbhub.render import gaps
    from kbhub.sources import parts, pdf, sessions
else:
    catalogue = _Later("kbhub.index.catalogue")
    chunking = _Later("kbhub.chunking")
    gaps = _Later("kbhub.render.gaps")
    hits = _Later("kbhub.hits")
    indexes = _Later("kbhub.index")
    known = _Later("kbhub.memory.known")
    limits = _Later("kbhub.limits")
    maintenance = _Later("kbhub.querylog.maintenance")
    markdown = _Later("kbhub.markdown")
    mentions = _Later("kbhub.index.mentions")
    parts = _Later("kbhub.sources.parts")
    pdf = _Later("kbhub.sources.pdf")
    querying = _Later("kbhub.query")
    reading = _Later("kbhub.reading")
    recording = _Later("kbhub.querylog.recording")
    searching = _Later("kbhub.search")
    sessions = _Later("kbhub.sources.sessions")
    states = _Later("kbhub.status")
    surroundings = _Later("kbhub.surroundings")
    syncing = _Later("kbhub.sync")
    walk = _Later("kbhub.walk")
