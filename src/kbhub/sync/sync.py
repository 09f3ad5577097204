"""Sync an index with its files: changed files in batches, one writer at a time."""

# ruff: noqa: D102 - the writer is described in `IndexWriter`

from __future__ import annotations

import json
import logging
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import apsw
import filelock

from kbhub.documents.walk import Limits, Scan, digest_of
from kbhub.errors import EmbedderError, IndexUnavailable
from kbhub.index.engine import NewDocument
from kbhub.index.references import chunk_key
from kbhub.index.sqlite.index import IndexWriter, SqliteIndex, noted_damage
from kbhub.index.sqlite.schema import remedy, set_aside
from kbhub.models.embedding import Embedder
from kbhub.sync import indexer
from kbhub.sync.comparison import (
    IN_STEP,
    PASSED_OVER,
    PROGRESS,
    SYNCED,
    DeletedTexts,
    Difference,
    Progress,
    SyncReport,
    compare,
    gone,
    only_writer,
    trusted_time,
)
from kbhub.sync.indexer import NOTHING, DocumentReader, Read, keyed_texts, stored_vectors
from kbhub.types import Base, FileEntry, Problem
from kbhub.values import struct
from kbhub.workspace.files import private_directory
from kbhub.workspace.formats import converts
from kbhub.workspace.git import commit_times

log = logging.getLogger(__name__)

BATCH_FILES, BATCH_BYTES = 256, 4 << 20
"""Files and bytes of text per transaction: few enough that readers and Ctrl-C never wait long."""

BATCH_CHUNKS = 512
"""Chunks embedded at once when only vectors are missing."""

PROBE = "Can texts be embedded now?"

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
"""Errors of a damaged index file; text that cannot be decoded can only come from damage."""


def sync_base(
    base: Base,
    path: Path,
    embedder: Embedder | None,
    limits: Limits,
    *,
    full: bool = False,
    check: bool = False,
    progress: Progress | None = None,
    difference: Difference | None = None,
) -> SyncReport:
    """Sync the index of a base with its files; the report says `busy` if another process is indexing.

    A missing index is created, a damaged one set aside and rebuilt. Indexed content of a file that cannot be read is
    kept. `full` reads every file and computes every vector again, and implies `check`, which checks the whole index
    first. `difference` is a fresh result of `compare`. Raises `BaseUnavailable` if the folder of the base is gone.
    """
    started = time.monotonic()
    if difference is None:
        with closing(SqliteIndex(path, base.id)) as index:
            difference = compare(base, index, limits)
    try:
        private_directory(path.parent)
        files = DocumentReader(base, DeletedTexts(limits.kept, base), limits)
        with only_writer(path), files.parser:
            run, counts = _locked(path, files, embedder, difference, full=full, check=check, progress=progress)
    except filelock.Timeout:
        return SyncReport(base=base.id, busy=True, notes=("Another kbhub process is indexing this base.",))
    except (apsw.Error, OSError) as error:  # errors of single documents are handled elsewhere
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise IndexUnavailable(base.id, f"{path}: {reason}", remedy(error)) from error
    report = run.report(*counts, time.monotonic() - started)
    log.debug("index %s: %s", path, report)
    return report


def _locked(
    path: Path,
    files: DocumentReader,
    embedder: Embedder | None,
    difference: Difference,
    *,
    full: bool,
    check: bool,
    progress: Progress | None,
) -> tuple[Run, tuple[int, int]]:
    """Sync under the lock, rebuilding a damaged index; return the run and the (documents, chunks) of the index."""
    notes: list[str] = []
    for first_try in (True, False):
        try:
            with _open(path, notes, check=full or check) as writer:
                # Another process may have indexed newer files since the comparison.
                unchanged, scan = difference.generation == (writer.meta("generation") or -1), difference.scan
                usable = difference if unchanged and not full and not difference.new_index else None
                if not usable and not (unchanged and difference.paths is None):
                    scan = files.keeping.scan(files.limits)
                run = Run(writer, embedder, scan, files, full=full, progress=progress, notes=notes)
                run.all(usable)
                return run, writer.counts()
        except _DAMAGE as error:  # in a page that was not read before
            if not first_try:
                raise
            _set_aside(path, str(error), notes)
            files.failed.clear()
            files.unread.clear()
    raise AssertionError("the second try returns or raises")


def _open(path: Path, notes: list[str], *, check: bool) -> IndexWriter:
    fault = noted_damage(path)
    try:
        if fault is None:
            writer = IndexWriter(path)
            if not check or (fault := writer.check()) is None:
                return writer
            writer.close()
    except (ValueError, *_DAMAGE) as error:
        fault = str(error)
    _set_aside(path, str(fault), notes)
    return IndexWriter(path)


