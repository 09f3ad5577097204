"""The locks of a base, how its files differ from its index, and the kept texts of files that are deleted.

Of such a file only text is kept, so that it stays searchable: compressed, one file per document in the user's data
folder, written on indexing. A document whose file is gone has a negative size in the index: -1 less that of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kbhub.documents.filters import Filters, included, parse_rules
from kbhub.documents.walk import KEPT, Limits, Scan, Traversal, digest_of, is_relative, open_contained
from kbhub.errors import IndexUnavailable, KbhubError, PathNotContained, UsageError, WriteRefused
from kbhub.hub import Hub
from kbhub.index.engine import Index
from kbhub.index.sqlite.index import noted_damage
from kbhub.types import Base, Document, FileEntry, Kind, Problem
from kbhub.values import Value, counted, struct
from kbhub.workspace.files import held, private_directory, read_regular, write_atomically
from kbhub.workspace.formats import why_unreadable

Progress = Callable[[str, int, int], None]
"""Called with (base id, files done, files to do)."""

INDEX_LOCK_SECONDS = 0.1
"""Timeout for the lock: longer than `is_being_indexed` holds it, shorter than a batch takes."""

_TRYING = threading.Lock()
"""Held while the lock of an index is acquired: `is_being_indexed` takes that lock for a moment, which another thread of
this process would mistake for indexing."""

RACY_NS = 2_000_000_000
"""A file changed less than this long (ns) before it was read may change again within one tick of its clock (2 s on
FAT), so its time is stored negated, which no file has, and its content is compared next time."""

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
        lock = FileLock(f"{path}.lock", timeout=INDEX_LOCK_SECONDS, mode=0o600).acquire()
    with lock:
        yield


def writing(hub: Hub, base: Base, ref: str) -> AbstractContextManager[None]:
    """Hold the write lock of a base; raise `WriteRefused`, which names the document, if it cannot be had."""
    name = hashlib.sha256(str(base.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return held(hub.data / "locks" / f"{name}.lock", FOLDER_LOCK_SECONDS, partial(WriteRefused, ref))


SYNCED = "synced"
"""`meta` key: time of the last complete sync."""

PROGRESS = "progress"
"""`meta` key: files done and files to do of the sync that is writing the index, for other processes to show."""

PASSED_OVER = "passed_over"
"""`meta` key: `Scan.passed_over` of the last sync that looked at all files, as JSON."""

IN_STEP = "in_step"
"""`meta` key: generation and `digest_of` the files after the last sync that looked at all, if each is indexed as it
was."""


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
    new_index: bool
    generation: int = -1
    digest: str = ""
    """`digest_of` the files; empty if it was not needed."""
    unreadable: tuple[FileEntry, ...] = ()
    """Changed files that could not be read before and still cannot."""
    paths: frozenset[str] | None = None
    """The only paths compared; None if all were."""
    young: int = 0
    """How many suspects are most likely unchanged: indexed with their size and time, but within a clock tick of it."""

    def __len__(self) -> int:
        return len(self.suspects) + len(self.gone)


def compare(base: Base, index: Index, limits: Limits, in_step: str | None = None) -> Difference:
    """Find what `sync_base` would have to do; only stats files.

    If nothing changed since the state `in_step`, or that of the last sync, the documents of the index are not read.
    """
    keeping = DeletedTexts(limits.kept, base)
    scan = keeping.scan(limits)
    if noted_damage(index.path) is not None:
        return _from_nothing(scan)
    digest = "" if keeping.rules else digest_of(scan)
    try:
        with index.snapshot():
            generation = index.generation()
            if digest and f"{generation} {digest}" in (in_step, index.meta(IN_STEP)):
                return Difference(scan, (), (), new_index=False, generation=generation, digest=digest)
            files = scan.files
            differ, young, absent = set(files), set[str](), list[str]()
            for path, size, mtime in index.file_states():
                if (file := files.get(path)) is None:
                    if not scan.hides(path):
                        absent.append(path)
                elif file == (size, mtime):
                    if not (keeping.rules and keeping.lacks(path)):
                        differ.discard(path)
                elif file == (size, -mtime):  # indexed so soon after a write that it may have changed in the same tick
                    young.add(path)
            failed = dict(index.problems()) if differ else {}
    except IndexUnavailable:
        return _from_nothing(scan)
    suspects, unreadable = list[FileEntry](), list[FileEntry]()
    for path in sorted(differ):
        entry = FileEntry(path, *files[path])
        if path in failed and not _can_read(base, entry):  # no work, or every search would retry it
            unreadable.append(entry)
            young.discard(path)
        else:
            suspects.append(entry)
    return Difference(
        scan,
        tuple(suspects),
        tuple(absent),
        new_index=False,
        generation=generation,
        digest=digest,
        unreadable=tuple(unreadable),
        young=len(young),
    )


def _can_read(base: Base, entry: FileEntry) -> bool:
    """Return whether a file that was unreadable before can be opened now."""
    if entry.size >= 0 and why_unreadable(base, entry.path) is None:
        with suppress(OSError, PathNotContained):
            open_contained(base, entry.path).close()
            return True
    return False


def trusted_time(entry: FileEntry) -> int:
    """Return the time to store for a file, negated if the file may still change within the same tick."""
    racy = entry.size >= 0 and abs(time.time_ns() - entry.mtime_ns) < RACY_NS
    return -entry.mtime_ns if racy else entry.mtime_ns


def are_as_indexed(base: Base, index: Index, young: Sequence[FileEntry]) -> bool:
    """Return whether no file indexed a moment ago has other content, and all may still change: a sync has no work."""
    if max(map(trusted_time, young)) < 0:
        with suppress(OSError, PathNotContained, IndexUnavailable), index.snapshot():
            rows = index.documents_at([entry.path for entry in young])
            for row in rows:
                with open_contained(base, row.path) as file:
                    digest = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type] # a raw file will do
                if digest != row.hash:
                    return False
            return len(rows) == len(young)
    return False


def _from_nothing(scan: Scan) -> Difference:
    suspects = tuple([FileEntry(path, *file) for path, file in sorted(scan.files.items())])
    return Difference(scan, suspects, (), new_index=True)


def compare_some(base: Base, index: Index, paths: Collection[str], frame: object, limits: Limits) -> Difference | None:
    """Compare only the files that may have changed, by untrusted paths; None if only a full comparison can tell.

    That is so if `Scan.frame` differs from the last full one's, a path is a folder or symlink, texts of deleted files
    are kept, or the index was never complete.
    """
    keeping = DeletedTexts(limits.kept, base)
    if frame is None or noted_damage(index.path) is not None or keeping.rules or not all(map(is_relative, paths)):
        return None
    scan = keeping.scan(limits, paths)
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
    suspects = tuple([FileEntry(path, *file) for path, file in sorted(scan.files.items()) if indexed.get(path) != file])
    young = sum(indexed.get(one.path) == (one.size, -one.mtime_ns) for one in suspects)
    return Difference(
        scan, suspects, gone(indexed, scan), new_index=False, generation=generation, paths=frozenset(paths), young=young
    )


def gone(known: Iterable[str], scan: Scan) -> tuple[str, ...]:
    """Return indexed paths whose files are gone; files in unlistable folders do not count as gone."""
    return tuple(path for path in known if path not in scan.files and not scan.hides(path))


def behind_of(found: Difference, index: Index) -> list[str]:
    """Return the paths of files changed or deleted since they were indexed, as far as that is certain."""
    with index.snapshot():
        indexed = index.files(entry.path for entry in found.suspects)
    # An untrusted time is stored negated.
    times = {path: (size, abs(mtime)) for path, (size, mtime) in indexed.items()}
    changed = [entry.path for entry in found.suspects if times.get(entry.path) != (entry.size, abs(entry.mtime_ns))]
    return [*changed, *found.gone]


ABOUT = "base.json"
"""Describes a folder: its base and the patterns added on the command line."""

SUFFIX = ".kept"

FORMAT = 1
"""Format version; files of a later version are left alone."""

MAX_BYTES = 256 << 20
"""Size limit of a kept file and of the text in it; more than the largest session has."""

_HEADER_BYTES = 16 << 10
"""Size limit of the first line, which contains a path."""


@struct
class DeletedText:
    """A kept text and its file."""

    path: str
    size: int
    mtime_ns: int
    digest: bytes
    kind: Kind
    document: Document
    gone: float | None = None
    """When its file was first found missing, seconds since the epoch; None if that was not recorded."""


def deleted_words(since: float | None) -> str:
    """Return the words that tell a reader of a kept text that its file is gone, and since when (in epoch seconds)."""
    when = f", first missed on {datetime.fromtimestamp(since, UTC).date()}" if since is not None else ""
    return f"its file was deleted{when}; this is the kept text"


class DeletedTexts:
    """The kept texts of one base, in kbhub's folder for them; without one (None), nothing is kept."""

    def __init__(self, root: Path | None, base: Base) -> None:
        self.root, self.base = root, base
        # By real path, as for the index: one folder under two ids shares its texts, unless they are those of projects.
        place = f"{base.path}\0{base.sessions_of}" if base.sessions_of else str(base.path)
        digest = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        # A forgotten memory must really be gone.
        self.folder = root / digest[:16] if root and base.kind != "memory" else None
        self.added: tuple[str, ...] = ()
        with suppress(OSError, ValueError, KeyError, TypeError):
            if self.folder:
                listed = json.loads(read_regular(self.folder / ABOUT, _HEADER_BYTES))["keepDeleted"]
                self.added = tuple(text for text in listed if isinstance(text, str))
        self.rules = parse_rules((*base.keep_deleted, *self.added), "keepDeleted") if self.folder else ()

    def wants(self, path: str) -> bool:
        """Whether the text of a file should be kept."""
        return bool(self.rules) and included(self.rules, path)

    def lacks(self, path: str) -> bool:
        """Whether the text of a file should be kept but is not yet."""
        return self.wants(path) and _name(path) not in self._names

    def save(self, entry: FileEntry, digest: bytes, kind: Kind, document: Mapping[str, Any]) -> None:
        """Keep the text of a file, given its SHA-256 and what `packed` made of it."""
        assert self.folder is not None
        if not (self.folder / ABOUT).exists():
            self._write_about()
        header = {
            "format": FORMAT,
            "path": entry.path,
            "size": entry.size,
            "mtimeNs": entry.mtime_ns,
            "sha256": digest.hex(),
            "kind": kind,
        }
        first = json.dumps(header).encode() + b"\n"
        write_atomically(self.folder / _name(entry.path), first + zlib.compress(json.dumps(document).encode()))
        self._names.add(_name(entry.path))

    def load(self, path: str) -> DeletedText | None:
        """Return the kept text of a file, or None if there is none or it cannot be read."""
        if self.folder is None or not self.wants(path):
            return None
        # It, the parsers and YAML take 20 ms to load, and every search scans its bases.
        from kbhub.documents.source import unpacked  # noqa: PLC0415

        try:
            data = read_regular(self.folder / _name(path), MAX_BYTES)
            first, _, rest = data.partition(b"\n")
            header, unpacker = json.loads(first), zlib.decompressobj()
            body = unpacker.decompress(rest, MAX_BYTES)
            if header["format"] > FORMAT or header["path"] != path or not unpacker.eof:
                return None
            kind = header["kind"]
            document = unpacked(path, kind, json.loads(body), inline=self.base.inline_tags)
            digest, gone = bytes.fromhex(header["sha256"]), header.get("gone")
            return DeletedText(path, header["size"], header["mtimeNs"], digest, kind, document, gone and float(gone))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return None

    def note(self, path: str, *, gone: bool) -> None:
        """Record that the file of a kept text is missing since now, or that it is back."""
        if self.folder is None or _name(path) not in self._names:
            return
        header = self._header(_name(path))
        if header and ("gone" in header) != gone:
            header.pop("gone", None)
            header |= {"gone": time.time()} if gone else {}
            _, _, body = read_regular(self.folder / _name(path), MAX_BYTES).partition(b"\n")
            write_atomically(self.folder / _name(path), json.dumps(header).encode() + b"\n" + body)

    def gone_since(self, path: str) -> float | None:
        """Return when the file of a kept text was first found missing (seconds since the epoch), or None if unknown."""
        gone = self._header(_name(path)).get("gone")
        return float(gone) if isinstance(gone, int | float) else None

    def scan(self, limits: Limits, paths: Collection[str] | None = None) -> Scan:
        """List the files of the base, and deleted ones with kept texts, which have negative sizes.

        With `paths`, check only these; a full scan would find the same if `Scan.frame` is the same for both and not
        None. Raises `BaseUnavailable` if the folder is gone.
        """
        scan = Traversal(self.base, limits, paths).run()
        if not self.rules or not self._names:
            return scan
        present = {_name(path) for path in scan.files}
        filters = Filters(self.base)
        files = dict(scan.files)
        for path, size, mtime in self._headers(self._names - present):
            exists = scan.hides(path) or os.path.lexists(self.base.path / path)
            if self.wants(path) and not exists and filters.reason(path) is None:
                files[path] = (-1 - size, mtime)
        return replace(scan, files=files)

    def add(self, patterns: Iterable[str]) -> None:
        """Keep the texts of files that match more patterns, from now on."""
        self._change(tuple(dict.fromkeys((*self.added, *patterns))))

    def forget(self, patterns: Iterable[str]) -> list[str]:
        """Remove added patterns and delete the kept texts of missing files that match; return their paths."""
        if self.folder is None or not self.folder.is_dir():
            return []
        removed = tuple(patterns)
        rules = parse_rules(removed, "keepDeleted")
        deleted = []
        for path, _, _ in list(self._headers(self._names)):
            if included(rules, path) and not os.path.lexists(self.base.path / path):
                (self.folder / _name(path)).unlink(missing_ok=True)
                self._names.discard(_name(path))
                deleted.append(path)
        self._change(tuple(pattern for pattern in self.added if pattern not in removed))
        return sorted(deleted)

    @cached_property
    def _names(self) -> set[str]:
        with suppress(OSError):
            return {name for name in os.listdir(self.folder) if name.endswith(SUFFIX)} if self.folder else set()  # noqa: PTH208
        return set()

    def _header(self, name: str) -> dict[str, Any]:
        """Return the first line of a kept file; empty if it cannot be read."""
        with suppress(OSError, ValueError), ((self.folder or Path()) / name).open("rb") as file:
            header = json.loads(file.readline(_HEADER_BYTES))
            return header if isinstance(header, dict) else {}
        return {}

    def _headers(self, names: Iterable[str]) -> Iterator[tuple[str, int, int]]:
        """Yield (path, size, mtime in ns) of readable kept files."""
        for name in sorted(names):
            match self._header(name):
                case {"path": str(path), "size": int(size), "mtimeNs": int(mtime)} if _name(path) == name:
                    yield path, size, mtime

    def _change(self, added: tuple[str, ...]) -> None:
        self.added = added
        self._write_about()
        self.rules = parse_rules((*self.base.keep_deleted, *added), "keepDeleted")

    def _write_about(self) -> None:
        assert self.folder is not None
        private_directory(self.folder)
        about = {"base": str(self.base.path), "keepDeleted": list(self.added)}
        write_atomically(self.folder / ABOUT, json.dumps(about, ensure_ascii=True, indent=2) + "\n")


