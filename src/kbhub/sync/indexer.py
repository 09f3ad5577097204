"""Read, chunk and embed the files of a base for its index, here or in worker processes."""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from operator import attrgetter
from types import MappingProxyType
from typing import Any, BinaryIO, Self

import numpy as np

from kbhub.documents.secrets import find_secrets
from kbhub.documents.source import IsolatedParser, chunks_of, packed, parse_text, read_source
from kbhub.documents.walk import Limits, open_contained
from kbhub.errors import EmbedderError, PathNotContained
from kbhub.index.engine import NewDocument
from kbhub.index.references import chunk_key, document_id, embedded_text, status_in
from kbhub.models.embedding import Embedder, StaticEmbedder
from kbhub.models.static_model import quantise
from kbhub.sync.comparison import DeletedTexts, trusted_time
from kbhub.types import Base, Document, FileEntry, Kind, Problem
from kbhub.values import moment_of, struct
from kbhub.workspace.child_processes import answering, end, greeting, start
from kbhub.workspace.formats import converts, is_converted, kind_of, why_unreadable

LEFT_OUT = (
    "Line {} looks like it contains a credential ({}), so it was not published. Remove it, or, if it is not a "
    "credential, publish with `--allow-secret`."
)
"""Why a document is not published; takes the line and the kind."""

NOTHING: Mapping[str, tuple[int, int, bytes]] = MappingProxyType({})


@struct
class Read:
    """The result of reading some files."""

    documents: tuple[NewDocument, ...]
    same: tuple[FileEntry, ...]
    vectors: Mapping[int, bytes | None]
    """Key → int8 vector (None for "no vector") of chunks of the documents; missing keys are still to be computed."""
    failed: tuple[Problem, ...]
    unread: frozenset[str]


@struct(frozen=False)
class DocumentReader:
    """Reads the files of a base, keeps texts if configured, and records what could not be read."""

    base: Base
    keeping: DeletedTexts
    limits: Limits
    failed: list[Problem] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    embedded: set[int] = field(default_factory=set)
    """Keys of the vectors that were returned, each once."""
    refuse_secrets: bool = False
    """Whether documents that seem to hold a credential are left out, as for others to read."""
    parser: IsolatedParser = field(default_factory=IsolatedParser)
    """To be closed."""

    def read(self, entry: FileEntry, known: bytes | None) -> NewDocument | None:
        """Read a file, or the kept text of a deleted one; None if its hash is the known one or it cannot be read."""
        kept_too = self.keeping.wants(entry.path)
        try:
            with suppress(OSError):  # harmless: only the date is unknown then
                if kept_too:
                    self.keeping.note(entry.path, gone=entry.size < 0)
            if entry.size < 0:
                kept = self.keeping.load(entry.path)
                if kept is None:
                    self._fail(entry, "Its file is gone, and its kept text cannot be read.")
                if kept is None or kept.digest == known:
                    return None
                return new_document(self.base, entry, kept.document, kept.kind, kept.digest)
            if reason := why_unreadable(self.base, entry.path):
                self._fail(entry, reason)
                return None
            kind = kind_of(self.base, entry.path)
            limit = self.limits.bytes_of(kind)
            with open_contained(self.base, entry.path) as file:
                data = None
                if is_converted(kind):  # it may be large, and is often only hashed
                    digest = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type] # a raw file will do
                else:
                    data = file.read(entry.size + 1)  # memory is taken for its size, unless it has grown
                    data += b"" if len(data) <= entry.size else file.read(max(0, limit - entry.size))
                    digest = hashlib.sha256(data).digest()
                if digest == known and not (kept_too and self.keeping.lacks(entry.path)):
                    return None
                if data is None:  # if it grows meanwhile, more is parsed than hashed, and the next sync reads it again
                    file.seek(0)
                    document = read_source(self.base, entry.path, file, limit, self.parser)
                else:
                    document = parse_text(entry.path, data, inline=self.base.inline_tags)
        except (OSError, PathNotContained) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._fail(entry, f"Cannot read it: {reason}.")
            return None
        if self.refuse_secrets and (found := find_secrets(text := "\n".join(document.lines))):
            self._fail(entry, LEFT_OUT.format(found[0].line(text), found[0].kind))
            return None
        if kept_too:
            try:
                self.keeping.save(entry, digest, kind, packed(document))
            except OSError as error:
                # Not `_fail`: it is indexed all the same.
                self.failed.append(Problem(subject=entry.path, message=f"Cannot keep its text: {error.strerror}."))
        return new_document(self.base, entry, document, kind, digest)

    def read_all(
        self,
        entries: Sequence[FileEntry],
        embedder: Embedder | None = None,
        known: Mapping[str, tuple[int, int, bytes]] = NOTHING,
    ) -> Read:
        """Read files, or the kept texts of deleted ones, with vectors if there is an embedder."""
        failed, unread = len(self.failed), set(self.unread)
        documents, same = [], []
        for entry in entries:
            previous = known.get(entry.path)
            document = self.read(entry, previous[2] if previous else None)
            if document is not None:
                documents.append(document)
            elif entry.path not in self.unread:
                same.append(entry)
        vectors = dict[int, bytes | None]()
        if embedder:
            with suppress(EmbedderError):  # the caller will get it when it tries itself
                vectors = stored_vectors(embedder, keyed_texts(documents, self.embedded))
            self.embedded.update(vectors)
        return Read(
            documents=tuple(documents),
            same=tuple(same),
            vectors=vectors,
            failed=tuple(self.failed[failed:]),
            unread=frozenset(self.unread - unread),
        )

    def _fail(self, entry: FileEntry, message: str) -> None:
        self.unread.add(entry.path)
        self.failed.append(Problem(subject=entry.path, message=message))


