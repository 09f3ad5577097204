"""Find and delete unused or rebuildable files in the cache directory.

Indexes whose lock is held are left alone, and so is anything but regular files with names that kbhub uses. Nothing
outside the cache directory is ever deleted: retained texts of deleted documents whose base is gone are only reported,
since they may be the last copies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import Field

from kbhub.documents.walk import KEPT
from kbhub.errors import ConfigError, IndexUnavailable
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.sqlite import SqliteIndex
from kbhub.models.ollama import FOLDER as ANSWERS
from kbhub.setup.doctor.machine import BASES, JOURNALS, LOOKS, index_of, is_leftover
from kbhub.sync.deleted_texts import ABOUT, SUFFIX
from kbhub.types import Base, Problem, Workspace
from kbhub.workspace.discovery import discover
from kbhub.workspace.files import is_directory, read_regular

EVALUATIONS = "eval"
"""Folder in the cache directory for the corpora of `kbhub eval`."""

RESTING_SECONDS = 3600
"""Age at which an unchanged corpus counts as unused; building the largest one takes minutes."""

_INDEX = re.compile(r".+-[0-9a-f]{12}\.db")
"""File name from `index.index_path`."""

_LOCK = re.compile(r".+-[0-9a-f]{12}\.db\.lock")
_CORPUS = re.compile(r"[0-9a-f]{8,64}")
"""Name of a corpus: the digest of its data set."""

_ANSWER = re.compile(r"[0-9a-f]{40}\.json")
"""File name from `inference.stored.StoredAnswers`."""

_ROLLBACK = "-journal"
"""Suffix of SQLite's rollback journal, which the rerank cache has during a write."""

_ABOUT_BYTES = 64 << 10
"""Limit for the metadata file of retained texts: a path, and patterns from a config."""


class Removable(Model):
    """Something that nothing needs, or that is recreated when needed."""

    path: Path = Field(description="The file or folder.")
    kind: Literal["index", "leftover", "corpus", "lock", "looks", "answers"] = Field(description="What it is.")
    base: Path | None = Field(None, description="Folder that an index is of.")
    reason: str = Field(description="Why it can go.")
    bytes: int = Field(description="What deleting it frees.")
    age: float = Field(description="Seconds since it was last changed.")


class Spared(Model):
    """Texts of deleted documents whose base is no longer configured; reported, never deleted."""

    path: Path = Field(description="The folder.")
    base: Path | None = Field(None, description="Folder that the documents were in.")
    reason: str = Field(description="Why their base counts as unknown.")
    bytes: int = Field(description="What they take.")
    age: float = Field(description="Seconds since they were last changed.")


class Cleanup(Model):
    """Result of `kbhub cleanup`."""

    cache: Path = Field(description="kbhub's cache directory.")
    found: tuple[Removable, ...] = Field((), description="What can go.")
    bytes: int = Field(0, description="What all of it takes.")
    deleted: tuple[Path, ...] = Field((), description="What was deleted.")
    freed: int = Field(0, description="Bytes that were freed.")
    kept: tuple[Problem, ...] = Field((), description="What was left alone, and why.")
    spared: tuple[Spared, ...] = Field((), description="What belongs to no base and cannot be recreated.")


def examine_cache(hub: Hub) -> Cleanup:
    """Find what can be deleted, without deleting anything.

    Raises `ConfigError` if the global config is invalid, as the bases in use are unknown then.
    """
    removables = (*_unused_index_files(hub), *_rebuildable_caches(hub))
    total = sum(removable.bytes for removable in removables)
    return Cleanup(cache=hub.cache, found=removables, bytes=total, spared=tuple(_spared(hub)))


def delete(hub: Hub, cleanup: Cleanup) -> Cleanup:
    """Delete what `examine_cache` found, and nothing else, unless it came into use since."""
    deleted: list[Path] = []
    kept: list[Problem] = []
    freed = 0
    for removable in cleanup.found:
        try:
            if removable.kind == "corpus":
                _delete_corpus(removable.path)
            elif removable.kind in ("looks", "answers"):
                _delete_cache(removable.path)
            else:
                _delete_index_files(hub, removable)
        except Timeout:
            kept.append(
                Problem(subject=str(removable.path), message="Another kbhub process is using it; try again later.")
            )
        except OSError as error:
            kept.append(
                Problem(subject=str(removable.path), message=f"It cannot be deleted: {error.strerror or error}.")
            )
        else:
            deleted.append(removable.path)
            freed += removable.bytes
    return cleanup.model_copy(update={"deleted": tuple(deleted), "freed": freed, "kept": tuple(kept)})


