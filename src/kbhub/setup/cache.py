"""kbhub's own files: which they are, which nobody needs any more, and deleting those.

Only regular files of the cache directory with names that kbhub uses are deleted. Texts of deleted documents whose base
is gone are only reported, since they may be the last copies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import Field

from kbhub.documents.walk import KEPT
from kbhub.errors import ConfigError, IndexUnavailable
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.side_files import SUFFIX as TRANSFORMER
from kbhub.index.sqlite.index import SqliteIndex
from kbhub.index.sqlite.schema import DAMAGED
from kbhub.sync.comparison import ABOUT, SUFFIX
from kbhub.types import Base, Problem
from kbhub.workspace.files import ANSWERS, is_directory, read_regular
from kbhub.workspace.project import TRUST_NAME

BASES, EVALUATIONS = "bases", "eval"
"""Folders in the cache directory: of the indexes, and of the corpora of `kbhub dev eval`."""

FILE_MODE = 0o600

JOURNALS = ("-wal", "-shm", DAMAGED, TRANSFORMER, f"{TRANSFORMER}-journal", f"{TRANSFORMER}.lock")
"""Suffixes of the files beside an index: SQLite's, the marker of a damaged one, and transformer vectors."""

RESTING_SECONDS = 3600
"""Age at which an unchanged corpus counts as unused; building the largest one takes minutes."""

_OURS = re.compile(r".+-[0-9a-f]{12}(\.aside(-\d+)?)?\.db(-wal|-shm|\.lock|\.damaged|\.minilm(-journal|\.lock)?)?")
"""File names from `index_path`, `schema.set_aside`, SQLite and the lock."""

_ASIDE = re.compile(r"\.aside(-\d+)?(?=\.db$)")
"""The part that `schema.set_aside` inserts into a file name."""

_INDEX = re.compile(r".+-[0-9a-f]{12}\.db")
"""File name from `index_path`."""

_CORPUS = re.compile(r"[0-9a-f]{8,64}")
"""Name of a corpus: the digest of its data set."""

_ANSWER = re.compile(r"[0-9a-f]{40}\.json")
"""File name from `StoredAnswers`."""

_ABOUT_BYTES = 64 << 10
"""Limit for the metadata file of retained texts: a path, and patterns from a config."""


def own_places(hub: Hub, bases: Sequence[Base]) -> list[Path]:
    """Return the files that kbhub created, without following symlinks, and the folders that hold nothing else."""
    data, indexes = Path(os.path.realpath(hub.trust.path.parent)), hub.cache / BASES
    trust_files = [path for path in _listed(data) if path.name.lstrip(".").startswith(TRUST_NAME)]
    places = [data] if trust_files and set(trust_files) == set(_listed(data)) else []
    index_files = [path for path in _listed(indexes) if _OURS.fullmatch(path.name)]
    if index_files and index_files == _listed(indexes):
        places += [hub.cache, indexes] if _listed(hub.cache) == [indexes] else [indexes]
    places += index_files
    for base in bases:
        index = hub.index(base).path
        aside = (path for path in _listed(index.parent) if path.match(f"{index.stem}.aside*.db"))
        places += [Path(f"{path}{suffix}") for path in (index, *aside) for suffix in ("", ".lock", *JOURNALS)]
    # Only regular files and the folders themselves: a folder among the indexes is not kbhub's.
    kinds = {path: state.st_mode for path in dict.fromkeys([*places, *trust_files]) if (state := state_of(path))}
    folders = (data, hub.cache, indexes)
    return [path for path, kind in kinds.items() if stat.S_ISREG(kind) or (stat.S_ISDIR(kind) and path in folders)]


def too_open(places: Iterable[Path]) -> list[Path]:
    """Return the places that other users may read or change."""
    return [path for path in places if (state := state_of(path)) and state.st_mode & 0o077]


