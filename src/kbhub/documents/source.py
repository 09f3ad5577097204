"""Read a file of any kind into a document and its chunks.

A process of its own parses files of converted formats: it gets their bytes and answers with JSON. It opens no file but
Python's modules, no connection and no other program, and has limits of time and memory. A format's reader is imported,
with its libraries, for the first such file.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import math
import mimetypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, field, replace
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO

from kbhub.documents import sessions
from kbhub.documents.chunking import chunk_document
from kbhub.documents.converted import chunk_parts, document_of_markdown, structured
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import Outline, decode, decoded_lines, outlined, parse_document
from kbhub.documents.shown_text import cell_width
from kbhub.types import Base, Chunk, Document, Heading, Kind
from kbhub.values import struct
from kbhub.workspace import formats
from kbhub.workspace.child_processes import answering, end, greeting, start

log = logging.getLogger(__name__)


def read_source(
    base: Base, path: str, file: BinaryIO, max_bytes: int, parser: IsolatedParser | None = None
) -> Document:
    """Read a file of a base up to its size limit, a session log line by line; raises only OSError."""
    kind = formats.kind_of(base, path)
    if kind == "session":
        return sessions.read_session(path, file, max_bytes)
    data = file.read(max_bytes + 1)
    if not formats.is_converted(kind):
        return parse_text(path, data, inline=base.inline_tags)
    if parser is not None:
        return parser.parse(path, kind, data)
    with IsolatedParser() as own:
        return own.parse(path, kind, data)


def chunks_of(document: Document, kind: Kind) -> list[Chunk]:
    """Cut a document into chunks as its kind wants it: pages, slides and turns are never joined."""
    return chunk_parts(document) if kind in formats.KINDS_OF_PARTS else chunk_document(document)


def parse_text(path: str, data: bytes, *, inline: bool = False) -> Document:
    """Parse a text file of a base, or an index's text of a converted file, Markdown; `inline` is `Base.inline_tags`."""
    if formats.is_markdown(path):
        return parse_document(path, data, inline=inline)
    if formats.converts(path):
        text, problem = decode(data)
        return document_of_markdown(path, text, problems=(problem,) if problem else ())
    lines, problem = decoded_lines(data)
    front = read_front_matter(lines)
    scan = formats.scan_of(path) or scan_plain_text
    return outlined(path, lines, front, scan(lines, front.body), (problem, front.problem))


LONGEST_HEADING = 100
"""Characters of a line that may be a heading."""

_UNDERLINE = re.compile(r"([=\-~^*#+_'\"])\1{2,}[ \t]*$")
_NUMBERED = re.compile(r"((?:\d{1,3}\.){0,5}\d{1,3})\.?[ \t]+(\S.*)$")


def scan_plain_text(lines: Sequence[str], start: int) -> Outline:
    """Find the headings of plain text; where it is not certain that a line is one, it is text."""
    outline = Outline()
    styles: dict[tuple[str, bool], int] = {}
    numbered: list[tuple[int, tuple[int, ...], str]] = []
    index = start
    while index < len(lines):
        blank_above = index == start or not lines[index - 1].strip()
        if blank_above and lines[index].strip() and (found := _underlined(lines, index)):
            style, title, after = found
            level = styles.setdefault(style, len(styles) + 1)
            outline.add_heading(level, title, index + 1)
            index = after
            continue
        if blank_above and (entry := _numbered(lines, index)):
            numbered.append((index, *entry))
        index += 1
    if not outline.headings:
        for index, numbers, title in _in_sequence(lines, numbered):
            outline.add_heading(len(numbers), title, index + 1)
    return outline


def _underlined(lines: Sequence[str], index: int) -> tuple[tuple[str, bool], str, int] | None:
    """Return style, text and the index after an underlined heading, which may have a line above too."""
    above = _UNDERLINE.match(lines[index])
    title = index + 1 if above else index
    if title + 1 >= len(lines) or not 0 < len(lines[title].strip()) <= LONGEST_HEADING:
        return None
    below = _UNDERLINE.match(lines[title + 1])
    text = lines[title].strip()
    columns = "|" in text or "  " in text or "\t" in text
    if below is None or columns or _UNDERLINE.match(text) or not any(map(str.isalnum, text)):
        return None
    length = len(lines[title + 1].rstrip())
    if above and lines[index].rstrip() == lines[title + 1].rstrip():
        fits = length >= cell_width(text)
    else:
        # As long as the title, or nearly: otherwise it is a rule, or a table's.
        fits = not above and abs(length - cell_width(text)) <= 1 and lines[title][0] not in " \t"
    return ((below[1], above is not None), text, title + 2) if fits else None


