"""The locks of a base, and how its files differ from its index."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from filelock import FileLock, Timeout

from kbhub.documents.walk import Limits, Scan, Traversal, digest_of, is_relative
from kbhub.errors import IndexUnavailable, WriteRefused
from kbhub.hub import Hub
from kbhub.index.catalogue import differing
from kbhub.index.engine import Index
from kbhub.index.sqlite import noted_damage
from kbhub.sync.deleted_texts import DeletedTexts
from kbhub.types import Base, FileEntry, Problem
from kbhub.values import Value, struct
from kbhub.workspace.files import private_directory

INDEX_LOCK_SECONDS = 0.1
"""Timeout for the lock: longer than `is_being_indexed` holds it, shorter than a batch takes."""

_TRYING = threading.Lock()
"""Held while the lock of an index is acquired: `is_being_indexed` takes that lock for a moment, which another thread of
this process would mistake for indexing."""

FOLDER_LOCK_SECONDS = 10.0
"""How long to wait for another writer, which needs milliseconds."""


def is_being_indexed(path: Path) -> bool:
    """Return whether another process or thread is writing an index."""
    try:
        if not path.parent.is_dir():
            return False
        with _TRYING, FileLock(f"{path}.lock", timeout=0, mode=0o600):
            return False
    except Timeout:
        return True
    except OSError:  # no lock can be created there, so nobody holds one
        return False


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the write lock of an index; raise `Timeout` if it is held elsewhere."""
    with _TRYING:
        held = FileLock(f"{path}.lock", timeout=INDEX_LOCK_SECONDS, mode=0o600).acquire()
    with held:
        yield


