"""Read a file of any kind into a document and its chunks."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, Self

from kbhub.documents import chunking
from kbhub.documents.plain_data import MOST_BYTES, unpacked, unreadable
from kbhub.documents.sources import converted, sessions, text_formats
from kbhub.types import Base, Chunk, Document, Kind
from kbhub.workspace.child_processes import end, greeting, start
from kbhub.workspace.formats import KINDS_OF_PARTS, is_converted, kind_of

log = logging.getLogger(__name__)

PARSE_SECONDS = 60.0
"""Most seconds for one file. What takes longest is a PDF: some 1,000 pages of text take as long on an old machine."""

MOST_LATE = 10
"""Files of a base that may reach `PARSE_SECONDS`; then the others are left out. A folder from elsewhere may have
thousands of them."""

TOO_LATE = (
    "It was not read, since other files here, such as {}, take far too long; left out. Exclude or remove them, then "
    "run `kbhub admin index --full`."
)
"""Why a file is left out after `MOST_LATE` others; takes the path of one of them."""

TRIES = 2
"""Times that a file is tried whose process breaks off. The system may have ended it, as when memory is short, and a
file that is left out is not read again until it changes."""

GREETING = greeting("parses")


class IsolatedParser:
    """A process that parses files; started for the first one and kept for others. Not thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._late: list[str] = []
        """Paths of files that reached `PARSE_SECONDS`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def parse(self, path: str, kind: Kind, data: bytes) -> Document:
        """Parse a file of a converted kind other than `session`; raises OSError if no process can be started.

        Its `problems` say what could not be read. After `MOST_LATE` files that take too long, none is read.
        """
        if len(self._late) >= MOST_LATE:
            return unreadable(path, TOO_LATE.format(self._late[0]))
        for _ in range(TRIES):
            if document := self._tried(path, kind, data):
                return document
        return unreadable(path, "Its parser broke off; left out.")

    def _tried(self, path: str, kind: Kind, data: bytes) -> Document | None:
        """Parse a file in the process, or in a new one; None if it broke off before its time."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _greeted()
        with _limited(self._process) as late:
            try:
                return unpacked(path, kind, _answer(self._process, path, data))
            except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                log.info("The parser of %r failed: %r", path, error)
                self.close()
                if not late.is_set():
                    return None
                self._late.append(path)
                return unreadable(path, f"It takes more than {PARSE_SECONDS:.2g} seconds to read; left out.")
            finally:
                if late.is_set():
                    self.close()


def _greeted() -> subprocess.Popen[bytes]:
    process = start("kbhub.documents.sources.parser_process")
    assert process.stdout is not None
    try:
        with _limited(process):
            if process.stdout.read(len(GREETING)) != GREETING:
                raise OSError(None, "the process that parses such files cannot be started")
    except BaseException:
        end(process)
        raise
    return process


@contextmanager
def _limited(process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill a process after `PARSE_SECONDS`; yield what then is set."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(PARSE_SECONDS, stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _answer(process: subprocess.Popen[bytes], path: str, data: bytes) -> dict[str, object]:
    """Hand over a file; return the answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    job = {"path": path, "size": len(data), "seconds": PARSE_SECONDS}
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    answer: object = json.loads(_read(process.stdout))
    if not isinstance(answer, dict):
        raise ValueError("its answer is no object")  # noqa: TRY004 - what is wrong is the answer
    return answer


def _read(stream: IO[bytes]) -> bytes:
    """Read a frame: its length in decimal, a line feed, and as many bytes."""
    length = int(stream.readline(20))
    if not 0 <= length <= MOST_BYTES:
        raise ValueError(f"its answer has {length} bytes")
    data = stream.read(length)
    if len(data) < length:
        raise EOFError("its answer ends early")
    return data


def read_source(
    base: Base, path: str, file: BinaryIO, max_bytes: int, parser: IsolatedParser | None = None
) -> tuple[Document, Kind]:
    """Read a file of a base up to its size limit, a session log line by line; raises only OSError.

    Without a `parser`, a process for this converted file is started.
    """
    kind = kind_of(base, path)
    if kind == "session":
        return sessions.read_session(path, file, max_bytes), kind
    data = file.read(max_bytes + 1)
    if not is_converted(kind):
        return text_formats.parse_text(path, data, inline=base.inline_tags), kind
    if parser is not None:
        return parser.parse(path, kind, data), kind
    with IsolatedParser() as own:
        return own.parse(path, kind, data), kind


def chunks_of(document: Document, kind: Kind) -> list[Chunk]:
    """Cut a document into chunks as its kind wants it: pages, slides and turns are never joined."""
    return converted.chunk_parts(document) if kind in KINDS_OF_PARTS else chunking.chunk_document(document)
