"""What in kbhub's cache directory nothing needs any more, and how to be rid of it; nothing outside is ever touched.

Everything here can be made anew from the documents. What somebody may be using is left alone: an index whose lock is
held, and whatever is no plain file of a name that kbhub makes.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout
from pydantic import Field

from kbhub.discovery import discover
from kbhub.doctor.folders import BASES, JOURNALS, index_of, is_leftover
from kbhub.errors import ConfigError, IndexUnavailable
from kbhub.hub import Hub
from kbhub.index import Index
from kbhub.places import is_directory
from kbhub.types import Model, Problem, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbhub.types import Base

EVALUATIONS = "eval"
"""Folder of the corpora that `kbhub eval` makes, in the cache directory."""

RESTING_SECONDS = 3600
"""How long nothing must have changed in a corpus before it is taken for left over; making the largest takes minutes."""

_INDEX = re.compile(r".+-[0-9a-f]{12}\.db")
"""Name that `index.index_path` makes."""

_LOCK = re.compile(r".+-[0-9a-f]{12}\.db\.lock")
_CORPUS = re.compile(r"[0-9a-f]{8,64}")
"""Name of a corpus: the digest of its data set."""


class Removable(Model):
    """Something that nothing needs."""

    path: Path = Field(description="The file or folder.")
    kind: Literal["index", "leftover", "corpus", "lock"] = Field(description="What it is.")
    base: Path | None = Field(None, description="Folder that an index is of.")
    reason: str = Field(description="Why nothing needs it.")
    bytes: int = Field(description="What deleting it frees.")


class Cleanup(Model):
    """What `kbhub cleanup` found, and what it deleted."""

    cache: Path = Field(description="kbhub's cache directory.")
    found: tuple[Removable, ...] = Field((), description="What nothing needs.")
    bytes: int = Field(0, description="What all of it takes.")
    deleted: tuple[Path, ...] = Field((), description="What was deleted.")
    freed: int = Field(0, description="Bytes that were freed.")
    kept: tuple[Problem, ...] = Field((), description="What was left alone, and why.")


def examine_cache(hub: Hub) -> Cleanup:
    """Find what can be deleted; deletes nothing.

    Args:
        hub: whose cache; its global config says which bases there are.

    Raises:
        ConfigError: the global config is wrong, so that nobody knows which bases there are.
    """
    found = tuple(_found(hub))
    return Cleanup(cache=hub.cache, found=found, bytes=sum(one.bytes for one in found))


def delete(hub: Hub, cleanup: Cleanup) -> Cleanup:
    """Delete what `examine_cache` found and is still of no use.

    Args:
        hub: whose cache.
        cleanup: what was found and, maybe, shown to the user: nothing else is deleted.
    """
    deleted: list[Path] = []
    kept: list[Problem] = []
    freed = 0
    for one in cleanup.found:
        try:
            if one.kind == "corpus":
                _delete_corpus(one.path)
            else:
                _delete_files(hub, one)
        except Timeout:
            kept.append(Problem(subject=str(one.path), message="Another kbhub process uses it; try again later."))
        except OSError as error:
            kept.append(Problem(subject=str(one.path), message=f"It cannot be deleted: {error.strerror or error}."))
        else:
            deleted.append(one.path)
            freed += one.bytes
    return cleanup.model_copy(update={"deleted": tuple(deleted), "freed": freed, "kept": tuple(kept)})


def _found(hub: Hub) -> Iterator[Removable]:
    indexes = hub.cache / BASES
    known = _known_indexes(hub)
    files = _files(indexes)
    for path in files:
        if is_leftover(path):
            what = "a journal without its index" if path.name.endswith(JOURNALS) else "an index that was set aside"
            yield Removable(path=path, kind="leftover", reason=what, bytes=_bytes(path))
        elif _INDEX.fullmatch(path.name) and path not in known:
            base = _base_of(path)
            if reason := _why_orphaned(hub, path, base):
                yield Removable(path=path, kind="index", base=base, reason=reason, bytes=_bytes(path))
        elif _LOCK.fullmatch(path.name):
            index = path.with_name(path.name.removesuffix(".lock"))
            if index not in known and not os.path.lexists(index):
                yield Removable(path=path, kind="lock", reason="a lock without its index", bytes=_bytes(path))
    for path in _folders(hub.cache / EVALUATIONS):
        if _CORPUS.fullmatch(path.name) and _changed(path) < time.time() - RESTING_SECONDS:
            yield Removable(path=path, kind="corpus", reason="a corpus of `kbhub eval`", bytes=_tree_bytes(path))


def _known_indexes(hub: Hub) -> set[Path]:
    """Give the indexes of the bases that are active here or in the global config, whatever its `repos` say."""
    everywhere = Hub(replace(hub.options, every_base=True)).discovery()
    return {hub.index(base).path for base in (*hub.discovery().bases, *everywhere.bases)}


def _base_of(path: Path) -> Path | None:
    """Give the folder that an index says it is of; none if it cannot be read, or was never finished."""
    index = Index(path, path.stem)
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
        return "no known base has it, and it is unfinished, damaged or of another version"
    if not is_directory(base):
        return f"its folder {base} is gone"
    memories = Path(os.path.realpath(hub.trust.path.parent))
    if base.is_relative_to(memories) or path in _project_indexes(hub, base):
        return None
    return f"no base that kbhub knows of is {base}"


def _project_indexes(hub: Hub, folder: Path) -> set[Path]:
    """Give the indexes of the bases of all projects that might have a folder as their knowledge."""
    grants = [grant.pointer.parent for grant in hub.trust.entries() if grant.target == folder]
    sibling = folder.with_name(folder.name.removesuffix(".knowledge"))
    found = set()
    for directory in dict.fromkeys((folder, folder.parent, sibling, *grants)):
        if is_directory(directory):
            found |= {hub.index(base).path for base in _bases_for(hub, directory)}
    return found


def _bases_for(hub: Hub, directory: Path) -> tuple[Base, ...]:
    """Give the bases that would be active in a directory."""
    options = replace(hub.options, root=directory)
    workspace: Workspace = Hub(options).discovery().workspace
    try:
        return discover(workspace, hub.config(), hub.trust, env=options.env, home=options.home).bases
    except ConfigError:  # that project's own
        return ()


def _delete_files(hub: Hub, one: Removable) -> None:
    """Delete an index or what is left of one, with what lies beside it, while nobody else has its lock."""
    path = one.path
    index = path.with_name(path.name.removesuffix(".lock")) if one.kind == "lock" else index_of(path)
    with FileLock(f"{index}.lock", timeout=0, mode=0o600):
        # Looked at again, now that nobody can change it.
        if one.kind == "leftover" and not is_leftover(path):
            return
        if one.kind == "index" and path in _known_indexes(hub):
            return
        if one.kind != "lock":
            for end in ("", *JOURNALS):
                Path(f"{path}{end}").unlink(missing_ok=True)
        if not os.path.lexists(index) and os.name != "nt":
            # Who waits for it sees that it has no name any more, and makes another one.
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


def _files(folder: Path) -> list[Path]:
    """Give the plain files of a folder, which is no link itself."""
    return [path for path in _listed(folder) if stat.S_ISREG(_mode(path))]


def _folders(folder: Path) -> list[Path]:
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


def _changed(path: Path) -> float:
    """Give when anything in a corpus was last changed, seconds since the epoch."""
    times = [0.0]
    for one in (path, *_listed(path), path / "index" / BASES, *_listed(path / "index" / BASES)):
        try:
            times.append(one.lstat().st_mtime)
        except OSError:
            continue
    return max(times)


def _bytes(path: Path) -> int:
    return sum(_size(Path(f"{path}{end}")) for end in ("", *JOURNALS))


def _tree_bytes(folder: Path) -> int:
    return sum(_size(Path(above) / name) for above, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
