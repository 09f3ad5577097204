"""Modules that are loaded when something of them is first used.

The handshake of a server needs a tenth of kbhub, and a client waits for it; what its calls want is loaded by them. Who
is imported for the handshake takes such modules from here: `from kbhub.later import syncing`, and `syncing.compare`
loads `kbhub.sync`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Number",
    "Parameter",
    "catalogue",
    "chunking",
    "expanded_search",
    "filelock",
    "gaps",
    "hits",
    "indexes",
    "judging",
    "known",
    "limits",
    "listings",
    "maintenance",
    "markdown",
    "mentions",
    "opening",
    "outside",
    "pages",
    "parts",
    "pdf",
    "pulling",
    "querying",
    "reading",
    "recording",
    "reports",
    "searching",
    "sessions",
    "shelves",
    "standing",
    "states",
    "surroundings",
    "syncing",
    "walk",
    "workers",
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


class _Called:
    """Stands for a class of a library that annotations name: it is loaded when one of them is evaluated.

    Args:
        module: where it is.
        name: of the class.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: object, **kwargs: object) -> object:
        return getattr(import_module(self._module), self._name)(*args, **kwargs)


if TYPE_CHECKING:
    import filelock
    from cyclopts import Parameter
    from cyclopts.validators import Number

    from kbhub import (
        chunking,
        expanded_search,
        hits,
        judging,
        limits,
        markdown,
        opening,
        outside,
        pulling,
        reading,
        reports,
        shelves,
        surroundings,
        walk,
        workers,
    )
    from kbhub import index as indexes
    from kbhub import query as querying
    from kbhub import search as searching
    from kbhub import status as states
    from kbhub import sync as syncing
    from kbhub.index import catalogue, mentions
    from kbhub.memory import known, standing
    from kbhub.querylog import maintenance, recording
    from kbhub.render import formats as listings
    from kbhub.render import gaps, pages
    from kbhub.sources import parts, pdf, sessions
else:
    Number = _Called("cyclopts.validators", "Number")
    Parameter = _Called("cyclopts", "Parameter")
    catalogue = _Later("kbhub.index.catalogue")
    chunking = _Later("kbhub.chunking")
    expanded_search = _Later("kbhub.expanded_search")
    filelock = _Later("filelock")
    judging = _Later("kbhub.judging")
    opening = _Later("kbhub.opening")
    outside = _Later("kbhub.outside")
    pulling = _Later("kbhub.pulling")
    gaps = _Later("kbhub.render.gaps")
    hits = _Later("kbhub.hits")
    indexes = _Later("kbhub.index")
    known = _Later("kbhub.memory.known")
    limits = _Later("kbhub.limits")
    maintenance = _Later("kbhub.querylog.maintenance")
    listings = _Later("kbhub.render.formats")
    markdown = _Later("kbhub.markdown")
    mentions = _Later("kbhub.index.mentions")
    pages = _Later("kbhub.render.pages")
    parts = _Later("kbhub.sources.parts")
    pdf = _Later("kbhub.sources.pdf")
    querying = _Later("kbhub.query")
    reading = _Later("kbhub.reading")
    recording = _Later("kbhub.querylog.recording")
    reports = _Later("kbhub.reports")
    searching = _Later("kbhub.search")
    sessions = _Later("kbhub.sources.sessions")
    shelves = _Later("kbhub.shelves")
    standing = _Later("kbhub.memory.standing")
    states = _Later("kbhub.status")
    surroundings = _Later("kbhub.surroundings")
    syncing = _Later("kbhub.sync")
    walk = _Later("kbhub.walk")
    workers = _Later("kbhub.workers")