class Removable(Model):
    """Something that nothing needs, or that is recreated when needed."""

    path: Path = Field(description="The file or folder.")
    kind: Literal["index", "leftover", "corpus", "lock", "answers"] = Field(description="What it is.")
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
    """Result of `kbhub admin cleanup`."""

    cache: Path = Field(description="kbhub's cache directory.")
    found: tuple[Removable, ...] = Field((), description="What can go.")
    bytes: int = Field(0, description="What all of it takes.")
    deleted: tuple[Path, ...] = Field((), description="What was deleted.")
    freed: int = Field(0, description="Bytes that were freed.")
    kept: tuple[Problem, ...] = Field((), description="What was left alone, and why.")
    spared: tuple[Spared, ...] = Field((), description="What belongs to no base and cannot be recreated.")


def examine_cache(hub: Hub) -> Cleanup:
    """Find what can be deleted; `ConfigError` if the global config is invalid, as the bases in use are unknown then."""
    # Also those of the global config that are not active here.
    bases = (*hub.discovery().bases, *Hub(replace(hub.options, every_base=True)).discovery().bases)
    found = tuple(_removable(hub, bases))
    return Cleanup(
        cache=hub.cache, found=found, bytes=sum(one.bytes for one in found), spared=tuple(_spared(hub, bases))
    )


def delete(hub: Hub, cleanup: Cleanup) -> Cleanup:
    """Delete what `examine_cache` found, and nothing else, unless it came into use since."""
    deleted, kept, freed = list[Path](), list[Problem](), 0
    still = {one.path for one in examine_cache(hub).found}
    for one in cleanup.found:
        try:
            if one.path not in still:
                continue
            if one.kind == "corpus":
                shutil.rmtree(one.path)
            elif one.kind == "answers":
                for answer in _answers(one.path):
                    answer.unlink(missing_ok=True)
                if not _listed(one.path):
                    one.path.rmdir()
            else:
                path = one.path.with_name(one.path.name.removesuffix(".lock"))
                index = path.with_name(_ASIDE.sub("", reduce(str.removesuffix, JOURNALS, path.name)))
                with FileLock(f"{index}.lock", timeout=0, mode=FILE_MODE):
                    for suffix in ("", *JOURNALS):
                        Path(f"{path}{suffix}").unlink(missing_ok=True)
                    if not os.path.lexists(index) and os.name != "nt":
                        # A process waiting for the lock notices that the file is gone, and creates a new one.
                        Path(f"{index}.lock").unlink(missing_ok=True)
        except Timeout:
            kept.append(Problem(subject=str(one.path), message="Another kbhub process is using it; try again later."))
        except OSError as error:
            kept.append(Problem(subject=str(one.path), message=f"It cannot be deleted: {error.strerror or error}."))
        else:
            deleted.append(one.path)
            freed += one.bytes
    return cleanup.model_copy(update={"deleted": tuple(deleted), "freed": freed, "kept": tuple(kept)})


def _removable(hub: Hub, bases: Sequence[Base]) -> Iterator[Removable]:
    """Yield unused indexes and what is left of some, corpora not changed lately, and answers of models."""
    in_use = {hub.index(base).path for base in bases}
    for path in _files(hub.cache / BASES):
        facts = _facts(Path(f"{path}{suffix}") for suffix in ("", *JOURNALS))
        lock_of = path.with_name(path.name.removesuffix(".lock"))
        journal = next((suffix for suffix in JOURNALS if path.name.endswith(suffix)), "")
        if journal and not os.path.lexists(path.with_name(path.name.removesuffix(journal))):
            yield Removable(path=path, kind="leftover", reason="a journal without its index", **facts)
        elif not journal and _ASIDE.search(path.name):
            yield Removable(path=path, kind="leftover", reason="an index that was moved aside", **facts)
        elif _INDEX.fullmatch(path.name) and path not in in_use:
            base = None  # of an index that is unreadable or unfinished
            with suppress(IndexUnavailable), closing(SqliteIndex(path, path.stem)) as index, index.snapshot():
                folder = index.meta("base")
                base = Path(folder) if isinstance(folder, str) and folder else None
            if why := _why_unknown(hub, base, path, lambda one: hub.index(one).path):
                yield Removable(path=path, kind="index", base=base, reason=why, **facts)
        elif lock_of != path and _INDEX.fullmatch(lock_of.name) and not ({lock_of} & in_use or lock_of.exists()):
            yield Removable(path=path, kind="lock", reason="a lock without its index", **facts)
    for path in _listed(hub.cache / EVALUATIONS):
        facts = _facts(Path(folder, name) for folder, _, names in os.walk(path) for name in names)
        if _is_folder(path) and _CORPUS.fullmatch(path.name) and facts["age"] > RESTING_SECONDS:
            yield Removable(path=path, kind="corpus", reason="a corpus of `kbhub dev eval`", **facts)
    if answers := _answers(hub.cache / ANSWERS):
        reason = f"cached model answers ({len(answers)}), requested again when needed"
        yield Removable(path=hub.cache / ANSWERS, kind="answers", reason=reason, **_facts(answers))


