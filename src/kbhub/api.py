"""The hub of the Python API: the shared state, with everything it can do as methods."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from kbhub import hub as state
from kbhub.hub import HubOptions
from kbhub.reading.lists import status
from kbhub.reading.read import ReadOptions, read
from kbhub.reading.reports import ReadResult, Status
from kbhub.search.search import search
from kbhub.sync.comparison import Progress, SyncReport
from kbhub.sync.freshness import StaleBase, freshen, sync
from kbhub.types import Query, SearchResult
from kbhub.workspace.config import parse_base_arguments


class KnowledgeHub(state.Hub):
    """All active bases of a workspace: search, read, index, status. Safe to use from several threads.

    Args:
        options: how to open it.

    Raises:
        UsageError, ConfigError: from any method, while an option or the global config is wrong; a config that is
            fixed is picked up by the next call.
    """

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
        """Open a hub like the command line: omitted arguments are taken from the environment and the config.

        Nothing is read before the first call of a method, and there is nothing to close.

        Args:
            root: workspace directory; None for `KBHUB_ROOT`, or else the working directory.
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

    def search(self, query: Query | str) -> SearchResult:
        """Search bases as they were last indexed; see `sync`.

        A base that fails is listed in `skipped`; the others still answer.

        Args:
            query: the query; for a string, mode and limit come from the settings.

        Raises:
            BaseNotFound: the query names a base that is not active.
        """
        return search(self, query)

    def read(self, refs: str | Sequence[str], options: ReadOptions | None = None) -> ReadResult:
        """Read documents or parts of them, as they are on disk now.

        Args:
            refs: `path.md`, `id@path.md` or `#docid`, each with `:from-to` or `#Heading` for a part; a string holds
                one, or several with commas.
            options: how much of them, and which page.
        """
        return read(self, refs, options)

    def status(self) -> Status:
        """Return the workspace, its bases and any problems."""
        return status(self)

    def sync(
        self, names: Iterable[str] = (), *, full: bool = False, check: bool = False, progress: Progress | None = None
    ) -> tuple[SyncReport, ...]:
        """Sync the indexes of bases with their files.

        Args:
            names: ids of bases; None for all.
            full: read every file again, even if it looks unchanged, and recompute every vector.
            check: also read the whole indexes, and rebuild damaged ones.
            progress: called with (base id, files done, files to do).
        """
        return sync(self, names, full=full, check=check, progress=progress)

    def freshen(
        self,
        names: Iterable[str] = (),
        progress: Progress | None = None,
        *,
        max_age: float | None = None,
        changed: Mapping[str, Collection[str] | None] | None = None,
    ) -> tuple[StaleBase, ...]:
        """Sync bases with few changes, and return those with more; see `kbhub.sync.freshness.freshen`."""
        return freshen(self, names, progress, max_age=max_age, changed=changed)


Hub = KnowledgeHub
"""The name by which the API has it."""
