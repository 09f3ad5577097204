"""The state of bases and their indexes, for display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub import __version__
from kbhub.errors import EmbedderError, IndexUnavailable
from kbhub.index.reader import NOT_THERE
from kbhub.reading.reports import BaseStatus, Status
from kbhub.sync.bases import SyncState
from kbhub.types import Problem
from kbhub.workspace.places import is_directory

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base


def status(hub: Hub) -> Status:
    """Return the status of a workspace: its bases and problems."""
    config, discovery = hub.config(), hub.discovery()
    problems = list(discovery.problems)
    try:
        embedder = hub.embedder()
        name = embedder.name if embedder else "none: keyword search only"
    except EmbedderError as error:
        name = "none: keyword search only"
        problems.append(Problem(subject="embedder.model", message=str(error)))
    return Status(
        version=__version__,
        workspace=discovery.workspace,
        config=config.path,
        embedder=name,
        bases=tuple(_base_status(hub, base) for base in discovery.bases),
        problems=tuple(problems),
        looked_for=discovery.looked_for,
    )


def _base_status(hub: Hub, base: Base) -> BaseStatus:
    index, state = hub.index(base), hub.state(SyncState)
    progress, failure = state.progress.get(base.id), state.failed.get(base.id)
    indexing = f"{progress[0]} of {progress[1]} files" if progress else None
    problems = [] if is_directory(base.path) else [Problem(subject=base.id, message=f"{base.path} is gone.")]
    if failure:
        problems.append(Problem(subject=base.id, message=failure))
    try:
        with index.snapshot():
            documents, chunks, vectors = index.counts()
            problems += [Problem(subject=path, message=message) for path, message in index.problems()]
            synced = index.meta("synced")
            index_bytes = index.path.stat().st_size
    except FileNotFoundError:  # it has just been set aside
        return BaseStatus(base=base, indexing=indexing, problems=tuple(problems))
    except IndexUnavailable as error:
        if error.reason != NOT_THERE and not failure:
            problems.append(Problem(subject=base.id, message=str(error)))
        return BaseStatus(base=base, indexing=indexing, problems=tuple(problems))
    return BaseStatus(
        base=base,
        documents=documents,
        chunks=chunks,
        vectors=vectors,
        index=index.path,
        index_bytes=index_bytes,
        synced=synced,
        indexing=indexing,
        problems=tuple(problems),
    )