def _unused_index_files(hub: Hub) -> Iterator[Removable]:
    indexes = hub.cache / BASES
    in_use = _known_indexes(hub)
    files = _files(indexes)
    for path in files:
        if is_leftover(path):
            what = "a journal without its index" if path.name.endswith(JOURNALS) else "an index that was moved aside"
            yield _removable(path, "leftover", what)
        elif _INDEX.fullmatch(path.name) and path not in in_use:
            base = _base_of(path)
            if reason := _why_orphaned(hub, path, base):
                yield _removable(path, "index", reason, base)
        elif _LOCK.fullmatch(path.name):
            index = path.with_name(path.name.removesuffix(".lock"))
            if index not in in_use and not os.path.lexists(index):
                yield _removable(path, "lock", "a lock without its index")


def _removable(
    path: Path, kind: Literal["index", "leftover", "lock"], reason: str, base: Path | None = None
) -> Removable:
    return Removable(path=path, kind=kind, base=base, reason=reason, bytes=_bytes(path), age=_age(_changed((path,))))


def _rebuildable_caches(hub: Hub) -> Iterator[Removable]:
    """Yield what is rebuilt on demand: corpora not changed lately, the rerank cache, model answers."""
    for path in _all_folders(hub.cache / EVALUATIONS):
        age = _age(_corpus_changed(path))
        if _CORPUS.fullmatch(path.name) and age > RESTING_SECONDS:
            size = _tree_bytes(path)
            yield Removable(path=path, kind="corpus", reason="a corpus of `kbhub eval`", bytes=size, age=age)
    looks = hub.cache / LOOKS
    if stat.S_ISREG(_mode(looks)):
        reason, age = "vectors of an earlier version, now stored next to the indexes", _age(_changed((looks,)))
        yield Removable(path=looks, kind="looks", reason=reason, bytes=_size(looks), age=age)
    folder = hub.cache / ANSWERS
    if answers := _answers(folder):
        reason = f"cached model answers ({len(answers)}), requested again when needed"
        size, age = sum(map(_size, answers)), _age(_changed(answers))
        yield Removable(path=folder, kind="answers", reason=reason, bytes=size, age=age)


def _answers(folder: Path) -> list[Path]:
    return [path for path in _files(folder) if _ANSWER.fullmatch(path.name)]


def _spared(hub: Hub) -> Iterator[Spared]:
    """Yield the folders of retained texts whose base is gone or no longer configured."""
    bases = _known_bases(hub)
    for folder in _all_folders(hub.data / KEPT):
        texts = [path for path in _files(folder) if path.name.endswith(SUFFIX)]
        base = _base_of_texts(folder)
        if not texts or (reason := _why_abandoned(hub, base, bases)) is None:
            continue
        size, age = sum(map(_size, texts)), _age(_changed(texts))
        yield Spared(path=folder, base=base, reason=reason, bytes=size, age=age)


def _why_abandoned(hub: Hub, folder: Path | None, bases: Iterable[Base]) -> str | None:
    if folder is None:
        return "they belong to an unknown base"
    if is_directory(folder) and any(base.path == folder for base in bases):
        return None
    return _why_unknown(hub, folder, lambda base: base.path == folder)