def new_document(base: Base, entry: FileEntry, document: Document, kind: Kind, digest: bytes) -> NewDocument:
    """Build a document as written to the index; `digest` is the SHA-256 of its file."""
    chunks = tuple(chunks_of(document, kind))
    return NewDocument(
        path=entry.path,
        docid=document_id(base, entry.path),
        size=entry.size,
        mtime_ns=trusted_time(entry),
        hash=digest,
        title=document.title,
        tags=document.tags,
        aliases=document.aliases,
        front_matter=document.front_matter,
        dated=_dated(document.front_matter),
        problem=" ".join(document.problems) or None,
        chunks=chunks,
        keys=tuple([chunk_key(embedded_text(document.title, kind, chunk)) for chunk in chunks]),
        kind=kind,
        links=document.links,
        written_status=status_in(chunks) if kind == "document" else "",
    )


def keyed_texts(documents: Iterable[NewDocument], known: Container[int] = ()) -> dict[int, str]:
    """Return the embedded texts of the chunks of documents by key, except known keys."""
    texts = {}
    for document in documents:
        for chunk, key in zip(document.chunks, document.keys, strict=True):
            if key not in known:
                texts[key] = embedded_text(document.title, document.kind, chunk)
    return texts


def stored_vectors(embedder: Embedder, texts: Mapping[int, str]) -> dict[int, bytes | None]:
    """Compute the vectors of texts by key, as int8 in the format of the index; None where the embedder has none."""
    if not texts:
        return {}
    vectors = embedder.embed(list(texts.values()))
    rows = zip(texts, np.any(vectors, axis=1).tolist(), quantise(vectors), strict=True)
    return {key: blob.tobytes() if known else None for key, known, blob in rows}


def _dated(front_matter: Mapping[str, Any]) -> int | None:
    """Return a document's own date (`updated`, else `date`) in seconds since the epoch."""
    for key in ("updated", "date"):
        value = front_matter.get(key)
        if isinstance(value, str) and (moment := moment_of(value.strip())) is not None:
            return int(moment)
    return None


log = logging.getLogger(__name__)

MOST_WORKERS = 2
"""Writing takes 0.8 of the time of reading, so a third worker would be idle. Even on two cores two are better than one,
since writing waits for the first part, and packing the index at the end reads nothing."""

LARGE_BYTES, LARGE_FILES = 4_000_000, 2000
"""Thresholds, either of which makes workers worthwhile: they save three seconds of work for half a second of
startup."""

PART_FILES, PART_BYTES = 256, 512 * 1024
"""Files and bytes per part, which is also a transaction: small enough to occupy all workers, large enough to share word
tokens and the pages of an index in which each document is elsewhere."""

AHEAD = 4
"""Parts a worker prepares before it waits for the writer: some three MB. A part with a long file is not held ahead."""

GREETING = greeting("reads")


@struct
class Job:
    """The job of a worker."""

    base: Base
    limits: Limits
    embedder: tuple[str, str, str] | None
    """Arguments of a `StaticEmbedder`; None leaves the vectors to the writing process."""
    parts: tuple[tuple[FileEntry, ...], ...]
    refuse_secrets: bool = False


