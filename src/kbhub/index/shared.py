"""State shared by all hubs of a process, however many workspaces it serves: models and open indexes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kbhub.index.engine import Index
from kbhub.index.sqlite import SqliteIndex
from kbhub.models.embedding import Embedder, is_remote, open_embedder
from kbhub.types import Base
from kbhub.workspace.settings import EmbedderSettings

if TYPE_CHECKING:
    from kbhub.index.postgres.server import Server

MOST_MODELS = 4
"""Models kept loaded; more than one is rare, and each takes tens of megabytes."""

READERS = 2
"""Concurrent searches and reads of a process; others wait. Python runs one of them at a time, and each further one that
wants its turn takes time from it: with four, eight windows of one daemon got three quarters as many answers. The
second one goes on while the first waits for a model or scans a large base."""

WAITING_READERS = 4
"""The same where a base is on a database server, as they mostly wait for it. Each holds two descriptors per local base,
and a process may have as few as 256 (macOS)."""


class SharedState:
    """Models, open indexes, and how many may use them at a time. Thread-safe.

    Access control is up to each hub's discovery; this only decides how an index is held in memory.
    """

    def __init__(self) -> None:
        self._readers, self._waiting = (threading.BoundedSemaphore(most) for most in (READERS, WAITING_READERS))
        self._lock = threading.Lock()
        self._indexes: WeakValueDictionary[tuple[str, Path], Index] = WeakValueDictionary()
        """Dropped when no hub uses them."""
        self._embedders: dict[str, Embedder] = {}
        self._servers: dict[tuple[str, float], Server] = {}
        self._team: dict[tuple[object, ...], Index] = {}
        """Indexes of shared bases by what names them."""

    def readers(self, bases: Iterable[Base]) -> threading.BoundedSemaphore:
        """Return the limit on concurrent searches and reads of some bases."""
        return self._waiting if any(base.engine for base in bases) else self._readers

    def index(self, base: str, path: Path) -> Index:
        """Return the index of a base, for reading."""
        with self._lock:
            index = self._indexes.get((base, path))
            if index is None:
                index = self._indexes[base, path] = SqliteIndex(path, base)
            return index

    def team_index(self, base: Base, env: Mapping[str, str]) -> Index:
        """Return the index of a shared base, for reading; the database's credentials come from `env`."""
        # The driver takes 80 ms to load, and few have such a base.
        from kbhub.index.postgres import PostgresIndex, Server  # noqa: PLC0415

        url, name = base.engine or "", base.shared_as or base.id
        with self._lock:
            if (url, base.timeout) not in self._servers:
                self._servers[url, base.timeout] = Server(url, base.timeout, env)
            key = (base.id, url, name, base.timeout)
            if key not in self._team:
                self._team[key] = PostgresIndex(base.path / "index", base.id, self._servers[url, base.timeout], name)
            return self._team[key]

    def embedder(self, settings: EmbedderSettings, env: Mapping[str, str]) -> Embedder | None:
        """Return the embedder of some settings, loaded once, or None if it is disabled.

        A model on a server depends on `env`, costs nothing to open, and is not shared. An unknown embedder raises
        EmbedderError.
        """
        if settings.model and is_remote(settings.model):
            return open_embedder(settings.model, settings, env)
        name = settings.model or ""
        with self._lock:
            if name in self._embedders:
                return self._embedders[name]
            embedder = open_embedder(settings.model, settings, env)
            if embedder:
                while len(self._embedders) >= MOST_MODELS:
                    del self._embedders[next(iter(self._embedders))]
                self._embedders[name] = embedder
            return embedder

    def forget_models(self) -> None:
        """Drop all models; hubs that use one keep it."""
        with self._lock:
            self._embedders.clear()
