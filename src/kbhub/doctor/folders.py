"""kbhub's own folders: there, writable, for the user alone, with room, and without what is left of old indexes."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.index.schema import DAMAGED
from kbhub.places import is_directory
from kbhub.reports import Finding
from kbhub.second_look import FILE as LOOKS
from kbhub.trust import TRUST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.hub import Hub
    from kbhub.types import Base

LOW_DISK_BYTES = 350_000_000
"""Free bytes below which a warning is due: what an index of 100,000 chunks takes (measured)."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600
"""For the user alone."""

BASES = "bases"
"""Folder of the indexes in the cache directory."""

JOURNALS = ("-wal", "-shm", DAMAGED)
"""What SQLite keeps beside an index while it is open, and what is noted of one that is damaged."""

_OURS = re.compile(r".+-[0-9a-f]{12}(\.aside(-\d+)?)?\.db(-wal|-shm|\.lock|\.damaged)?")
"""Names of what `index.index_path`, `index.set_aside`, SQLite and the lock make."""

_ASIDE = re.compile(r"\.aside(-\d+)?(?=\.db$)")
"""What `index.set_aside` puts into the name of an index."""


def folder_findings(hub: Hub, bases: Sequence[Base]) -> list[Finding]:
    """Check kbhub's cache and data directories, and everything of its own in them."""
    found = _directory("cache", hub.cache) + _directory("data", hub.trust.path.parent)
    low = _low_disk(hub.cache)
    mine = own_places(hub, bases)
    found += [low] if low else []
    found += _owners(mine)
    if (opened := too_open(mine)) and os.name != "nt":
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        verb = "is" if len(opened) == 1 else "are"
        message = f"{opened[0]}{more} {verb} open to other users of this machine."
        remedy = "`kbhub doctor --fix` gives folders the mode 0700 and files 0600."
        found.append(Finding(check="permissions", level="warning", message=message, remedy=remedy, fixable=True))
    else:
        found.append(Finding(check="permissions", level="ok", message="kbhub's files are for you alone."))
    return found + [_leftover(path) for path in leftovers(hub, bases)]


def own_places(hub: Hub, bases: Sequence[Base]) -> list[Path]:
    """Give the folders and files that kbhub made, and no others; links are not followed.

    A folder counts only while it holds nothing else: the user may have chosen one that has other uses.

    Args:
        hub: whose cache and data.
        bases: active bases, whose indexes may lie elsewhere.
    """
    data, indexes = hub.trust.path.parent, hub.cache / BASES
    mine = [path for path in _listed(data) if path.name.lstrip(".").startswith(TRUST_NAME)]
    places = [data] if mine and set(mine) == set(_listed(data)) else []
    if (made := _indexes_in(indexes)) and made == _listed(indexes):
        places += [hub.cache, indexes] if {*_listed(hub.cache)} <= {indexes, hub.cache / LOOKS} else [indexes]
    places += [*made, hub.cache / LOOKS]
    for base in bases:
        path = hub.index(base).path
        indexes_of_it = (path, *_set_aside_from(path))
        places += [Path(f"{one}{end}") for one in indexes_of_it for end in ("", ".lock", *JOURNALS)]
    # A folder among the indexes is none of ours, and a link is not ours to follow.
    kinds = {path: state.st_mode for path in dict.fromkeys([*places, *mine]) if (state := _state(path))}
    folders = (data, hub.cache, indexes)
    return [path for path, kind in kinds.items() if stat.S_ISREG(kind) or (stat.S_ISDIR(kind) and path in folders)]


def too_open(places: Iterable[Path]) -> list[Path]:
    """Give those places that other users may look into or change."""
    return [path for path in places if (state := _state(path)) and state.st_mode & 0o077]


def leftovers(hub: Hub, bases: Sequence[Base]) -> list[Path]:
    """Give files that nothing needs: indexes that were set aside, and journals whose index is gone."""
    found = _indexes_in(hub.cache / BASES)
    for base in bases:
        found += _set_aside_from(hub.index(base).path)
    return sorted({path for path in found if os.path.lexists(path) and is_leftover(path)})


