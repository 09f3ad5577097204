"""The process that parses files of converted formats: it gets their bytes and answers with JSON.

It opens no file but Python's modules, no connection and no other program, and has limits of time and memory. A format's
reader is imported, with its libraries, for the first such file.
"""

from __future__ import annotations

import faulthandler
import json
import mimetypes
import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, NoReturn

from kbhub.documents.plain_data import MOST_BYTES, packed, unreadable
from kbhub.types import Document
from kbhub.workspace.child_processes import answering, greeting
from kbhub.workspace.formats import reader_of

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
            _send(answers, parsed(job["path"], data))
            del data
            faulthandler.cancel_dump_traceback_later()


def parsed(path: str, data: bytes) -> Document:
    """Parse a file by the reader of its format; never fails."""
    try:
        return _shortened(reader_of(path)(path, data))
    except MemoryError:
        return unreadable(path, "Reading it takes more memory than kbhub allows; left out.")
    except RecursionError:
        return unreadable(path, "It is nested too deep to be read; left out.")
    except Exception as error:  # noqa: BLE001 - a broken file can raise anything in a parser, and must not stop others
        reason = " ".join(f"{error}".split())[:PROBLEM_CHARACTERS].rstrip(".") or type(error).__name__
        return unreadable(path, f"It cannot be read ({reason}); left out.".encode("utf-8", "replace").decode())


def _shortened(document: Document) -> Document:
    """Return a document with the lines that fit into `CHARACTERS`."""
    size = 0
    for number, line in enumerate(document.lines):
        size += len(line) + 1
        if size > CHARACTERS:
            problem = f"It has more than {CHARACTERS:,} characters of text; lines from {number + 1} on are left out."
            headings = tuple(heading for heading in document.headings if heading.line <= number)
            problems = (*document.problems, problem)
            return replace(document, lines=document.lines[:number], headings=headings, problems=problems)
    return document


def _send(answers: BinaryIO, document: Document) -> None:
    data = _encoded(document)
    if len(data) > MOST_BYTES:
        data = _encoded(unreadable(document.path, "It has too much text; left out."))
    answers.write(b"%d\n" % len(data))
    answers.write(data)
    answers.flush()


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
        if event == "open":
            _check_opened(arguments, roots)
        elif event.startswith(_REFUSED):
            _refuse(event)

    sys.addaudithook(check)


def _check_opened(arguments: tuple[Any, ...], roots: tuple[str, ...]) -> None:
    """Refuse to open a file outside Python's own; its module caches may be written."""
    path, mode, flags = arguments
    if isinstance(path, int):
        return
    name = _real(os.fsdecode(path))
    writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
    if not name.startswith(roots) or (writes and "__pycache__" not in name):
        _refuse(f"open {name}")


def _real(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def _refuse(what: str) -> NoReturn:
    raise PermissionError(f"its parser would {what}, which it may not")
