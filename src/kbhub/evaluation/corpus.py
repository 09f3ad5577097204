"""A data set as bases of a hub: real files, indexed and searched as a user's own are."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable, UsageError
from kbhub.hub import Hub, HubOptions
from kbhub.sync.bases import sync
from kbhub.values import struct
from kbhub.workspace.places import cache_dir, private_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.evaluation.datasets import Dataset, EvalDocument
    from kbhub.sync.sync import Progress

FOLDER = "eval"
"""Folder in kbhub's cache where corpora and their indexes lie; safe to delete."""

SEED = 20260101
"""Of the cut into bases, and of the choice of queries: the same on every run."""

WRITTEN = 1_767_225_600
"""Time of every file of a corpus: 2026-01-01 UTC, seconds since the epoch. Ages are the same on every run."""

NOW = WRITTEN + 86_400
"""What the hub takes for the present, seconds since the epoch: a day later."""

BUSY_SECONDS, BUSY_STEP_SECONDS = 600.0, 0.5
"""How long to wait for another process that indexes the same corpus, and how often to look."""

_PLACES = frozenset(("KBHUB_ROOT", "KBHUB_BASES", "KBHUB_CONFIG", "KBHUB_CACHE_DIR", "KBHUB_DATA_DIR", "KBHUB_DISABLE"))
"""Variables that would bring the user's own bases in."""


@struct
class Setup:
    """How corpora are made and opened."""

    env: Mapping[str, str]
    """The user's environment; settings in it count, places do not."""
    cache: Path | None = None
    """kbhub's cache directory, if not the usual one."""
    config: Path | None = None
    """Global config whose settings count; none for the defaults."""
    fresh: bool = False
    """Whether to index every file again."""
    progress: Progress | None = None
    """Called with (what is done, steps done, steps in all)."""


@struct
class Corpus:
    """A data set that is ready to be searched."""

    hub: Hub
    bases: tuple[str, ...]
    documents: Mapping[tuple[str, str], str]
    """(base, path) → id of the document in the data set."""
    chunks: int
    index_seconds: float
    """Time to bring the index in step; near 0 where it was there."""
    notes: tuple[str, ...]
    """Files that could not be indexed, and why."""


def open_corpus(dataset: Dataset, setup: Setup, parts: int = 1) -> Corpus:
    """Write a data set's documents as files, unless they are there, and index them.

    Args:
        dataset: the data set.
        setup: where and how.
        parts: bases to cut the documents into at random.

    Raises:
        UsageError: there are fewer documents than parts.
        IndexUnavailable: the cache cannot be written, or an index cannot be made.
    """
    if parts > len(dataset.documents):
        raise UsageError(f"{dataset.name} has {len(dataset.documents)} documents; they do not fill {parts} bases.")
    own = eval_folder(setup)
    shares = _shares(dataset.documents, parts)
    try:
        folder = _written(private_directory(own / dataset.digest), shares)
    except OSError as error:
        raise IndexUnavailable(FOLDER, f"{own}: {error.strerror}") from error
    bases = {name: folder / name for name in shares}
    hub = eval_hub(bases, own / dataset.digest / "index", len(dataset.documents), setup)
    started = time.monotonic()
    chunks, notes = sync_corpus(hub, tuple(shares), full=setup.fresh, progress=_named(dataset.name, setup.progress))
    return Corpus(
        hub,
        tuple(shares),
        {(name, one.path): one.id for name, share in shares.items() for one in share},
        chunks,
        time.monotonic() - started,
        notes,
    )


def eval_folder(setup: Setup) -> Path:
    """Give the folder where corpora lie, made if it is not there.

    Raises:
        IndexUnavailable: it cannot be made.
    """
    own = cache_dir(setup.env, setup.cache) / FOLDER
    try:
        return private_directory(own)
    except OSError as error:
        raise IndexUnavailable(FOLDER, f"{own}: {error.strerror}") from error


def eval_hub(bases: Mapping[str, Path], cache: Path, documents: int, setup: Setup) -> Hub:
    """Open a hub that has these bases and nothing of the user's.

    Args:
        bases: id → folder.
        cache: where indexes lie.
        documents: in all of them at most.
        setup: which settings count.
    """
    home = private_directory(eval_folder(setup) / "home")
    env = {name: value for name, value in setup.env.items() if name not in _PLACES}
    return Hub(
        HubOptions(
            config=setup.config,
            bases=bases,
            cache=cache,
            env={"KBHUB_LIMITS__FILES": str(documents + 1), **env, "KBHUB_DATA_DIR": str(home)},
            cwd=home,
            home=home,
            clock=lambda: float(NOW),
        )
    )


def _shares(documents: Sequence[EvalDocument], parts: int) -> dict[str, list[EvalDocument]]:
    if parts == 1:
        return {"all": list(documents)}
    shuffled = list(documents)
    random.Random(SEED).shuffle(shuffled)  # noqa: S311 - a cut, no secret
    return {f"part{number + 1}": shuffled[number::parts] for number in range(parts)}


def _written(folder: Path, shares: Mapping[str, Sequence[EvalDocument]]) -> Path:
    """Write the files of all bases, whole or not at all: an interrupted run leaves nothing that looks complete."""
    target = folder / f"bases{len(shares)}"
    if target.is_dir():
        return target
    making = Path(tempfile.mkdtemp(prefix="making-", dir=folder))
    for name, share in shares.items():
        for document in share:
            file = making / name / document.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(document.data)
            os.utime(file, (WRITTEN, WRITTEN))
    try:
        making.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(making, ignore_errors=True)  # another process was first
    return target


def sync_corpus(
    hub: Hub, bases: Sequence[str], *, full: bool = False, progress: Progress | None = None
) -> tuple[int, tuple[str, ...]]:
    """Bring bases in step.

    Args:
        hub: that has them.
        bases: their ids.
        full: index every file again.
        progress: as of `Hub.sync`.

    Returns:
        Chunks in all, and files that failed.
    """
    chunks, notes = 0, []
    for base in bases:
        waited = 0.0
        while (report := sync(hub, (base,), full=full, progress=progress)[0]).busy:
            if waited > BUSY_SECONDS:
                raise IndexUnavailable(base, "another process has been indexing it for a long time")
            time.sleep(BUSY_STEP_SECONDS)
            waited += BUSY_STEP_SECONDS
        chunks += report.chunks
        notes += [f"{one.subject}: {one.message}" for one in report.failed]
        notes += report.notes
    return chunks, tuple(notes)


def _named(dataset: str, progress: Progress | None) -> Progress | None:
    """Show progress under the name of the data set instead of that of its base."""
    if progress is None:
        return None
    return lambda _, done, todo: progress(f"indexing {dataset}", done, todo)
