"""The hub: all active bases together, and the one object that owns them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kbhub import __version__
from kbhub.completions import with_completions
from kbhub.config import LoadedConfig, load_config
from kbhub.discovery import discover, find_workspace, missing, parse_base_arguments, workspace_from_roots
from kbhub.embedding import own_model
from kbhub.errors import BaseNotFound, BaseUnavailable, EmbedderError, IndexUnavailable
from kbhub.freshness import Looks
from kbhub.later import hits, indexes, limits, reading, reports, searching, shelves, states, surroundings, syncing
from kbhub.memory.folders import with_memories
from kbhub.options import Behind, HubOptions
from kbhub.places import cache_dir, data_dir, is_directory
from kbhub.shared import Shared
from kbhub.trust import TrustStore
from kbhub.types import Base, Discovery, Problem, Query, SearchResult, Skipped, Workspace

if TYPE_CHECKING:
    from kbhub.embedding import Embedder
    from kbhub.hits import Searched
    from kbhub.index import Index
    from kbhub.limits import Limits
    from kbhub.model_settings import EmbedderSettings
    from kbhub.reading import ReadOptions
    from kbhub.reports import BaseStatus, ReadResult, Status, SyncReport
    from kbhub.search import Found, Surroundings
    from kbhub.sync import Difference, Progress

REDISCOVER_SECONDS = 1.0
"""Age of a discovery after which the next call looks again: mended files are picked up, bursts pay once."""

FRESHEN_CHANGES = 64
"""Changed files that a search brings in step before it answers; more are left to `index` or the background."""

FRESHEN_YOUNG = 2000
"""Files that were indexed as soon as they were written, whose content a search compares before it answers: some 50 ms,
and more than are indexed in the two seconds in which a file counts as that young."""

READERS = 4
"""Searches and readings at a time; the others wait. Each holds two descriptors per base, and a process may have as
few as 256 (macOS); Python runs one of them at a time anyway."""


class Hub:
    """All active bases of a workspace: search, read, index, status. Safe to use from several threads.

    Args:
        options: how to open it.

    Raises:
        UsageError, ConfigError: from any method, while an option or the global config is wrong; a config that is
            mended is picked up by the next call.
    """

    def __init__(self, options: HubOptions | None = None) -> None:
        self.options = options or HubOptions()
        self.cache = cache_dir(self.options.env, self.options.cache)
        self.trust = TrustStore(data_dir(self.options.env) / "trust.json")
        self._lock = threading.RLock()
        self._shared = self.options.shared or Shared()
        self._roots: Workspace | None = None
        self._look_back: tuple[float, LoadedConfig, Discovery] | None = None
        self._indexes: dict[tuple[str, Path], Index] = {}
        self._embedder: tuple[EmbedderSettings, Embedder | None] | None = None
        self._looks = Looks()
        self._progress: dict[str, tuple[int, int]] = {}
        self._failed: dict[str, str] = {}
        """Base → why it could not be brought in step when that was last tried."""
        self._behind: dict[str, int] = {}
        """Base → its files that were found to differ from the index, or that may, and were left for later."""
        self.in_hand: Callable[[str], bool] = lambda _: False
        """Says of a base whether something indexes it, or soon will; set by what indexes on a thread of its own."""
        self._readers = threading.BoundedSemaphore(READERS)

    @classmethod
    def open(
        cls,
        root: Path | str | None = None,
        *,
        bases: Mapping[str, Path | str] | None = None,
        config: Path | str | None = None,
        cache: Path | str | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open a hub as the command line does: what is not given is taken from the environment and the config.

        Nothing is read before the first call of a method, and there is nothing to close.

        Args:
            root: directory to work for; none for `KBHUB_ROOT`, else the working directory.
            bases: further bases, id → folder, over those of `KBHUB_BASES`.
            config: global config in place of `~/.kbhub.json`.
            cache: folder for indexes in place of the user's.
            read_only: whether nothing may be written, whatever the settings say.

        Raises:
            UsageError, ConfigError: the id of a base cannot be one.
        """
        env = dict(os.environ)
        named = parse_base_arguments([f"{name}={path}" for name, path in (bases or {}).items()], env)
        places = [Path(place).expanduser() if place else None for place in (config, cache)]
        return cls(HubOptions(root, places[0], named, places[1], read_only=read_only, env=env))

    def discovery(self) -> Discovery:
        """Give the active bases; looks again if the last look is older than a moment."""
        return self._look()[1]

    def config(self) -> LoadedConfig:
        """Give the global config in force."""
        return self._look()[0]

    def use_roots(self, uris: Sequence[str]) -> None:
        """Take the client's first `file://` root as the workspace, if nothing else names one."""
        with self._lock:
            self._roots, self._look_back = workspace_from_roots(uris, home=self.options.home), None

    def rediscover(self) -> Discovery:
        """Look again for the active bases, however short ago the last look was."""
        with self._lock:
            self._look_back = None
            return self.discovery()

    def known_bases(self) -> tuple[Base, ...] | None:
        """Give the bases of the last look, without looking; none if there was none or it failed."""
        looked = self._look_back
        return looked[2].bases if looked else None

    def select(self, names: Iterable[str] = ()) -> tuple[Base, ...]:
        """Give the active bases of some names, all of them for none.

        Raises:
            BaseNotFound: one is not active.
        """
        discovery = self.discovery()
        bases, chosen = discovery.bases, dict[str, Base]()
        for name in names:
            if (base := next((base for base in bases if name == base.id or name in base.names), None)) is None:
                raise BaseNotFound(name, [base.id for base in bases], discovery.problem_of(name))
            chosen[base.id] = base
        return tuple(chosen.values()) or bases

    def missing(self) -> list[Problem]:
        """Give what is wrong with the bases that would be active if they could be used."""
        config, discovery = self._look()
        return missing(discovery, {*config.settings.bases, *self.options.bases})

    def index(self, base: Base) -> Index:
        """Give the index of a base, for reading; its file may not be there yet."""
        path = indexes.index_path(base, self.cache, own_model(self.config().settings.embedder.model))
        with self._lock:
            return self._indexes.setdefault((base.id, path), self._shared.index(base.id, path))

    def embedder(self) -> Embedder | None:
        """Give the embedder of the settings, not loaded until it is used; none if none is wanted.

        Raises:
            EmbedderError: the settings name one that is not there.
        """
        settings = self.config().settings.embedder
        with self._lock:
            if self._embedder is None or self._embedder[0] != settings:
                self._embedder = (settings, self._shared.embedder(settings, self.options.env))
            return self._embedder[1]

    def search(self, query: Query | str) -> SearchResult:
        """Answer a query from all chosen bases at once, as they were last indexed; see `sync`.

        A base that fails is named in `skipped` and never sinks the query.

        Args:
            query: what is asked; a string is asked as the settings say: in which mode, for how many hits.

        Raises:
            BaseNotFound: the query names a base that is not active.
        """
        if isinstance(query, str):
            defaults = self.config().settings.search
            query = Query(text=query, mode=defaults.mode, limit=defaults.limit)
        bases = self.select(query.bases)
        notes: list[str] = []
        embedder = self._query_embedder(notes) if query.mode != "keyword" else None
        with self._readers, ExitStack() as stack:
            searched, skipped = self._open(bases, stack, embedder, notes)
            found = self._find(query, searched, skipped, surroundings.surroundings_of(self, embedder, notes))
        asked = found.understood
        chosen = (*(f'-"{term.text}"' for term in asked.excluded), *map(str, asked.filters))
        notes = [
            *searching.leading_notes(found),
            *notes,
            *searching.notes_on(found, chosen, query, self.discovery()),
            # Copies, for indexing on other threads adds to them and takes away.
            *searching.unfinished(searched, dict(self._progress), dict(self._behind), dict(self._failed)),
        ]
        if not query.bases and found.verdict != "strong":
            notes += surroundings.elsewhere(self, found.verdict)
        return SearchResult(
            query=query.text.encode("utf-8", "replace").decode("utf-8"),
            mode=found.mode,
            hits=found.hits,
            total=found.total,
            total_exact=not found.ends,
            searched=tuple(one.base.id for one in searched),
            skipped=tuple(skipped),
            unmatched=found.unmatched,
            corrections=found.corrections,
            filters=chosen,
            verdict=found.verdict,
            notes=tuple(dict.fromkeys(notes)),
            terms=(*(term.text for term in asked.terms), *(one.used for one in found.corrections)),
        )

    def read(self, refs: str | Sequence[str], options: ReadOptions | None = None) -> ReadResult:
        """Read documents or parts of them, as they are on disk now.

        Args:
            refs: `path.md`, `id@path.md` or `#docid`, each with `:from-to` or `#Heading` for a part; a string holds
                one, or several with commas.
            options: how much of them, and which page.
        """
        with self._readers:
            return reading.Library(shelves.shelves_of(self), self.config().settings.contexts).read(refs, options)

    def status(self) -> Status:
        """Say what is here: workspace, bases, problems."""
        config, discovery = self._look()
        problems = list(discovery.problems)
        try:
            embedder = self.embedder()
            name = embedder.name if embedder else "none: keyword search only"
        except EmbedderError as error:
            name = "none: keyword search only"
            problems.append(Problem(subject="embedder.model", message=str(error)))
        return reports.Status(
            version=__version__,
            workspace=discovery.workspace,
            config=config.path,
            embedder=name,
            bases=tuple(self._base_status(base) for base in discovery.bases),
            problems=tuple(problems),
            looked_for=discovery.looked_for,
        )

    def sync(
        self,
        names: Iterable[str] = (),
        *,
        full: bool = False,
        check: bool = False,
        progress: Progress | None = None,
    ) -> tuple[SyncReport, ...]:
        """Bring the indexes of bases in step with their files.

        Args:
            names: ids of bases, none for all.
            full: read every file again, even if it looks unchanged, and make every vector anew.
            check: read all of the indexes, too, and make one anew that is damaged.
            progress: called with (base id, files done, files to do).
        """
        return tuple(self._sync(base, full=full, check=check, progress=progress) for base in self.select(names))

    def freshen(
        self,
        names: Iterable[str] = (),
        progress: Progress | None = None,
        *,
        max_age: float | None = None,
        changed: Mapping[str, Collection[str] | None] | None = None,
    ) -> tuple[Behind, ...]:
        """Bring bases in step that need little, and say which need more.

        A base without an index, with more than `FRESHEN_CHANGES` changed files, or that another process is indexing
        is left as it is, and `search` says so until that is over.

        Args:
            names: ids of bases, none for all.
            progress: called with (base id, files done, files to do).
            max_age: seconds for which the last comparison is good enough; if none, as long as is fair to its cost.
            changed: base id → the paths in it that changed, where known: they alone are looked at, if that will do.

        Returns:
            The bases that need more.
        """
        asked, more = time.perf_counter(), []
        for base in self.select(names):
            index = self.index(base)
            if indexes.noted_damage(index.path) is not None:
                self._looks.forget(index.path)
            paths = (changed or {}).get(base.id)
            due = partial(self._looks.due, index.path, max_age, asked)
            indexed = os.path.exists(index.path)  # noqa: PTH110 - no error for a folder that may not be read
            unindexed = [] if indexed else [Behind(base.id, self._behind.get(base.id, 0), new_index=True)]
            if paths is None and not due():
                more += unindexed  # what another call has just found may not be queued yet
                continue
            if self._looks.still_elsewhere(index.path):
                more.append(Behind(base.id, 0, not indexed, busy=True))
                continue
            try:
                if (difference := self._looks.compare(base, index, self.limits(), paths, due)) is None:
                    more += unindexed
                    continue
                self._behind[base.id] = len(difference)
                if not (difference.new_index or len(difference) or self._other_embedder(base)):
                    self._failed.pop(base.id, None)
                elif self._looks.is_elsewhere(index.path):
                    more.append(Behind(base.id, 0, not indexed, busy=True))
                elif difference.new_index or difference.certain > FRESHEN_CHANGES or difference.young > FRESHEN_YOUNG:
                    more.append(Behind(base.id, len(difference), difference.new_index))
                else:
                    self._sync(base, progress=progress, difference=difference)
            except (BaseUnavailable, IndexUnavailable) as error:
                self._failed[base.id] = str(error)  # named by the search and by `status`
        return tuple(more)

    def comparing_for(self, base: Base) -> float:
        """Say for how many seconds the files of a base have been being compared with its index; 0 if they are not."""
        return self._looks.comparing_for(self.index(base).path)

    def _look(self) -> tuple[LoadedConfig, Discovery]:
        with self._lock:
            if self._look_back and time.monotonic() - self._look_back[0] < REDISCOVER_SECONDS:
                return self._look_back[1:]
            options = self.options
            config = load_config(options.config, options.env, options.home)
            if options.every_base:
                everywhere = replace(config.settings, repos={"*": tuple(config.settings.bases)})
                config = replace(config, settings=everywhere)
            if options.read_only:
                config = replace(config, settings=replace(config.settings, read_only=True))
            workspace = find_workspace(
                root=options.root, env=options.env, cwd=options.cwd, home=options.home, serve=options.serve
            )
            if workspace.directory is None and self._roots:
                workspace = self._roots
            discovery = discover(workspace, config, self.trust, named=options.bases, env=options.env, home=options.home)
            discovery = with_memories(discovery, data_dir(options.env), config.settings)
            discovery = with_completions(discovery, data_dir(options.env), config.settings.bases)
            self._look_back = (time.monotonic(), config, discovery)
            if options.warn:
                options.warn(discovery.warnings)
            return config, discovery

    def limits(self) -> Limits:
        """Give how much of the files is taken on here."""
        return limits.limits_of(self.config().settings.limits, data_dir(self.options.env))

    def _query_embedder(self, notes: list[str]) -> Embedder | None:
        try:
            embedder = self.embedder()
            if embedder and embedder.fingerprint:  # that of a model on a server, which may not answer
                return embedder
            notes.append("Keyword search only: `embedder.model` is `none`.")
        except EmbedderError as error:
            notes.append(f"Keyword search only: {error}")
        return None

    def _open(
        self, bases: Sequence[Base], stack: ExitStack, embedder: Embedder | None, notes: list[str]
    ) -> tuple[list[Searched], list[Skipped]]:
        searched, skipped = [], []
        fingerprint = embedder.fingerprint if embedder else None
        for base in bases:
            index = self.index(base)
            try:
                if not is_directory(base.path):
                    raise BaseUnavailable(base.id, f"its folder {base.path} is gone")
                stack.enter_context(index.snapshot())
                comparable = index.meta("embedder") == fingerprint
                complete = index.meta("synced") is not None
            except (BaseUnavailable, IndexUnavailable) as error:
                reason = states.unsearched(
                    base, error, dict(self._progress), in_hand=self.in_hand(base.id), failure=self._failed.get(base.id)
                )
                skipped.append(Skipped(base=base.id, reason=reason))
                continue
            if fingerprint and not comparable:
                notes.append(f"{base.id}: keyword search only, until its vectors are made by the embedder in force.")
            searched.append(hits.Searched(base, index, comparable, complete))
        return searched, skipped

    def _find(self, query: Query, searched: list[Searched], skipped: list[Skipped], around: Surroundings) -> Found:
        """Rank what the opened bases have; one that turns out to be damaged goes from `searched` to `skipped`."""
        while True:
            try:
                return searching.find(query, searched, around, everything=not skipped)
            except IndexUnavailable as error:
                skipped.append(Skipped(base=error.base, reason=str(error)))
                broken = next(one for one in searched if one.base.id == error.base)
                searched.remove(broken)
                self._looks.forget(broken.index.path)

    def _sync(
        self,
        base: Base,
        *,
        progress: Progress | None = None,
        difference: Difference | None = None,
        **how: bool,
    ) -> SyncReport:
        def note(name: str, done: int, todo: int) -> None:
            self._progress[base.id] = (done, todo)
            if progress:
                progress(name, done, todo)

        try:
            embedder: Embedder | None = self.embedder()
            notes: tuple[str, ...] = ()
        except EmbedderError as error:
            embedder, notes = None, (str(error),)
        try:
            if difference is None and not how.get("full"):
                difference = self._looks.compare(base, self.index(base), self.limits())
            path, limits = self.index(base).path, self.limits()
            report = syncing.sync_base(base, path, embedder, **limits, **how, progress=note, difference=difference)
        except (BaseUnavailable, IndexUnavailable) as error:
            self._failed[base.id] = str(error)
            raise
        finally:
            self._progress.pop(base.id, None)
        if not report.busy:
            self._failed.pop(base.id, None)
            self._behind.pop(base.id, None)
        return report.model_copy(update={"notes": notes + report.notes})

    def _other_embedder(self, base: Base) -> bool:
        try:
            embedder = self.embedder()
            fingerprint = embedder.fingerprint if embedder else None
        except EmbedderError:
            return False
        index = self.index(base)
        with index.snapshot():
            return embedder is not None and index.meta("embedder") != fingerprint

    def _base_status(self, base: Base) -> BaseStatus:
        progress = self._progress.get(base.id)
        indexing = f"{progress[0]} of {progress[1]} files" if progress else None
        return states.base_status(base, self.index(base), indexing=indexing, failure=self._failed.get(base.id))