def _numbered(lines: Sequence[str], index: int) -> tuple[tuple[int, ...], str] | None:
    """Return numbers and text of a line that may be a numbered heading."""
    line = lines[index]
    if not line[:1].isdigit() or len(line) > LONGEST_HEADING or (index + 1 < len(lines) and lines[index + 1].strip()):
        return None
    match = _NUMBERED.match(line.rstrip())
    if match is None or match[2][-1] in ".,;:!?)" or not (match[2][0].isupper() or not match[2].isascii()):
        return None
    return tuple(map(int, match[1].split("."))), line.strip()


def _in_sequence(
    lines: Sequence[str], numbered: Sequence[tuple[int, tuple[int, ...], str]]
) -> list[tuple[int, tuple[int, ...], str]]:
    """Return the numbered headings if they count up and have text between them; a list has none."""
    kept: list[tuple[int, tuple[int, ...], str]] = []
    for entry in numbered:
        last = kept[-1][1] if kept else ()
        following = {(*last[:depth], last[depth] + 1) for depth in range(len(last))} | {(*last, 1), (*last, 0)}
        if entry[1] in following or (not last and entry[1] in ((1, 1), (1, 0))):
            kept.append(entry)
    if len(kept) < 2:
        return []
    # Below an entry of a list there is indented text at most; sections of sections are no list.
    nested = any(len(numbers) > 1 for _, numbers, _ in kept)
    ends = [*(index for index, _, _ in kept[1:]), len(lines)]
    with_text = sum(
        any(line.strip() and (nested or line[0] not in " \t") for line in lines[entry[0] + 1 : end])
        for entry, end in zip(kept, ends, strict=True)
    )
    return kept if 2 * with_text >= len(kept) else []


MOST_BYTES = 100_000_000
"""Most bytes of a document that one process sends to another: five times the characters of the longest one."""

MOST_BITS = 64
"""Bits of the integers that an index stores."""


def unreadable(path: str, problem: str) -> Document:
    """Return the document of a file that cannot be read; `problem` says why, in a sentence."""
    return Document(path, formats.file_title(PurePosixPath(path)), (), problems=(problem,))


def packed(document: Document) -> dict[str, Any]:
    """Return a document as JSON values."""
    return {
        "title": document.title,
        "lines": document.lines,
        "body": document.body,
        "frontMatter": document.front_matter,
        "tags": document.tags,
        "aliases": document.aliases,
        "headings": [asdict(heading) for heading in document.headings],
        "problems": document.problems,
    }


def unpacked(path: str, kind: Kind, values: Mapping[str, Any], *, inline: bool = False) -> Document:
    """Return a document from untrusted values of `packed`; raises ValueError, TypeError, KeyError or AttributeError."""
    lines = tuple(map(_text, values["lines"]))
    if not formats.is_converted(kind):
        return parse_text(path, "\n".join((*lines, "")).encode("utf-8", "replace"), inline=inline)
    headings = [Heading(_whole(one["level"]), _text(one["text"]), _whole(one["line"])) for one in values["headings"]]
    document = Document(
        path=path,
        title=_text(values["title"]),
        lines=lines,
        body=min(_whole(values["body"]), len(lines)),
        front_matter=dict(_value(values["frontMatter"])),
        tags=tuple(map(_text, values["tags"])),
        aliases=tuple(map(_text, values["aliases"])),
        headings=tuple(headings),
        problems=tuple(map(_text, values["problems"])),
    )
    # Structure other than parts is parsed again from the lines, which benefits from newer parsers.
    return document if kind in formats.KINDS_OF_PARTS else structured(document)


def _text(value: object) -> str:
    """Return a line of text that an index can store, else raise `ValueError`."""
    if not isinstance(value, str) or "\0" in value or "\n" in value:
        raise ValueError(f"{str(value)[:50]!r} is no line of text")
    value.encode()  # raises for half of a surrogate pair
    return value


def _whole(value: object) -> int:
    """Return a number of lines or a level, else raise `ValueError`."""
    if not isinstance(value, int) or value < 0 or value.bit_length() >= MOST_BITS:
        raise ValueError(f"{str(value)[:50]!r} is no number of lines")
    return value


