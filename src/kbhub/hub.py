"""The hub: the state shared by everything that works on the active bases."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from kbhub.documents.walk import KEPT, Limits
from kbhub.errors import BaseNotFound, UsageError
from kbhub.index.engine import Index
from kbhub.index.sqlite.index import SqliteIndex, index_path
from kbhub.models.embedding import MINILM, Embedder, open_embedder, own_model, packaged_embedder, transformer
from kbhub.types import Base, Discovery, Kind, Problem, Workspace
from kbhub.values import struct
from kbhub.workspace.config import LoadedConfig, load_config, shown_url
from kbhub.workspace.discovery import Files, discover, find_workspace, with_own, workspace_from_roots
from kbhub.workspace.extensions import embedder_for, engine_for, load
from kbhub.workspace.files import FileStates, own_folder, working_directory
from kbhub.workspace.formats import CONVERTED_KINDS
from kbhub.workspace.project import PROJECT_ID, TrustStore
from kbhub.workspace.settings import EmbedderSettings

MOST_MODELS = 4
"""Models kept loaded; more than one is rare, and each takes tens of megabytes."""

READERS = 2
"""Concurrent searches and reads of a process; others wait. Python runs one of them at a time, and each further one that
wants its turn takes time from it: with four, eight windows of one daemon got three quarters as many answers. The
second one goes on while the first waits for a model or scans a large base."""

WAITING_READERS = 4
"""The same where a base is on a database server, as they mostly wait for it. Each holds two descriptors per local base,
and a process may have as few as 256 (macOS)."""


class SharedEngine(Protocol):
    """Holds the indexes of shared bases on a server; an extension declares it for a scheme of URLs."""

    @staticmethod
    def missing() -> str | None:
        """Return what has to be installed before it can be used, in a sentence or two."""
        ...

    def index(self, base: Base, env: Mapping[str, str]) -> Index:
        """Return the index of a base, for reading, without connecting; credentials come from `env`."""
        ...

    def files(self, hub: Any, base: Base) -> Files:
        """Return the memories in a base that takes them."""
        ...

    def takes_memories(self, url: str, name: str, timeout: float, env: Mapping[str, str]) -> bool | None:
        """Return whether agents may remember in a base; None if it cannot be read, or does not exist."""
        ...

    def findings(self, hub: Any, base: Base) -> list[Any]:
        """Return what `kbhub doctor` says of a base: each a `Finding`."""
        ...


@struct(frozen=False)
class SharedState:
    """Models, open indexes, and how many may use them at a time. Thread-safe.

    Access control is up to each hub's discovery; this only decides how an index is held in memory.
    """

    readers: threading.BoundedSemaphore = field(default_factory=partial(threading.BoundedSemaphore, READERS))
    waiting: threading.BoundedSemaphore = field(default_factory=partial(threading.BoundedSemaphore, WAITING_READERS))
    """The limits on concurrent searches and reads: in general, and where a base is on a database server."""
    indexes: WeakValueDictionary[tuple[str, Path], Index] = field(default_factory=WeakValueDictionary)
    """Those of SQLite, by base and path; dropped when no hub uses them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _embedders: dict[str, Embedder] = field(default_factory=dict)
    _engines: dict[str, SharedEngine] = field(default_factory=dict)

    def engine(self, url: str) -> SharedEngine:
        """Return the engine of shared bases for a URL that has one."""
        name = engine_for(url)
        if name is None:
            raise UsageError(f"No engine for {shown_url(url)} is installed.")
        with self.lock:
            if name not in self._engines:
                self._engines[name] = load(name)()
            return self._engines[name]

    def embedder(self, settings: EmbedderSettings, env: Mapping[str, str]) -> Embedder | None:
        """Return the embedder of some settings, loaded once, or None if it is disabled.

        A model on a server depends on `env`, costs nothing to open, and is not shared. An unknown embedder raises
        EmbedderError.
        """
        if settings.model and embedder_for(settings.model):
            return open_embedder(settings.model, settings, env)
        name = settings.model or ""
        with self.lock:
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
        packaged_embedder.cache_clear()
        with self.lock:
            self._embedders.clear()


