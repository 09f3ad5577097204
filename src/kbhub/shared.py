"""What the hubs of one process have in common, however many workspaces it serves: models, and indexes in memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kbhub.embedding import is_remote, open_embedder
from kbhub.later import indexes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kbhub.embedding import Embedder
    from kbhub.index import Index
    from kbhub.model_settings import EmbedderSettings

MOST_MODELS = 4
"""Models that are kept; more than one is rare, and each takes tens of megabytes."""


class Shared:
    """Models and open indexes. Safe to use from several threads.

    Which bases a hub may read is decided by its discovery and nowhere here: what is shared is how a file that it may
    read is held in memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._indexes: WeakValueDictionary[tuple[str, Path], Index] = WeakValueDictionary()
        """They live as long as a hub has them."""
        self._embedders: dict[str, Embedder] = {}

    def index(self, base: str, path: Path) -> Index:
        """Give the index of a base, for reading.

        Args:
            base: its id.
            path: of the index.
        """
        with self._lock:
            found = self._indexes.get((base, path))
            if found is None:
                found = self._indexes[base, path] = indexes.Index(path, base)
            return found

    def embedder(self, settings: EmbedderSettings, env: Mapping[str, str]) -> Embedder | None:
        """Give the embedder of some settings, loaded once; none if none is wanted.

        Args:
            settings: which one.
            env: environment variables. A model on a server depends on them, costs nothing to open, and
                is not shared.

        Raises:
            EmbedderError: the settings name one that is not there.
        """
        if settings.model and is_remote(settings.model):
            return open_embedder(settings.model, settings, env)
        name = settings.model or ""
        with self._lock:
            if name in self._embedders:
                return self._embedders[name]
            made = open_embedder(settings.model, settings, env)
            if made:
                while len(self._embedders) >= MOST_MODELS:
                    del self._embedders[next(iter(self._embedders))]
                self._embedders[name] = made
            return made

    def forget_models(self) -> None:
        """Let go of the models; a hub that has one keeps it."""
        with self._lock:
            self._embedders.clear()