def worth(entries: Sequence[FileEntry]) -> int:
    """Return how many workers are worthwhile for reading some files; 0 if this process should read them."""
    if len(entries) < LARGE_FILES and sum(map(attrgetter("size"), entries)) < LARGE_BYTES:
        return 0
    count = min(MOST_WORKERS, cores(), sum(1 for _ in batches(entries, PART_FILES, PART_BYTES)))
    return count if count > 1 and sys.executable else 0


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batches(entries: Sequence[FileEntry], most_files: int, most_bytes: int) -> Iterator[tuple[FileEntry, ...]]:
    """Split files into batches, in order; those of texts end where converted files start, which take longer."""
    batch, size = list[FileEntry](), 0
    for entry in entries:
        full = len(batch) == most_files or size + entry.size > most_bytes
        if batch and (full or converts(entry.path) != converts(batch[-1].path)):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield tuple(batch)


class Workers:
    """Context manager of processes that read the files of one base as a reader does, which reads what they fail to.

    Without an embedder from a local file, vectors are left out.
    """

    def __init__(
        self, files: DocumentReader, embedder: Embedder | None, entries: Sequence[FileEntry], count: int
    ) -> None:
        self._files, self._embedder, self._count = files, embedder, count
        self._parts = tuple(batches(entries, PART_FILES, PART_BYTES))
        self._processes: list[subprocess.Popen[bytes] | None] = []
        self._greeted: set[int] = set()

    def __enter__(self) -> Self:
        files, model = self._files, self._embedder
        static = (model.source, model.name, model.fingerprint) if isinstance(model, StaticEmbedder) else None
        jobs = [
            Job(files.base, files.limits, static, self._parts[number :: self._count], files.refuse_secrets)
            for number in range(self._count)
        ]
        try:
            self._processes.extend(_started() for _ in jobs)
            for number, (process, job) in enumerate(zip(self._processes, jobs, strict=True)):
                if process and process.stdin:
                    try:
                        pickle.dump(job, process.stdin)
                        process.stdin.close()
                    except OSError:
                        self._lose(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process:
                end(process)

    def read(self) -> Iterator[tuple[tuple[FileEntry, ...], Read]]:
        """Yield the parsed files part by part, in order."""
        for number, part in enumerate(self._parts):
            if (read := self._answer(number % self._count)) is None:
                read = self._files.read_all(part)
            else:
                self._files.failed += read.failed
                self._files.unread |= read.unread
            yield part, read

    def _answer(self, number: int) -> Read | None:
        process = self._processes[number]
        if process is None or process.stdout is None:
            return None
        try:
            if number not in self._greeted and process.stdout.read(len(GREETING)) != GREETING:
                raise ValueError("it is another program")
            self._greeted.add(number)
            answer: Read = pickle.load(process.stdout)  # noqa: S301 - from our own process
        except Exception as error:  # noqa: BLE001 - whatever it is, the files are read here instead
            log.debug("A worker failed: %r", error)
            self._lose(number)
            return None
        return answer

    def _lose(self, number: int) -> None:
        log.info("A worker of %r has failed; its files are read without it.", self._files.base.id)
        if process := self._processes[number]:
            end(process)
        self._processes[number] = None


def _started() -> subprocess.Popen[bytes] | None:
    """Start a worker; None if that fails."""
    try:
        return start("kbhub.sync.indexer")
    except OSError as error:
        log.info("No worker could be started: %s", error)
        return None


def _send(ready: queue.Queue[bytes | None], answers: BinaryIO) -> None:
    try:
        while (read := ready.get()) is not None:
            answers.write(read)
            answers.flush()
            ready.task_done()
    except BaseException:  # noqa: BLE001 - mostly because nobody reads any more
        # Exit, or both the next `put` and the parent would wait forever.
        os._exit(1)


def main() -> None:
    """Read files for the process that started this one: its job is the input, answered by one `Read` per part."""
    with answering() as answers:
        job: Job = pickle.load(sys.stdin.buffer)  # noqa: S301 - what started this process says
        embedder = StaticEmbedder(*job.embedder) if job.embedder else None
        ready: queue.Queue[bytes | None] = queue.Queue(AHEAD)
        sender = threading.Thread(target=_send, args=(ready, answers))
        sender.start()
        answers.write(GREETING)
        try:
            keeping = DeletedTexts(job.limits.kept, job.base)
            files = DocumentReader(job.base, keeping, job.limits, refuse_secrets=job.refuse_secrets)
            with files.parser:
                for part in job.parts:
                    ready.put(pickle.dumps(files.read_all(part, embedder)))  # takes half as much memory as the objects
                    if sum(entry.size for entry in part) > PART_BYTES:
                        ready.join()  # hold such a large file once, not five times
        finally:
            ready.put(None)
            sender.join()