REDISCOVER_SECONDS = 1.0
"""How long a discovery counts as current: then the files that decided it are looked at, and read if one changed."""

T = TypeVar("T")


@struct
class HubOptions:
    """How to open a hub; the defaults are those of the command line."""

    root: Path | str | None = None
    """Workspace directory, which takes precedence."""
    config: Path | None = None
    bases: Mapping[str, Path] = field(default_factory=dict)
    cache: Path | None = None
    serve: bool = False
    """Whether a client's own variables may name the workspace."""
    read_only: bool = False
    """Whether nothing may be written, whatever the settings say."""
    every_base: bool = False
    """Whether every base of the global config is active, whatever its `repos` say."""
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=lambda: working_directory() or Path(os.sep))
    """Working directory; if it is gone, the root of the file system, which is no workspace."""
    typed_in: Path | None = None
    """Directory in which a person types refs, so that paths relative to it resolve; None without one."""
    home: Path = field(default_factory=Path.home)
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    shared: SharedState | None = None
    warn: Callable[[Sequence[Problem]], object] | None = None
    """Called after each discovery with the fields and variables that have no effect, if there are any."""
    ask_roots: bool = True
    """Whether the client's roots may name the workspace; not if several clients share the hub."""


class Hub:
    """The configuration, the active bases and their open resources. Thread-safe.

    Operations on a hub are functions of the rooms: `search(hub, query)`, `sync(hub)`, `read(hub, refs)`. Every method
    raises `UsageError` or `ConfigError` while an option or the global config is wrong; the next call after it is fixed
    works.
    """

    def __init__(self, options: HubOptions | None = None) -> None:
        self.options = options or HubOptions()
        self.cache = own_folder("cache", self.options.env, self.options.cache)
        self.data = own_folder("data", self.options.env)
        self.trust = TrustStore(self.data / "trust.json")
        self._lock = threading.RLock()
        self.shared = self.options.shared or SharedState()
        self._roots: Workspace | None = None
        self._discovered: tuple[LoadedConfig, Discovery] | None = None
        self.files: FileStates | None = None
        """What decided that; None if it must be read again."""
        self._checked = -math.inf
        """When those files were last looked at (monotonic seconds)."""
        self._indexes: dict[tuple[str, Path], Index] = {}
        self._embedder: tuple[EmbedderSettings, Embedder | None] | None = None
        self._states: dict[type, Any] = {}

    def discovery(self) -> Discovery:
        """Return the active bases, as they were at most a moment ago."""
        return self.current()[1]

    def config(self) -> LoadedConfig:
        """Return the global config in force."""
        return self.current()[0]

    def recent(self) -> tuple[LoadedConfig, Discovery] | None:
        """Return `current` without waiting, or None if its files must be looked at first."""
        return self._discovered if time.monotonic() - self._checked < REDISCOVER_SECONDS else None

    def current(self, max_age: float | None = None) -> tuple[LoadedConfig, Discovery]:
        """Return the config and the active bases, the same objects while nothing changes; `max_age` is in seconds."""
        with self._lock:
            age = time.monotonic() - self._checked
            if self._discovered and age < (REDISCOVER_SECONDS if max_age is None else max_age):
                return self._discovered
            if not (self._discovered and self.files and self.files.unchanged()):
                previous, self._discovered, files = self._discovered, None, FileStates()
                with files.record():
                    found = self._find()
                self._discovered, self.files = previous if previous == found else found, files
                if self.options.warn and found[1].warnings:
                    self.options.warn(found[1].warnings)
            self._checked = time.monotonic()
            return self._discovered

    def use_roots(self, uris: Sequence[str]) -> None:
        """Use the client's first `file://` root as the workspace, unless something else names one."""
        with self._lock:
            self._roots, self.files = workspace_from_roots(uris, home=self.options.home), None
            self._checked = -math.inf

    def rediscover(self) -> Discovery:
        """Discover the active bases now."""
        with self._lock:
            self.files, self._checked = None, -math.inf
            return self.discovery()

    def select(self, names: Iterable[str] = ()) -> tuple[Base, ...]:
        """Return the active bases with these names, or all without names; `BaseNotFound` if one is not active."""
        discovery = self.discovery()
        bases, selected = discovery.bases, dict[str, Base]()
        for name in names:
            if (base := next((base for base in bases if name == base.id or name in base.names), None)) is None:
                raise BaseNotFound(name, [base.id for base in bases], discovery.problem_of(name))
            selected[base.id] = base
        return tuple(selected.values()) or bases

    def missing(self) -> list[Problem]:
        """Return why bases that should be active are not."""
        config, discovery = self.current()
        wanted = {PROJECT_ID, *config.settings.bases, *self.options.bases}
        for base in discovery.bases:
            wanted.difference_update((base.id, *base.names))
        return [problem for problem in discovery.problems if problem.subject in wanted]

    def limits(self) -> Limits:
        """Return the limits on what is read."""
        said = self.config().settings.limits
        own: dict[Kind, int] = {"pdf": said.pdf_bytes, "session": said.session_bytes}
        kinds = {**dict.fromkeys(CONVERTED_KINDS, said.converted_bytes), **own}
        return Limits(said.file_bytes, said.files, kinds, self.data / KEPT)

    def index(self, base: Base) -> Index:
        """Return the index of a base, for reading; its file may not exist yet."""
        if base.engine:
            return self.shared.engine(base.engine).index(base, self.options.env)
        path = index_path(base, self.cache, own_model(self.config().settings.embedder.model))
        key = base.id, path
        with self._lock:
            if key not in self._indexes:
                with self.shared.lock:
                    self._indexes[key] = self.shared.indexes.setdefault(key, SqliteIndex(path, base.id))
            return self._indexes[key]

    @property
    def readers(self) -> threading.BoundedSemaphore:
        """The semaphore that limits concurrent searches and reads of the process; hold it meanwhile."""
        on_server = any(map(attrgetter("engine"), self.discovery().bases))
        return self.shared.waiting if on_server else self.shared.readers

    def embedder(self) -> Embedder | None:
        """Return the configured embedder, loaded on first use; None if it is turned off."""
        settings = self.config().settings.embedder
        with self._lock:
            if self._embedder is None or self._embedder[0] is not settings:
                self._embedder = (settings, self.shared.embedder(settings, self.options.env))
            return self._embedder[1]

    def transformer(self) -> Embedder | None:
        """Return the model that reranks searches, unless it is not installed, off, or the embedder already."""
        settings = self.config().settings
        return transformer() if settings.search.second_look and settings.embedder.model != MINILM else None

    def state(self, kind: type[T]) -> T:
        """Return this hub's only instance of a class, created on first use, for what a room keeps between calls."""
        with self._lock:
            if kind not in self._states:
                self._states[kind] = kind()
            state: T = self._states[kind]
            return state

    def _find(self) -> tuple[LoadedConfig, Discovery]:
        options = self.options
        config = load_config(options.config, options.env, options.home)
        if options.every_base:
            config = replace(config, settings=replace(config.settings, repos={"*": tuple(config.settings.bases)}))
        if options.read_only:
            config = replace(config, settings=replace(config.settings, read_only=True))
        workspace = find_workspace(
            root=options.root, env=options.env, cwd=options.cwd, home=options.home, serve=options.serve
        )
        if workspace.directory is None and self._roots:
            workspace = self._roots
        discovery = discover(workspace, config, self.trust, named=options.bases, env=options.env, home=options.home)
        return config, with_own(discovery, self.data, config.settings)
