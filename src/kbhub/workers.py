"""Reading the files of a large first index in processes of their own, while the one that asked for it writes.

Reading, cutting and embedding are more than half of a first index, and a process of Python calculates in one thread.
A worker is told all that it has to do at once and answers part after part; it ends when nobody listens any more. One
that fails costs time and nothing else: what it does not answer is read by the process that waits for it.

They are started by hand, as `multiprocessing` runs the program that imports kbhub once more in each of them.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kbhub import __version__
from kbhub.values import struct

if TYPE_CHECKING:
    from typing import Self

    from kbhub.embedding import Embedder
    from kbhub.indexing import DocumentReader, Read
    from kbhub.types import Base, FileEntry, Kind

log = logging.getLogger(__name__)

MOST_WORKERS = 2
"""Writing takes 0.8 of the time that reading takes, so a third worker would have nothing to do. On two cores two do
more than one, since there is nothing to write until they have read, nor to read while the index is packed."""

LARGE_BYTES, LARGE_FILES = 4_000_000, 2000
"""From how much on, in either, workers are worth their start: three seconds of work for half a second."""

PART_FILES, PART_BYTES = 64, 512 * 1024
"""Files and bytes of a part: little enough that all workers have some of it, and enough to share tokens of words."""

AHEAD = 4
"""Parts that a worker has ready before it waits for the writer: some ten MB. Of longer files it has none."""

GREETING = f"kbhub {__version__} reads\n".encode()
"""What a worker says first: that it is one, and of the same version."""

NICENESS = 10
"""How far a worker stands back behind what people wait for, as POSIX counts it."""


@struct
class Job:
    """What a worker needs to know."""

    base: Base
    kept: Path | None
    """Folder of kept texts; see `keeping`."""
    max_bytes: int
    max_files: int
    kind_bytes: Mapping[Kind, int]
    embedder: tuple[str, str, str] | None
    """Arguments of a `StaticEmbedder`; none leaves the vectors to the process that writes."""
    parts: tuple[tuple[FileEntry, ...], ...]


def worth(entries: Sequence[FileEntry]) -> int:
    """Say how many workers are worth their start for reading some files; 0 where this process had better do it."""
    if len(entries) < LARGE_FILES and sum(entry.size for entry in entries) < LARGE_BYTES:
        return 0
    count = min(MOST_WORKERS, cores(), sum(1 for _ in batches(entries, PART_FILES, PART_BYTES)))
    return count if count > 1 and sys.executable else 0


def cores() -> int:
    """Say how many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batches(entries: Sequence[FileEntry], most_files: int, most_bytes: int) -> Iterator[tuple[FileEntry, ...]]:
    """Cut files into batches, in their order.

    Args:
        entries: the files.
        most_files: files of a batch at most.
        most_bytes: bytes of a batch at most, unless it is one file.
    """
    batch: list[FileEntry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == most_files or size + entry.size > most_bytes):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield tuple(batch)


class Workers:
    """Processes that read the files of one base; use it as a context manager.

    Args:
        files: reads them in this process, and says how.
        embedder: what makes the vectors; none, or one that is no file on this machine, leaves them out.
        entries: the files.
        count: how many processes.
    """

    def __init__(
        self, files: DocumentReader, embedder: Embedder | None, entries: Sequence[FileEntry], count: int
    ) -> None:
        self._files, self._embedder, self._count = files, embedder, count
        self._parts = tuple(batches(entries, PART_FILES, PART_BYTES))
        self._processes: list[subprocess.Popen[bytes] | None] = []
        self._greeted: set[int] = set()

    def __enter__(self) -> Self:
        try:
            for _ in range(self._count):
                self._processes.append(_started())
            for number, process in enumerate(self._processes):
                if process and not _told(process, self._job(self._parts[number :: self._count])):
                    self._lose(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in filter(None, self._processes):
            _end(process)

    def read(self) -> Iterator[tuple[tuple[FileEntry, ...], Read]]:
        """Give what is in the files, part after part, in the order of the files."""
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
            answer: Read = pickle.load(process.stdout)  # noqa: S301 - what our own process says
        except Exception as error:  # noqa: BLE001 - whatever it may be: the files are read here instead
            log.debug("A worker failed: %r", error)
            self._lose(number)
            return None
        return answer

    def _lose(self, number: int) -> None:
        log.info("A worker of %r has failed; its files are read without it.", self._files.base.id)
        if process := self._processes[number]:
            _end(process)
        self._processes[number] = None

    def _job(self, parts: tuple[tuple[FileEntry, ...], ...]) -> Job:
        # No earlier: who reads a few files need not load it.
        from kbhub.embedding import StaticEmbedder  # noqa: PLC0415

        files, model = self._files, self._embedder
        static = (model.source, model.name, model.fingerprint) if isinstance(model, StaticEmbedder) else None
        root = files.keeping.root
        return Job(files.base, root, files.max_bytes, files.max_files, dict(files.kind_bytes), static, parts)


def _started() -> subprocess.Popen[bytes] | None:
    """Start a worker; none if that cannot be done."""
    apart: dict[str, Any] = {}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NO_WINDOW}
    try:
        return subprocess.Popen(
            # -P: the working directory may be a repository that holds a module of some library's name.
            [sys.executable, "-P", "-m", "kbhub.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **apart,
        )
    except OSError as error:
        log.info("No worker could be started: %s", error)
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a worker, close its pipes and wait for it."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what it was not told is of no use to anyone
            if pipe:
                pipe.close()
    process.wait()


def _told(process: subprocess.Popen[bytes], job: Job) -> bool:
    """Tell a worker what to do, and say whether it has heard it."""
    assert process.stdin is not None
    try:
        pickle.dump(job, process.stdin)
        process.stdin.close()
    except OSError:
        return False
    return True


def work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Do a job; a worker's whole life.

    Args:
        requests: where the job comes from.
        answers: where one `Read` goes to for each part, in their order.
    """
    job: Job = pickle.load(requests)  # noqa: S301 - what started this process says
    from kbhub.embedding import StaticEmbedder  # noqa: PLC0415 - after the job: who sends it waits until it is taken
    from kbhub.indexing import DocumentReader, Embedding  # noqa: PLC0415
    from kbhub.keeping import Keeping  # noqa: PLC0415

    ready: queue.Queue[Read | None] = queue.Queue(AHEAD)
    sender = threading.Thread(target=_send, args=(ready, answers))
    sender.start()
    answers.write(GREETING)
    try:
        files = DocumentReader(job.base, Keeping(job.kept, job.base), job.max_bytes, job.max_files, job.kind_bytes)
        embedding = Embedding(StaticEmbedder(*job.embedder)) if job.embedder else None
        for part in job.parts:
            ready.put(files.read_all(part, embedding))
            if sum(entry.size for entry in part) > PART_BYTES:
                ready.join()  # a file that long is held once, not five times
    finally:
        ready.put(None)
        sender.join()


def _send(ready: queue.Queue[Read | None], answers: BinaryIO) -> None:
    try:
        while (read := ready.get()) is not None:
            pickle.dump(read, answers)
            answers.flush()
            ready.task_done()
    except BaseException:  # noqa: BLE001 - mostly as nobody listens any more
        # Whoever puts the next answer into the queue would wait for ever, and so would who wants it.
        os._exit(1)


def main() -> None:
    """Read files for the process that started this one."""
    from kbhub.frugality import be_frugal  # noqa: PLC0415

    be_frugal(os.environ)
    with suppress(AttributeError, OSError):  # there is none on Windows
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for who waits for this process
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # where anything else that is printed goes
        work(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
