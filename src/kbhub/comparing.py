"""How the files of a base differ from its index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable
from kbhub.index import Index, noted_damage
from kbhub.index.differences import differing
from kbhub.indexing import DocumentReader
from kbhub.keeping import Keeping
from kbhub.values import struct
from kbhub.walk import NO_LIMITS, is_relative

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from kbhub.types import Base, FileEntry, Kind, Scan

SYNCED = "synced"
"""Key in the table `meta` of the time when all files of the base were last in the index."""


@struct
class Difference:
    """How the files of a base differ from its index."""

    scan: Scan
    suspects: tuple[FileEntry, ...]
    """Files that are new or have another size or time, in order of path."""
    gone: tuple[str, ...]
    """Paths in the index whose file is no longer there."""
    new_index: bool
    """Whether there is no index yet, or none that can be read."""
    generation: int = -1
    """State of the index that was compared."""
    unreadable: tuple[FileEntry, ...] = ()
    """Files like the suspects that could not be read and still cannot."""
    paths: frozenset[str] | None = None
    """The only paths that were compared; none if all were."""
    young: int = 0
    """How many of the suspects have the known size and time, but were indexed within a tick of that: most likely they
    did not change."""

    def __len__(self) -> int:
        return len(self.suspects) + len(self.gone)

    @property
    def certain(self) -> int:
        """How many files certainly changed."""
        return len(self) - self.young


@struct
class InStep:
    """An index and files that were found to be in step, in a form that takes no memory."""

    generation: int
    """State of the index."""
    digest: int
    """Tells files, sizes and times from others, in this process."""


def in_step_of(found: Difference) -> InStep | None:
    """Give the state in which a comparison of all files found that nothing differs; none if something did."""
    if found.new_index or len(found) or found.unreadable:
        return None
    return InStep(found.generation, _digest(found.scan))


def _digest(scan: Scan) -> int:
    # In one process, another file, size or time gives another sum but once in 2^64; the order does not matter.
    return sum(map(hash, scan.files.items()))


def compare(
    base: Base,
    path: Path,
    *,
    max_bytes: int,
    max_files: int,
    kind_bytes: Mapping[Kind, int] = NO_LIMITS,
    kept: Path | None = None,
    in_step: tuple[InStep, Index] | None = None,
) -> Difference:
    """Find what `sync_base` would have to do; reads file times only.

    Args:
        base: the base.
        path: its index file.
        max_bytes: size limit of a file.
        max_files: limit of files in a base.
        kind_bytes: size limits of kinds of files that have their own.
        kept: folder of kept texts; see `keeping`.
        in_step: a state in which nothing differed, if one is known, and the index, held open by who has more to do with
            it: what is still so is not read again.

    Raises:
        BaseUnavailable: the folder of the base is not there.
    """
    files = DocumentReader(base, Keeping(kept, base), max_bytes, max_files, kind_bytes)
    found = files.scan()
    if noted_damage(path) is not None:
        return _from_nothing(found)
    if in_step and not files.keeping.rules and _is_still(found, *in_step):
        return Difference(found, (), (), new_index=False, generation=in_step[0].generation)
    index = Index(path, base.id)
    try:
        with index.snapshot():
            (differ, young, absent), generation = differing(index, found.files), index.generation()
            differ += young
            if files.keeping.rules:
                differ += filter(files.keeping.lacks, found.files.keys() - differ)
            other = [found.entry(path) for path in sorted(differ)]
            failed = {path for path, _ in index.problems()} if other else set()
    except IndexUnavailable:
        return _from_nothing(found)
    finally:
        index.close()
    # What could not be read and still cannot is no work: it would be tried before every search.
    unreadable = tuple(entry for entry in other if entry.path in failed and not files.can_read(entry))
    return Difference(
        found,
        tuple(entry for entry in other if entry not in unreadable) if unreadable else tuple(other),
        tuple(gone(absent, found)),
        new_index=False,
        generation=generation,
        unreadable=unreadable,
        young=len(set(young).difference(entry.path for entry in unreadable)) if young else 0,
    )


def _from_nothing(found: Scan) -> Difference:
    return Difference(found, tuple(map(found.entry, sorted(found.files))), (), new_index=True)


def _is_still(found: Scan, in_step: InStep, index: Index) -> bool:
    try:
        with index.snapshot():
            return in_step == InStep(index.generation(), _digest(found))
    except IndexUnavailable:
        return False


def compare_some(
    base: Base,
    index: Index,
    paths: Collection[str],
    frame: object,
    *,
    max_bytes: int,
    max_files: int,
    kind_bytes: Mapping[Kind, int] = NO_LIMITS,
    kept: Path | None = None,
) -> Difference | None:
    """Find what `compare` would find if only some files may have changed, without looking at the others.

    Args:
        base: the base.
        index: its index.
        paths: the paths that may have changed, relative to the base, with `/`. Any string is safe.
        frame: `Scan.frame` of the last comparison of all files.
        max_bytes: as for `compare`, and so are the others.
        max_files: the same.
        kind_bytes: the same.
        kept: the same.

    Returns:
        None where only a comparison of all files can tell: what decides about them is another than in the frame, a path
        is that of a folder or of a link, the text of files that are gone is kept, the index was never complete.

    Raises:
        BaseUnavailable: the folder of the base is not there.
    """
    files = DocumentReader(base, Keeping(kept, base), max_bytes, max_files, kind_bytes)
    if frame is None or noted_damage(index.path) is not None or files.keeping.rules or not all(map(is_relative, paths)):
        return None
    found = files.scan(paths)
    if found.frame != frame:
        return None
    try:
        with index.snapshot():
            known = index.files(paths)
            more = sum(path not in known for path in found.files)
            if (
                index.meta(SYNCED) is None
                or any(map(index.has_below, paths))
                or (more and more + index.counts()[0] > max_files)
            ):
                return None
            generation = index.generation()
    except IndexUnavailable:
        return None
    other = tuple(found.entry(path) for path, file in sorted(found.files.items()) if known.get(path) != file)
    return Difference(
        found, other, tuple(gone(known, found)), new_index=False, generation=generation, paths=frozenset(paths)
    )


def gone(known: Iterable[str], scan: Scan) -> list[str]:
    """Give the paths of an index whose files are gone; those below a folder that cannot be listed are not.

    Args:
        known: paths in the index.
        scan: what a walk found.
    """
    hidden = tuple(f"{folder}/" if folder else "" for folder in scan.unlisted)
    return [path for path in known if path not in scan.files and not path.startswith(hidden or "\0")]


def behind_of(found: Difference, index: Index) -> list[str]:
    """Give the paths of files that changed since they were indexed, and of those that are gone.

    A file is not behind that was just written when it was indexed, which the next sync looks at once more, that was
    indexed meanwhile, or that only lacks a text to be kept.

    Args:
        found: what a comparison found.
        index: the index that was compared.

    Raises:
        IndexUnavailable: it cannot be read.
    """
    with index.snapshot():
        known = index.files(one.path for one in found.suspects)
    # A time that is not trusted yet is stored negated.
    times = {path: (size, abs(mtime)) for path, (size, mtime) in known.items()}
    changed = [one.path for one in found.suspects if times.get(one.path) != (one.size, abs(one.mtime_ns))]
    return [*changed, *found.gone]