def _set_aside(path: Path, fault: str, notes: list[str]) -> None:
    aside = set_aside(path)
    notes.append(f"The old index was unusable ({fault}). It was moved aside as {aside.name} and rebuilt.")


class Writer(Protocol):
    """A writer of an index, whatever engine holds it; `IndexWriter` describes what each does."""

    def transaction(self, *, content: bool = True) -> AbstractContextManager[None]: ...
    def meta(self, key: str) -> Any: ...
    def set_meta(self, values: Mapping[str, Any]) -> None: ...
    def files(self, paths: Sequence[str] | None = None) -> dict[str, tuple[int, int, bytes]]: ...
    def vectors(self, keys: Iterable[int]) -> dict[int, bytes | None]: ...
    def put(self, document: NewDocument, vectors: Mapping[int, bytes | None]) -> None: ...
    def put_vector(self, chunk: int, key: int, vector: bytes | None) -> None: ...
    def touch(self, path: str, size: int, mtime_ns: int) -> None: ...
    def remove(self, path: str) -> int | None: ...
    def forget_vectors(self) -> None: ...
    def without_vector(self, limit: int) -> dict[int, str]: ...
    def set_problems(self, problems: Sequence[Problem], paths: Iterable[str] | None = None) -> None: ...
    def left_out(self, paths: Iterable[str] | None = None) -> dict[str, str]: ...
    def set_commits(self, times: Mapping[str, int]) -> None: ...
    def counts(self) -> tuple[int, int]: ...
    def tidy(self, written: int) -> None: ...