def is_leftover(path: Path) -> bool:
    """Say whether a file in a folder of indexes is needed by nothing; the journals of one are part of it."""
    if not (end := next((end for end in JOURNALS if path.name.endswith(end)), "")):
        return bool(_ASIDE.search(path.name))
    return not os.path.lexists(path.with_name(path.name.removesuffix(end)))


def index_of(leftover: Path) -> Path:
    """Give the index that a leftover once belonged to; its lock is taken before the leftover is deleted."""
    name = leftover.name
    for journal in JOURNALS:
        name = name.removesuffix(journal)
    return leftover.with_name(_ASIDE.sub("", name))


def _indexes_in(folder: Path) -> list[Path]:
    return [path for path in _listed(folder) if _OURS.fullmatch(path.name)]


def _set_aside_from(index: Path) -> list[Path]:
    return sorted(index.parent.glob(f"{index.stem}.aside*.db"))


def _leftover(path: Path) -> Finding:
    if is_directory(path) and not path.is_symlink():
        message, remedy = "A folder lay where an index belongs and was set aside.", "Look into it, then delete it."
        return Finding(check="leftovers", level="warning", subject=str(path), message=message, remedy=remedy)
    what = "A journal without its index" if path.name.endswith(JOURNALS) else "An index that was set aside"
    remedy = "`kbhub doctor --fix` deletes it; nothing needs it."
    message = f"{what}."
    return Finding(check="leftovers", level="warning", subject=str(path), message=message, remedy=remedy, fixable=True)


def _directory(check: str, path: Path) -> list[Finding]:
    state = _state(path.resolve())
    if state is None:
        above = next(folder for folder in path.parents if is_directory(folder))
        if os.access(above, os.W_OK | os.X_OK):
            return [Finding(check=check, level="ok", message=f"{path} will be made when it is needed.")]
        message, remedy = f"{path} cannot be made in {above}.", f"Allow it, or name another folder: {_named(check)}."
    elif not stat.S_ISDIR(state.st_mode):
        message, remedy = f"{path} is no folder.", f"Move it away, or name another folder: {_named(check)}."
    elif not os.access(path, os.W_OK | os.X_OK | os.R_OK):
        message = (
            f"{path} cannot be written; indexes stay as they are." if check == "cache" else f"{path} is read-only."
        )
        remedy = f"Allow it, or name another folder: {_named(check)}."
    else:
        return [Finding(check=check, level="ok", message=str(path))]
    return [Finding(check=check, level="error", message=message, remedy=remedy)]


def _named(check: str) -> str:
    return "`--cache-dir` or KBHUB_CACHE_DIR" if check == "cache" else "KBHUB_DATA_DIR"


def _low_disk(path: Path) -> Finding | None:
    there = next(folder for folder in (path, *path.parents) if is_directory(folder))
    free = shutil.disk_usage(there).free
    if free >= LOW_DISK_BYTES:
        return None
    message = f"{free // 1_000_000} MB are free below {there}; a large base needs {LOW_DISK_BYTES // 1_000_000} MB."
    remedy = "Free space, or keep indexes elsewhere: `--cache-dir` or KBHUB_CACHE_DIR."
    return Finding(check="disk", level="warning", message=message, remedy=remedy)


def _owners(places: Sequence[Path]) -> list[Finding]:
    """Name what belongs to another user, who could have put anything there."""
    if not hasattr(os, "getuid"):
        return []
    mine = (os.getuid(), 0)
    others = [path for path in places if (state := _state(path)) and state.st_uid not in mine]
    remedy = "Take it over (`chown`) or delete it; indexes are made anew."
    return [
        Finding(check="owner", level="error", subject=str(path), message="It belongs to another user.", remedy=remedy)
        for path in others[:1]
    ]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