def _answers(folder: Path) -> list[Path]:
    return [path for path in _files(folder) if _ANSWER.fullmatch(path.name)]


def _spared(hub: Hub, bases: Sequence[Base]) -> Iterator[Spared]:
    """Yield the folders of retained texts whose base is gone or no longer configured."""
    for folder in _listed(hub.data / KEPT):
        texts, base = [path for path in _files(folder) if path.name.endswith(SUFFIX)], None
        with suppress(OSError, ValueError, KeyError, TypeError):
            base = Path(json.loads(read_regular(folder / ABOUT, _ABOUT_BYTES, follow=False))["base"])
        reason: str | None = "they belong to an unknown base"
        if base is not None:
            known = is_directory(base) and any(one.path == base for one in bases)
            reason = None if known else _why_unknown(hub, base, base, lambda one: one.path)
        if texts and reason:
            yield Spared(path=folder, base=base, reason=reason, **_facts(texts))


def _why_unknown(hub: Hub, folder: Path | None, place: Path, place_of: Callable[[Base], Path]) -> str | None:
    """Return why what is at a place belongs to no base of the user, a project or memories, or None if it does."""
    if folder is None:
        return "no known base uses it, and it is incomplete, damaged or of another version"
    if not is_directory(folder):
        return f"its folder {folder} is gone"
    if folder.is_relative_to(os.path.realpath(hub.trust.path.parent)):  # memories
        return None
    # Projects that might use the folder as their knowledge.
    grants = [grant.pointer.parent for grant in hub.trust.entries() if grant.target == folder]
    sibling = folder.with_name(folder.name.removesuffix(".knowledge"))
    for directory in filter(is_directory, dict.fromkeys((folder, folder.parent, sibling, *grants))):
        with suppress(ConfigError):  # that project's own
            if any(place_of(base) == place for base in Hub(replace(hub.options, root=directory)).discovery().bases):
                return None
    return f"no known base is {folder}"


def _files(folder: Path) -> list[Path]:
    """Return the regular files of a folder, which must not be a symlink."""
    return [path for path in _listed(folder) if (state := state_of(path)) and stat.S_ISREG(state.st_mode)]


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir()) if _is_folder(folder) else []
    return []


def _is_folder(path: Path) -> bool:
    state = state_of(path)
    return state is not None and stat.S_ISDIR(state.st_mode)


def state_of(path: Path) -> os.stat_result | None:
    """Return the status of a path, without following links, or None if there is nothing."""
    with suppress(OSError):
        return path.lstat()
    return None


def _facts(paths: Iterable[Path]) -> dict[str, Any]:
    """Return the size of some files, and the age of the newest."""
    states = [state for path in paths if (state := state_of(path))]
    changed = max((state.st_mtime for state in states), default=0.0)
    return {"bytes": sum(state.st_size for state in states), "age": max(0.0, time.time() - changed)}
