"""Bring an index in step with its files: what changed, in batches, by one process at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw

from kbhub.comparing import SYNCED, Difference, compare, compare_some, gone, in_step_of
from kbhub.errors import EmbedderError, IndexUnavailable
from kbhub.history import commit_times
from kbhub.index import IndexWriter, noted_damage, remedy, set_aside
from kbhub.indexing import (
    NOTHING,
    DocumentReader,
    Read,
    chunk_key,
    embedded_text,
    keyed_texts,
    stored_vectors,
    trusted_time,
)
from kbhub.keeping import Keeping
from kbhub.later import filelock, reports, workers
from kbhub.places import private_directory
from kbhub.values import record
from kbhub.walk import NO_LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from kbhub.embedding import Embedder
    from kbhub.reports import SyncReport
    from kbhub.types import Base, FileEntry, Kind, Scan

log = logging.getLogger(__name__)

BATCH_FILES, BATCH_BYTES = 256, 4 << 20
"""Files and bytes of text per transaction: short enough that readers and Ctrl-C never wait long."""

BATCH_CHUNKS = 512
"""Chunks embedded at a time when only vectors are missing."""

PROBE = "Can texts be embedded now?"

LOCK_SECONDS = 0.1
"""How long a sync waits for the lock: longer than `is_being_indexed` holds it, shorter than a batch takes."""

_TRYING = threading.Lock()
"""Held while the lock of an index is tried: who only asks whether it is held takes it for a moment, and another thread
of this process would take that for indexing."""

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
"""What the file of an index says if it is damaged; a text that cannot be decoded can only come from there."""

__all__ = ["Difference", "Progress", "compare", "compare_some", "in_step_of", "is_being_indexed", "sync_base"]

Progress = Callable[[str, int, int], None]
"""Called with (base id, files done, files to do)."""


def sync_base(
    base: Base,
    path: Path,
    embedder: Embedder | None,
    *,
    max_bytes: int,
    max_files: int,
    kind_bytes: Mapping[Kind, int] = NO_LIMITS,
    kept: Path | None = None,
    full: bool = False,
    check: bool = False,
    progress: Progress | None = None,
    difference: Difference | None = None,
) -> SyncReport:
    """Bring the index of a base in step with its files.

    A file that cannot be read is reported and keeps what the index has of it. Every batch is one transaction.

    Args:
        base: the base.
        path: its index file; made, or set aside and made anew, if need be.
        embedder: what makes the vectors; none leaves the semantic side out.
        max_bytes: size limit of a file.
        max_files: limit of files in a base.
        kind_bytes: size limits of kinds of files that have their own.
        kept: folder of kept texts; see `keeping`.
        full: read every file again, even if it looks unchanged, and make every vector anew.
        check: read all of the index first, and make it anew if something is wrong with it; so does `full`.
        progress: called after every batch.
        difference: what `compare` found just now.

    Returns:
        What was done; a note says so if another process is at it.

    Raises:
        BaseUnavailable: the folder of the base is not there; the index is left alone.
        IndexUnavailable: the index cannot be written.
    """
    started = time.monotonic()
    if difference is None:
        difference = compare(base, path, max_bytes=max_bytes, max_files=max_files, kind_bytes=kind_bytes, kept=kept)
    try:
        private_directory(path.parent)
        with _only_writer(path):
            files = DocumentReader(base, Keeping(kept, base), max_bytes, max_files, kind_bytes)
            run, counts = _locked(path, files, embedder, difference, full=full, check=check, progress=progress)
    except filelock.Timeout:
        return reports.SyncReport(base=base.id, busy=True, notes=("Another kbhub process is indexing this base.",))
    except (apsw.Error, OSError) as error:  # those of the documents are caught one by one
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
) -> tuple[_Run, tuple[int, int]]:
    """Bring an index in step, made anew if it is damaged; gives what was done, and its documents and chunks."""
    notes: list[str] = []
    for again in (True, False):
        try:
            with _open(path, notes, check=full or check) as writer:
                # What another process has indexed since may be newer than the files as they were compared.
                same = difference.generation == (writer.generation() or -1)
                known = difference if same and not full and not difference.new_index else None
                found = difference.scan if known or (same and difference.paths is None) else files.scan()
                run = _Run(files.base, writer, embedder, found, files, full=full, progress=progress, notes=notes)
                run.all(known)
                return run, writer.counts()
        except _DAMAGE as error:  # in a page that was not looked at before
            if not again:
                raise
            _set_aside(path, str(error), notes)
            files.failed.clear()
            files.unread.clear()
    raise AssertionError("the second try returns or raises")


def is_being_indexed(path: Path) -> bool:
    """Say whether another process, or another thread of this one, is writing an index.

    Args:
        path: the index file.
    """
    try:
        if not path.parent.is_dir():
            return False
        with _TRYING, filelock.FileLock(f"{path}.lock", timeout=0, mode=0o600):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # no lock can be made there, so nobody holds one
        return False


@contextmanager
def _only_writer(path: Path) -> Iterator[None]:
    """Hold the lock of an index.

    Raises:
        filelock.Timeout: another process, or another thread of this one, holds it.
        OSError: it cannot be made.
    """
    lock = filelock.FileLock(f"{path}.lock", timeout=LOCK_SECONDS, mode=0o600)
    with _TRYING:
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _open(path: Path, notes: list[str], *, check: bool) -> IndexWriter:
    fault = noted_damage(path)
    try:
        if fault is None:
            writer = IndexWriter(path)
            fault = writer.check() if check else None
            if fault is None:
                return writer
            writer.close()
    except (ValueError, *_DAMAGE) as error:
        fault = str(error)
    _set_aside(path, fault, notes)
    return IndexWriter(path)


def _set_aside(path: Path, fault: str, notes: list[str]) -> None:
    aside = set_aside(path)
    notes.append(f"The old index could not be used ({fault}); it was set aside as {aside.name} and made anew.")


@record
class _Run:
    """One sync under the lock, with what it has counted so far."""

    base: Base
    writer: IndexWriter
    embedder: Embedder | None
    scan: Scan
    files: DocumentReader
    full: bool
    progress: Progress | None
    notes: list[str]
    paths: frozenset[str] | None = None
    """The only paths that may be others than the index has them; none if all may."""
    fresh: list[str] = field(default_factory=list)
    """Paths of documents that the index did not have."""
    changed: int = 0
    removed: int = 0
    made: int = 0
    reused: int = 0
    written: int = 0

    def all(self, difference: Difference | None) -> None:
        """Do all that is to be done.

        Args:
            difference: how the files differ from the index; none if that is to be found out.
        """
        self._check_embedder()
        if difference is None:
            known = self.writer.files()
            suspects, removed = self._suspects(known), tuple(gone(known, self.scan))
        else:
            suspects = sorted((*difference.suspects, *difference.unreadable), key=lambda entry: entry.path)
            known, removed = self.writer.files([entry.path for entry in suspects]), difference.gone
            self.paths = difference.paths
        done = 0
        with closing(self._read(suspects, known)) as parts:
            for batch, read in parts:
                self._write(read, known)
                done += len(batch)
                if self.progress:
                    self.progress(self.base.id, done, len(suspects))
        # Removed last, so that a renamed document finds the vectors of its old self.
        self._remove(removed)
        self._fill_vectors()
        self._finish()

    def _suspects(self, known: Mapping[str, tuple[int, int, bytes]]) -> list[FileEntry]:
        lacks = self.files.keeping.lacks
        return [
            self.scan.entry(path)
            for path, file in sorted(self.scan.files.items())
            if self.full or known.get(path, ())[:2] != file or lacks(path)
        ]

    def report(self, documents: int, chunks: int, seconds: float) -> SyncReport:
        same = documents if self.paths is not None else len(self.scan.files) - len(self.files.failed)
        return reports.SyncReport(
            base=self.base.id,
            added=len(self.fresh),
            changed=self.changed,
            removed=self.removed,
            unchanged=same - len(self.fresh) - self.changed,
            failed=(*self.scan.skipped, *self.files.failed),
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
        had = self.writer.meta("embedder")
        try:
            same = had == self.embedder.fingerprint
            if same and not self.full:
                return
            dimensions = self.embedder.dimensions
            if same:  # vectors that are there are let go only for an embedder that makes others
                self.embedder.embed([PROBE])
        except EmbedderError as error:
            self._no_vectors(error)
            return
        with self.writer.transaction():
            if had is not None:
                self.writer.forget_vectors()
            if had is not None and not same:
                self.notes.append(f"The embedder changed to {self.embedder.name}; all vectors are made anew.")
            self.writer.set_meta(
                {
                    "embedder": self.embedder.fingerprint,
                    "embedder_name": self.embedder.name,
                    "dimensions": dimensions,
                }
            )

    def _read(
        self, suspects: Sequence[FileEntry], known: Mapping[str, tuple[int, int, bytes]]
    ) -> Generator[tuple[Sequence[FileEntry], Read]]:
        """Read files, by workers where an index is made of many of them."""
        count = workers.worth(suspects)
        if not count or self.writer.counts()[0]:
            for batch in workers.batches(suspects, BATCH_FILES, BATCH_BYTES):
                yield batch, self.files.read_all(batch, known=NOTHING if self.full else known)
            return
        with workers.Workers(self.files, self.embedder, suspects, count) as processes:
            yield from processes.read()

    def _write(self, read: Read, known: Mapping[str, tuple[int, int, bytes]]) -> None:
        for document in read.documents:
            old = known.get(document.path)
            if old is None:
                self.fresh.append(document.path)
            self.changed += old is not None and old[2] != document.hash
        self.made += len(read.vectors)
        texts = {
            key: text for document in read.documents for key, text in keyed_texts(document) if key not in read.vectors
        }
        vectors = {**read.vectors, **self._vectors(texts)}
        with self.writer.transaction():
            for document in read.documents:
                self.writer.put(document, vectors)
                self.written += len(document.chunks)
            for entry in read.same:
                self.writer.touch(entry.path, entry.size, trusted_time(entry))

    def _vectors(self, texts: Mapping[int, str]) -> dict[int, bytes | None]:
        """Give the vectors of texts by key: those that the index has, else new ones."""
        if not texts:
            return {}
        vectors = self.writer.vectors(texts)
        if self.embedder is None:  # those of an embedder that does not load now serve again when it does
            return vectors
        self.reused += len(vectors)
        missing = [key for key in texts if key not in vectors]
        if not missing:
            return vectors
        try:
            made = stored_vectors(self.embedder, {key: texts[key] for key in missing})
        except EmbedderError as error:
            self._no_vectors(error)
            return vectors
        self.made += len(made)
        return vectors | made

    def _no_vectors(self, error: EmbedderError) -> None:
        self.embedder = None
        self.notes.append(f"{error} Documents were indexed for keyword search; vectors follow when it loads.")

    def _remove(self, paths: Sequence[str]) -> None:
        for batch in (paths[at : at + BATCH_FILES] for at in range(0, len(paths), BATCH_FILES)):
            with self.writer.transaction():
                for path in batch:
                    self.writer.remove(path)
        self.removed = len(paths)

    def _fill_vectors(self) -> None:
        """Make the vectors of chunks that were indexed without, say because the embedder is another now."""
        while self.embedder and (chunks := self.writer.without_vector(BATCH_CHUNKS)):
            texts = {chunk: embedded_text(title, headings, prose) for chunk, title, headings, prose in chunks}
            keys = {chunk: chunk_key(text) for chunk, text in texts.items()}
            vectors = self._vectors({keys[chunk]: text for chunk, text in texts.items()})
            if self.embedder is None:
                return
            with self.writer.transaction():
                for chunk, key in keys.items():
                    self.writer.put_vector(chunk, key, vectors[key])

    def _finish(self) -> None:
        commits = commit_times(self.base, self.writer.meta("head"), self.fresh)
        with self.writer.transaction(content=False):
            problems = [(p.subject, p.message) for p in (*self.scan.skipped, *self.files.failed)]
            self.writer.set_problems(problems, self.paths)
            if commits:
                self.writer.set_commits(commits.times)
            self.writer.set_meta(
                {
                    # A path may have bytes that are no text; it is here for people.
                    "base": str(self.base.path).encode("utf-8", "backslashreplace").decode(),
                    "head": commits.head if commits else None,
                    SYNCED: datetime.now(UTC).isoformat(timespec="seconds"),
                }
            )
        self.writer.tidy(self.written)
