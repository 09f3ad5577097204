"""Read the files of a large first index in worker processes, while this one writes.

Reading, chunking and embedding are more than half of a first index, and Python computes in one thread per process. A
worker gets its whole job at once and answers part by part; it exits when nobody reads any more. The files of a failed
worker are read by this process.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from kbhub.models.embedding import StaticEmbedder
from kbhub.sync.deleted_texts import DeletedTexts
from kbhub.sync.indexer import DocumentReader, Embedding, Read
from kbhub.values import struct
from kbhub.workspace.child_processes import Fork, answering, can_fork, end, greeting, start
from kbhub.workspace.formats import converts

if TYPE_CHECKING:
    from typing import Self

    from kbhub.documents.walk import Limits
    from kbhub.models.embedding import Embedder
    from kbhub.types import Base, FileEntry

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
"""First output of a worker."""


@struct
class Job:
    """The job of a worker."""

    base: Base
    limits: Limits
    embedder: tuple[str, str, str] | None
    """Arguments of a `StaticEmbedder`; None leaves the vectors to the writing process."""
    parts: tuple[tuple[FileEntry, ...], ...]
    refuse_secrets: bool = False
    """As for `DocumentReader`."""


def worth(entries: Sequence[FileEntry]) -> int:
    """Return how many workers are worthwhile for reading some files; 0 if this process should read them."""
    if len(entries) < LARGE_FILES and sum(entry.size for entry in entries) < LARGE_BYTES:
        return 0
    count = min(MOST_WORKERS, cores(), sum(1 for _ in batches(entries, PART_FILES, PART_BYTES)))
    return count if count > 1 and sys.executable else 0


def cores() -> int:
    """Return how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batches(entries: Sequence[FileEntry], most_files: int, most_bytes: int) -> Iterator[tuple[FileEntry, ...]]:
    """Split files into batches, in order: those of texts end where converted files start, which take longer.

    A single file may exceed `most_bytes`.
    """
    batch: list[FileEntry] = []
    size = 0
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
    """Context manager of processes that read the files of one base.

    The reader's configuration is passed on, and it reads what workers fail to read. Without an embedder from a local
    file, vectors are left out.
    """

    def __init__(
        self, files: DocumentReader, embedder: Embedder | None, entries: Sequence[FileEntry], count: int
    ) -> None:
        self._files, self._embedder, self._count = files, embedder, count
        self._parts = tuple(batches(entries, PART_FILES, PART_BYTES))
        self._processes: list[subprocess.Popen[bytes] | Fork | None] = []
        self._greeted: set[int] = set()

    def __enter__(self) -> Self:
        try:
            jobs = [self._job(self._parts[number :: self._count]) for number in range(self._count)]
            for job in jobs:
                self._processes.append(_started(job, self._embedder))
            for number, (process, job) in enumerate(zip(self._processes, jobs, strict=True)):
                if isinstance(process, subprocess.Popen) and not _told(process, job):
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

    def _job(self, parts: tuple[tuple[FileEntry, ...], ...]) -> Job:
        files, model = self._files, self._embedder
        static = (model.source, model.name, model.fingerprint) if isinstance(model, StaticEmbedder) else None
        return Job(files.base, files.limits, static, parts, files.refuse_secrets)


def _started(job: Job, embedder: Embedder | None) -> subprocess.Popen[bytes] | Fork | None:
    """Start a worker; a fork already has its job, and the model that is loaded here. None if that fails."""
    try:
        if can_fork():
            return Fork(partial(_carry_out, job, embedder if isinstance(embedder, StaticEmbedder) else None))
        return start("kbhub.sync.workers")
    except OSError as error:
        log.info("No worker could be started: %s", error)
        return None


def _told(process: subprocess.Popen[bytes], job: Job) -> bool:
    """Send a worker its job; return whether that worked."""
    assert process.stdin is not None
    try:
        pickle.dump(job, process.stdin)
        process.stdin.close()
    except OSError:
        return False
    return True


def work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Run a job, the whole life of a worker: read it from a stream and answer one `Read` per part, in order."""
    job: Job = pickle.load(requests)  # noqa: S301 - what started this process says
    _carry_out(job, StaticEmbedder(*job.embedder) if job.embedder else None, answers)


def _carry_out(job: Job, embedder: StaticEmbedder | None, answers: BinaryIO) -> None:
    ready: queue.Queue[bytes | None] = queue.Queue(AHEAD)
    sender = threading.Thread(target=_send, args=(ready, answers))
    sender.start()
    answers.write(GREETING)
    try:
        keeping = DeletedTexts(job.limits.kept, job.base)
        embedding = Embedding(embedder) if embedder else None
        with DocumentReader(job.base, keeping, job.limits, refuse_secrets=job.refuse_secrets) as files:
            for part in job.parts:
                ready.put(pickle.dumps(files.read_all(part, embedding)))  # takes half as much memory as the objects
                if sum(entry.size for entry in part) > PART_BYTES:
                    ready.join()  # hold such a large file once, not five times
    finally:
        ready.put(None)
        sender.join()


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
    """Read files for the process that started this one."""
    with answering() as answers:
        work(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