def change_keeping(hub: Hub, names: Iterable[str], *, keep: Sequence[str], forget: Sequence[str]) -> list[str]:
    """Keep the texts of more or fewer files of some active bases; return what was done, in sentences."""
    if not all(pattern.strip() for pattern in (*keep, *forget)):
        raise UsageError("Empty pattern of files to keep or to forget. Name files, such as 'logs/' or '*.jsonl'.")
    ids, sentences = set(names), []
    for base in hub.discovery().bases if keep or forget else ():
        if base.id not in ids or base.kind == "memory":
            continue
        keeping = DeletedTexts(hub.data / KEPT, base)
        try:
            if keep:
                keeping.add(keep)
                kept = ", ".join(map(repr, keep))
                sentences.append(f"{base.id}: the text of files that match {kept} is kept when they are deleted.")
            gone = keeping.forget(forget) if forget else []
        except OSError as error:
            raise KbhubError(f"{base.id}: Cannot change the kept text: {error.strerror}.") from error
        if forget:
            sentences.append(f"{base.id}: deleted the kept text of {counted(len(gone), 'deleted file')}.")
        if forget and (own := [pattern for pattern in forget if pattern in base.keep_deleted]):
            sentences.append(f"{base.id}: the config still keeps {', '.join(map(repr, own))} (`keepDeleted`).")
    return sentences


def _name(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32] + SUFFIX