@struct(frozen=False)
class Run:
    """One sync under the lock, with its counts."""

    writer: Writer
    embedder: Embedder | None
    scan: Scan
    files: DocumentReader
    full: bool
    progress: Progress | None
    notes: list[str]
    paths: frozenset[str] | None = None
    """The only paths that may differ from the index; None if all may."""
    digest: str = ""
    fresh: list[str] = field(default_factory=list)
    """Paths of documents new in the index; `changed` are those with other content than before."""
    changed: list[str] = field(default_factory=list)
    left_out: dict[str, Problem] = field(default_factory=dict)
    """Path → why nothing is indexed of a file: nothing in it can be read. Not of those in `files.unread`, which are
    tried again every time."""
    removed: int = 0
    made: int = 0
    reused: int = 0
    written: int = 0
    settled: bool = True
    """Whether each file that was read is in the index with the size and time of the scan."""

    def all(self, difference: Difference | None) -> None:
        """Run the sync; None compares all files first."""
        self._check_embedder()
        if difference is None:
            indexed = self.writer.files()
            suspects = [
                FileEntry(path, *file)
                for path, file in self.scan.files.items()
                if self.full or indexed.get(path, ())[:2] != file or self.files.keeping.lacks(path)
            ]
            removed = gone(indexed, self.scan)
        else:
            suspects = [*difference.suspects, *difference.unreadable]
            indexed, removed = self.writer.files([entry.path for entry in suspects]), difference.gone
            self.paths, self.digest = difference.paths, difference.digest
        # Texts first: a converted file may take a minute, and a cloned repository may have many that do.
        suspects.sort(key=lambda entry: (converts(entry.path), entry.path))
        files_done = 0
        with closing(self._read(suspects, indexed)) as parts:
            for batch, read in parts:
                files_done += len(batch)
                self._write(read, indexed, len(self.scan.files) - len(suspects) + files_done)
                if self.progress:
                    self.progress(self.files.base.id, files_done, len(suspects))
        # Removed last, so that a renamed document can reuse its vectors.
        for first in range(0, len(removed), BATCH_FILES):
            with self.writer.transaction():
                for path in removed[first : first + BATCH_FILES]:
                    self.writer.remove(path)
        self.removed = len(removed)
        self._fill_vectors()
        self._finish()

    def report(self, documents: int, chunks: int, seconds: float) -> SyncReport:
        """Return what was done, with the documents and chunks in the index now."""
        added, changed = len(set(self.fresh) - self.left_out.keys()), len(set(self.changed) - self.left_out.keys())
        if self.paths is None:
            documents = len(self.scan.files) - len(self.files.unread)
        return SyncReport(
            base=self.files.base.id,
            added=added,
            changed=changed,
            removed=self.removed,
            unchanged=documents - len(self.left_out) - added - changed,
            failed=(*self.scan.skipped, *self.files.failed, *self.left_out.values()),
            passed_over=dict(self.scan.passed_over),
            chunks=chunks,
            vectors_made=self.made,
            vectors_reused=self.reused,
            seconds=round(seconds, 3),
            notes=tuple(self.notes),
        )

    def _check_embedder(self) -> None:
        if self.embedder is None:
            return
        previous = self.writer.meta("embedder")
        try:
            same = previous == self.embedder.fingerprint
            if same and not self.full:
                return
            dimensions = self.embedder.dimensions
            if same:  # drop existing vectors only if the embedder works
                self.embedder.embed([PROBE])
        except EmbedderError as error:
            self._no_vectors(error)
            return
        with self.writer.transaction():
            if previous is not None:
                self.writer.forget_vectors()
            if previous is not None and not same:
                self.notes.append(f"The embedder changed to {self.embedder.name}; all vectors are recomputed.")
            self.writer.set_meta(
                {"embedder": self.embedder.fingerprint, "embedder_name": self.embedder.name, "dimensions": dimensions}
            )

    def _read(
        self, suspects: Sequence[FileEntry], indexed: Mapping[str, tuple[int, int, bytes]]
    ) -> Generator[tuple[Sequence[FileEntry], Read]]:
        """Read files, with worker processes for a large first index."""
        if self.writer.counts()[0] or not (count := indexer.worth(suspects)):
            for batch in indexer.batches(suspects, BATCH_FILES, BATCH_BYTES):
                yield batch, self.files.read_all(batch, known=NOTHING if self.full else indexed)
            return
        with indexer.Workers(self.files, self.embedder, suspects, count) as processes:
            yield from processes.read()

    def _write(self, read: Read, indexed: Mapping[str, tuple[int, int, bytes]], files_done: int) -> None:
        for document in read.documents:
            previous = indexed.get(document.path)
            if previous is None:
                self.fresh.append(document.path)
            elif previous[2] != document.hash:
                self.changed.append(document.path)
        self.made += len(read.vectors)
        vectors = {**read.vectors, **self._vectors(keyed_texts(read.documents, read.vectors))}
        with self.writer.transaction():
            for document in read.documents:
                self.writer.put(document, vectors)
                self.written += len(document.chunks)
                self.settled &= self.scan.files.get(document.path) == (document.size, document.mtime_ns)
            for entry in read.same:
                moment = trusted_time(entry)
                self.writer.touch(entry.path, entry.size, moment)
                self.settled &= self.scan.files.get(entry.path) == (entry.size, moment)
            self.writer.set_meta({PROGRESS: f"{files_done} {len(self.scan.files)}"})

    def _vectors(self, texts: Mapping[int, str]) -> dict[int, bytes | None]:
        """Return the vectors of texts by key, from the index or computed."""
        vectors = self.writer.vectors(texts) if texts else {}
        if self.embedder:  # one that fails to load now may work again later
            self.reused += len(vectors)
            try:
                new = stored_vectors(self.embedder, {key: text for key, text in texts.items() if key not in vectors})
            except EmbedderError as error:
                self._no_vectors(error)
                return vectors
            self.made += len(new)
            vectors |= new
        return vectors

    def _no_vectors(self, error: EmbedderError) -> None:
        self.embedder = None
        self.notes.append(f"{error} Documents were indexed for keyword search; vectors follow once the embedder loads.")

    def _fill_vectors(self) -> None:
        """Compute missing vectors, such as after a change of the embedder."""
        while self.embedder and (texts := self.writer.without_vector(BATCH_CHUNKS)):
            keys = {chunk: chunk_key(text) for chunk, text in texts.items()}
            vectors = self._vectors({keys[chunk]: text for chunk, text in texts.items()})
            if self.embedder is None:
                return
            with self.writer.transaction():
                for chunk, key in keys.items():
                    self.writer.put_vector(chunk, key, vectors[key])

    def _finish(self) -> None:
        files, whole, known = self.files, self.paths is None, self.scan.files
        for path, reason in self.writer.left_out(self.paths).items():
            if path in known and path not in files.unread:
                self.left_out[path] = Problem(subject=path, message=reason)
        # What the next comparison may find, so that it need not read the index.
        unsure = self.scan.unlisted or files.failed or files.unread or files.keeping.rules
        generation = self.writer.meta("generation") if whole and self.settled and not unsure else None
        in_step = None if generation is None else f"{generation} {self.digest or digest_of(self.scan)}"
        head, times = commit_times(self.files.base, self.writer.meta("head"), self.fresh) or (None, {})
        with self.writer.transaction(content=False):
            self.writer.set_problems([*self.scan.skipped, *files.failed], self.paths)
            if head:
                self.writer.set_commits(times)
            self.writer.set_meta(
                {
                    # For people to read; a path may contain undecodable bytes.
                    "base": str(self.files.base.path).encode("utf-8", "backslashreplace").decode(),
                    "head": head,
                    PROGRESS: None,
                    SYNCED: datetime.now(UTC).isoformat(timespec="seconds"),
                    **({PASSED_OVER: json.dumps(self.scan.passed_over)} if whole else {}),
                    IN_STEP: in_step,
                }
            )
        self.writer.tidy(self.written)