def _base_of_texts(folder: Path) -> Path | None:
    try:
        base = json.loads(read_regular(folder / ABOUT, _ABOUT_BYTES, follow=False))["base"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(base) if isinstance(base, str) and base else None


def _known_bases(hub: Hub) -> tuple[Base, ...]:
    """Return the bases active here and all bases of the global config, whatever its `repos` say."""
    everywhere = Hub(replace(hub.options, every_base=True)).discovery()
    return (*hub.discovery().bases, *everywhere.bases)


def _known_indexes(hub: Hub) -> set[Path]:
    return {hub.index(base).path for base in _known_bases(hub)}


def _base_of(path: Path) -> Path | None:
    """Return the folder recorded in an index, or None if the index is unreadable or unfinished."""
    index = SqliteIndex(path, path.stem)
    try:
        with index.snapshot():
            folder = index.meta("base")
    except IndexUnavailable:
        return None
    finally:
        index.close()
    return Path(folder) if isinstance(folder, str) and folder else None


def _why_orphaned(hub: Hub, path: Path, base: Path | None) -> str | None:
    if base is None:
        return "no known base uses it, and it is incomplete, damaged or of another version"
    return _why_unknown(hub, base, lambda candidate: hub.index(candidate).path == path)


def _why_unknown(hub: Hub, folder: Path, matches: Callable[[Base], bool]) -> str | None:
    """Return why a folder is not a base of the user, a project or memories, or None if it is one."""
    if not is_directory(folder):
        return f"its folder {folder} is gone"
    memories = Path(os.path.realpath(hub.trust.path.parent))
    if folder.is_relative_to(memories) or any(map(matches, _project_bases(hub, folder))):
        return None
    return f"no known base is {folder}"


def _project_bases(hub: Hub, folder: Path) -> Iterator[Base]:
    """Yield the bases of all projects that might use a folder as their knowledge."""
    grants = [grant.pointer.parent for grant in hub.trust.entries() if grant.target == folder]
    sibling = folder.with_name(folder.name.removesuffix(".knowledge"))
    for directory in dict.fromkeys((folder, folder.parent, sibling, *grants)):
        if is_directory(directory):
            yield from _bases_for(hub, directory)


def _bases_for(hub: Hub, directory: Path) -> tuple[Base, ...]:
    """Return the bases that would be active in a directory."""
    options = replace(hub.options, root=directory)
    workspace: Workspace = Hub(options).discovery().workspace
    try:
        return discover(workspace, hub.config(), hub.trust, env=options.env, home=options.home).bases
    except ConfigError:  # that project's own
        return ()


def _delete_index_files(hub: Hub, removable: Removable) -> None:
    """Delete an index or its remains with their journals, unless its lock is held."""
    path = removable.path
    index = path.with_name(path.name.removesuffix(".lock")) if removable.kind == "lock" else index_of(path)
    with FileLock(f"{index}.lock", timeout=0, mode=0o600):
        # Check again under the lock.
        if removable.kind == "leftover" and not is_leftover(path):
            return
        if removable.kind == "index" and path in _known_indexes(hub):
            return
        if removable.kind != "lock":
            for suffix in ("", *JOURNALS):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        if not os.path.lexists(index) and os.name != "nt":
            # A process waiting for the lock notices that the file is gone, and creates a new one.
            Path(f"{index}.lock").unlink(missing_ok=True)


def _delete_corpus(path: Path) -> None:
    locks = [FileLock(str(lock), timeout=0) for lock in sorted((path / "index" / BASES).glob("*.lock"))]
    try:
        for lock in locks:
            lock.acquire()
        shutil.rmtree(path)
    finally:
        for lock in locks:
            lock.release()


def _delete_cache(path: Path) -> None:
    """Delete the rerank cache or the stored model answers; a concurrent writer just recreates the file."""
    if stat.S_ISREG(_mode(path)):
        path.unlink(missing_ok=True)
        Path(f"{path}{_ROLLBACK}").unlink(missing_ok=True)
        return
    for answer in _answers(path):
        answer.unlink(missing_ok=True)
    if not _listed(path) and stat.S_ISDIR(_mode(path)):
        path.rmdir()


def _files(folder: Path) -> list[Path]:
    """Return the regular files of a folder, which must not be a symlink."""
    return [path for path in _listed(folder) if stat.S_ISREG(_mode(path))]


def _all_folders(folder: Path) -> list[Path]:
    return [path for path in _listed(folder) if stat.S_ISDIR(_mode(path))]


def _listed(folder: Path) -> list[Path]:
    if not stat.S_ISDIR(_mode(folder)):
        return []
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _corpus_changed(path: Path) -> float:
    """Return when anything in a corpus last changed, in seconds since the epoch."""
    return _changed((path, *_listed(path), path / "index" / BASES, *_listed(path / "index" / BASES)))


def _changed(paths: Iterable[Path]) -> float:
    """Return when any of some files last changed, in seconds since the epoch."""
    times = [0.0]
    for path in paths:
        try:
            times.append(path.lstat().st_mtime)
        except OSError:
            continue
    return max(times)


def _age(changed: float) -> float:
    return max(0.0, time.time() - changed)


def _bytes(path: Path) -> int:
    return sum(_size(Path(f"{path}{suffix}")) for suffix in ("", *JOURNALS))


def _tree_bytes(folder: Path) -> int:
    return sum(_size(Path(above) / name) for above, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