def _value(value: object) -> Any:
    """Return a value of front matter that an index can store, else raise `ValueError`."""
    if isinstance(value, dict):
        return {_value(key): _value(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(entry) for entry in value]
    if isinstance(value, str):
        value.encode()
    if (isinstance(value, str) and "\0" in value) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("front matter has a value that no index can store")
    if isinstance(value, int) and value.bit_length() >= MOST_BITS:
        raise ValueError("front matter has too large a number")
    return value


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


@struct(frozen=False)
class IsolatedParser(AbstractContextManager["IsolatedParser"]):
    """A process that parses files; started for the first one and kept for others. Not thread-safe."""

    _process: subprocess.Popen[bytes] | None = None
    _late: list[str] = field(default_factory=list)
    """Paths of files that reached `PARSE_SECONDS`."""

    def close(self, *_: object) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            end(self._process)
            self._process = None

    __exit__ = close

    def parse(self, path: str, kind: Kind, data: bytes) -> Document:
        """Parse a file of a converted kind other than `session`; raises OSError if no process can be started."""
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
    process = start("kbhub.documents.source")
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


CHARACTERS = 20_000_000
"""Most characters of a document: four times what `limits.fileBytes` allows a Markdown document."""

MEMORY_BYTES = 1 << 30
"""Address space of the process, where the system limits it. A Word document of 3,000 pages, 12 MB of XML, takes 170 MB
and a third of `PARSE_SECONDS`."""

SPARE_SECONDS = 5.0
"""Seconds after its deadline at which the process ends itself, unless its parent has."""

PROBLEM_CHARACTERS = 300

_REFUSED = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "os.system")
"""Beginnings of the audit events of what a parser has no reason to do."""


def main() -> None:
    """Parse files for the process that started this one."""
    with answering() as answers:
        _confine()
        answers.write(greeting("parses"))
        answers.flush()
        while line := sys.stdin.buffer.readline():
            job = json.loads(line)
            data = sys.stdin.buffer.read(job["size"])
            faulthandler.dump_traceback_later(job["seconds"] + SPARE_SECONDS, exit=True, file=sys.stderr)
            encoded = _encoded(parsed(job["path"], data))
            if len(encoded) > MOST_BYTES:
                encoded = _encoded(unreadable(job["path"], "It has too much text; left out."))
            answers.write(b"%d\n" % len(encoded))
            answers.write(encoded)
            answers.flush()
            del data, encoded
            faulthandler.cancel_dump_traceback_later()


def parsed(path: str, data: bytes) -> Document:
    """Parse a file by the reader of its format, up to `CHARACTERS`; never fails."""
    try:
        document, size = formats.reader_of(path)(path, data), 0
        for number, line in enumerate(document.lines):
            size += len(line) + 1
            if size > CHARACTERS:
                more = f"It has more than {CHARACTERS:,} characters of text; lines from {number + 1} on are left out."
                headings = tuple(heading for heading in document.headings if heading.line <= number)
                problems = (*document.problems, more)
                return replace(document, lines=document.lines[:number], headings=headings, problems=problems)
        return document
    except MemoryError:
        return unreadable(path, "Reading it takes more memory than kbhub allows; left out.")
    except RecursionError:
        return unreadable(path, "It is nested too deep to be read; left out.")
    except Exception as error:  # noqa: BLE001 - a broken file can raise anything in a parser, and must not stop others
        reason = " ".join(f"{error}".split())[:PROBLEM_CHARACTERS].rstrip(".") or type(error).__name__
        return unreadable(path, f"It cannot be read ({reason}); left out.".encode("utf-8", "replace").decode())


def _encoded(document: Document) -> bytes:
    return json.dumps(packed(document), ensure_ascii=False).encode("utf-8", "replace")


def _confine() -> None:
    """Limit memory, and refuse what no parser does: other files, programs and the network."""
    sys.modules["numpy"] = None  # type: ignore[assignment] # openpyxl imports it if it is there, in 0.3 s
    mimetypes.init([])  # or it reads files of the system
    with suppress(ImportError, ValueError, OSError):  # not on Windows, and without effect on macOS
        import resource  # noqa: PLC0415 - as above

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    places = {_real(place) for place in sys.path if place}
    roots = tuple(os.path.join(place, "") for place in places)  # noqa: PTH118

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        refused = event if event.startswith(_REFUSED) else ""
        if event == "open" and not isinstance(arguments[0], int):
            path, mode, flags = arguments
            name = _real(os.fsdecode(path))
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
            # Only Python's own files, whose module caches may be written.
            if not name.startswith(roots) or (writes and "__pycache__" not in name):
                refused = f"open {name}"
        if refused:
            raise PermissionError(f"its parser would {refused}, which it may not")

    sys.addaudithook(check)


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))