@contextmanager
def writing(hub: Hub, base: Base, ref: str) -> Iterator[None]:
    """Hold the write lock of a base; raise `WriteRefused`, which names the document, if it cannot be had."""
    name = hashlib.sha256(str(base.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = hub.data / "locks"
    try:
        private_directory(folder)
        held = FileLock(folder / f"{name}.lock", timeout=FOLDER_LOCK_SECONDS, mode=0o600).acquire()
    except Timeout as error:
        reason = f"another kbhub process has been writing to {base.id!r} for {FOLDER_LOCK_SECONDS:g} s; try again"
        raise WriteRefused(ref, reason) from error
    except OSError as error:
        raise WriteRefused(ref, f"no lock can be created in {folder} ({error.strerror})") from error
    with held:
        yield


SYNCED = "synced"
"""`meta` key: time of the last complete sync."""

PROGRESS = "progress"
"""`meta` key: files done and files to do of the sync that is writing the index, for other processes to show."""

PASSED_OVER = "passed_over"
"""`meta` key: `Scan.passed_over` of the last sync that looked at all files, as JSON."""

IN_STEP = "in_step"
"""`meta` key: `Difference.in_step` after the last sync that looked at all files, if each is in the index as it was."""


class SyncReport(Value):
    """What bringing one index in step with its files did."""

    base: str
    """Id of the base."""
    added: int = 0
    """Documents new in the index."""
    changed: int = 0
    """Changed documents."""
    removed: int = 0
    """Documents whose file is gone."""
    unchanged: int = 0
    """Unchanged documents."""
    failed: tuple[Problem, ...] = ()
    """Files that could not be read, and why."""
    passed_over: dict[str, int] = field(default_factory=dict)
    """End of the name → files that hold text and are of a kind that is not taken."""
    chunks: int = 0
    """Chunks in the index afterwards."""
    vectors_made: int = 0
    """Vectors computed."""
    vectors_reused: int = 0
    """Vectors reused from earlier, equal text."""
    seconds: float = 0.0
    """Wall-clock time."""
    busy: bool = False
    """Whether another process was indexing, so nothing was done."""
    notes: tuple[str, ...] = ()
    """Notes, as sentences."""


@struct
class Difference:
    """The differences between the files of a base and its index."""

    scan: Scan
    suspects: tuple[FileEntry, ...]
    """New files and files with another size or time, sorted by path."""
    gone: tuple[str, ...]
    """Indexed paths whose file is gone."""
    new_index: bool
    """Whether there is no readable index."""
    generation: int = -1
    digest: str = ""
    """`digest_of` the files; empty if it was not needed."""
    unreadable: tuple[FileEntry, ...] = ()
    """Changed files that could not be read before and still cannot."""
    paths: frozenset[str] | None = None
    """The only paths compared; None if all were."""
    young: int = 0
    """How many suspects have the indexed size and time but were indexed within one clock tick of that time; most likely
    unchanged."""

    def __len__(self) -> int:
        return len(self.suspects) + len(self.gone)

    @property
    def in_step(self) -> str | None:
        """The generation of the index and the digest of its files; None if anything differs."""
        differs = self.new_index or len(self) or self.unreadable
        return None if differs else f"{self.generation} {self.digest}"


def compare(base: Base, index: Index, limits: Limits, in_step: str | None = None) -> Difference:
    """Find what `sync_base` would have to do; only stats files.

    If nothing changed since the state `in_step`, or that of the last sync, the documents of the index are not read.
    Raises `BaseUnavailable` if the base's folder is gone.
    """
    keeping = DeletedTexts(limits.kept, base)
    scan = scan_base(base, keeping, limits)
    if noted_damage(index.path) is not None:
        return _from_nothing(scan)
    digest = "" if keeping.rules else digest_of(scan)
    try:
        with index.snapshot():
            generation = index.generation()
            if digest and f"{generation} {digest}" in (in_step, index.meta(IN_STEP)):
                return Difference(scan, (), (), new_index=False, generation=generation, digest=digest)
            differ, young, absent = differing(index, scan.files)
            differ += young
            if keeping.rules:
                differ += filter(keeping.lacks, scan.files.keys() - differ)
            different = [scan.entry(path) for path in sorted(differ)]
            failed = {path for path, _ in index.problems()} if different else set()
    except IndexUnavailable:
        return _from_nothing(scan)
    # Files that still cannot be read are no work, or every search would retry them.
    again = [entry for entry in different if entry.path in failed]
    unreadable = _unreadable(base, keeping, limits, again) if again else ()
    return Difference(
        scan,
        tuple(entry for entry in different if entry not in unreadable),
        tuple(gone(absent, scan)),
        new_index=False,
        generation=generation,
        digest=digest,
        unreadable=unreadable,
        young=len(set(young).difference(entry.path for entry in unreadable)),
    )


def scan_base(base: Base, keeping: DeletedTexts, limits: Limits, paths: Collection[str] | None = None) -> Scan:
    """List the files of a base, unordered, and deleted files with kept texts.

    With `paths`, check only these; the result is what a full scan would find for them if `Scan.frame` is the same for
    both and not None. Raises `BaseUnavailable` if the base's folder is gone.
    """
    return keeping.with_gone(Traversal(base, limits.file_bytes, limits.files, limits.kind_bytes, paths).run())


def _unreadable(base: Base, keeping: DeletedTexts, limits: Limits, failed: list[FileEntry]) -> tuple[FileEntry, ...]:
    # Parsers take 50 ms to load, and a search of unchanged bases reads no document.
    from kbhub.sync.indexer import DocumentReader  # noqa: PLC0415

    files = DocumentReader(base, keeping, limits)
    return tuple(entry for entry in failed if not files.can_read(entry))


def _from_nothing(scan: Scan) -> Difference:
    return Difference(scan, tuple(map(scan.entry, sorted(scan.files))), (), new_index=True)


def compare_some(base: Base, index: Index, paths: Collection[str], frame: object, limits: Limits) -> Difference | None:
    """Compare only the files that may have changed; None if only a full comparison can tell.

    That is so if the frame differs, a path is a folder or symlink, texts of deleted files are kept, or the index was
    never complete. Paths are relative to the base, with `/`, and untrusted; `frame` is `Scan.frame` of the last full
    comparison. Raises `BaseUnavailable` if the base's folder is gone.
    """
    keeping = DeletedTexts(limits.kept, base)
    if frame is None or noted_damage(index.path) is not None or keeping.rules or not all(map(is_relative, paths)):
        return None
    scan = scan_base(base, keeping, limits, paths)
    if scan.frame != frame:
        return None
    try:
        with index.snapshot():
            indexed = index.files(paths)
            more = sum(path not in indexed for path in scan.files)
            if (
                index.meta(SYNCED) is None
                or any(map(index.has_below, paths))
                or (more and more + index.counts()[0] > limits.files)
            ):
                return None
            generation = index.generation()
    except IndexUnavailable:
        return None
    suspects = tuple(scan.entry(path) for path, file in sorted(scan.files.items()) if indexed.get(path) != file)
    return Difference(
        scan, suspects, tuple(gone(indexed, scan)), new_index=False, generation=generation, paths=frozenset(paths)
    )


def gone(known: Iterable[str], scan: Scan) -> list[str]:
    """Return indexed paths whose files are gone; files in unlistable folders do not count as gone."""
    hidden = tuple(f"{folder}/" if folder else "" for folder in scan.unlisted)
    return [path for path in known if path not in scan.files and not path.startswith(hidden or "\0")]


def behind_of(found: Difference, index: Index) -> list[str]:
    """Return the paths of files changed or deleted since they were indexed.

    Not included: files indexed right after they were written (the next sync re-checks them), files indexed meanwhile,
    and files that only lack a kept text.
    """
    with index.snapshot():
        indexed = index.files(entry.path for entry in found.suspects)
    # An untrusted time is stored negated.
    times = {path: (size, abs(mtime)) for path, (size, mtime) in indexed.items()}
    changed = [entry.path for entry in found.suspects if times.get(entry.path) != (entry.size, abs(entry.mtime_ns))]
    return [*changed, *found.gone]
