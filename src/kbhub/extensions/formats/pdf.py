"""Extract the text of a PDF file's pages into a `Document`, within limits, as PDF files are untrusted.

Needs the extra `kbhub[pdf]` (pypdf). That is pure Python, so the worst a crafted file can do is use up the time and
memory allowed here.
"""

from __future__ import annotations

import io
import logging
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import pypdf
from pypdf import PageObject, PdfReader

from kbhub.documents.converted import Part, document_of_parts
from kbhub.documents.source import unreadable
from kbhub.types import Document

PDF_SECONDS = 50.0
"""Seconds for one file, some fewer than `source.PARSE_SECONDS`, so that the pages read by then are kept."""

PDF_PAGES = 5000
"""Most pages that are read; more than any book has."""

PAGE_SECONDS = 10.0
"""Seconds for one page; a full page of text takes some 0.05 s."""

STREAM_BYTES = 10_000_000
"""Most bytes of one unpacked stream: a page of text has some 10 kB, and vector graphics are not searched."""

_LIMITS: dict[str, Any] = {
    **dict.fromkeys(
        (
            "maximum_declared_stream_length",
            "array_based_stream_maximum_output_length",
            "lzw_maximum_output_length",
            "run_length_maximum_output_length",
            "zlib_maximum_output_length",
            "zlib_maximum_recovery_input_length",
            "brotli_maximum_output_length",
        ),
        STREAM_BYTES,
    ),
    "stream_decoding_work_maximum_length": 4 * STREAM_BYTES,
    "stream_parsing_work_maximum_count": 500_000,  # a dense page of text has 10,000
    "xform_maximum_invocations_per_extraction": 500,
    "jbig2dec_binary": None,  # never run an external program
    "disable_legacy_handling": True,
}

LINE_CHARACTERS = 1000
"""Characters at which a line is wrapped; some generators write a page as one line."""

OUTLINE_ENTRIES, OUTLINE_DEPTH = 5000, 5
"""Entries and levels of the table of contents that become headings."""


def _text_of(page: PageObject, ends: float) -> str:
    """Extract the text of a page by a deadline (monotonic)."""

    def check(*_: object) -> None:
        if time.monotonic() > ends:
            raise TimeoutError

    check()
    return page.extract_text(visitor_operand_before=check).encode("utf-8", "replace").decode("utf-8")


def _lines(text: str) -> tuple[str, ...]:
    """Return the lines of a page, with single blank ones between and none at its ends."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").split("\n"):
        line = " ".join(line.split())
        if line or (lines and lines[-1]):
            lines += textwrap.wrap(line, LINE_CHARACTERS, break_on_hyphens=False) if line else [""]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def read_pdf(path: str, data: bytes) -> Document:
    """Extract the text of a PDF file, a part per page with text."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # errors are reported in `problems`
    with pypdf.apply_configuration(**_LIMITS):
        try:
            reader = pypdf.PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                return unreadable(path, "It is encrypted, and kbhub knows no password.")
            count = len(reader.pages)
        except pypdf.errors.DependencyError:
            return unreadable(path, "It is encrypted in a way that needs the library `cryptography`.")
        except Exception as error:  # noqa: BLE001 - a broken file can raise anything, and must not stop the others
            return unreadable(path, f"It is no PDF that can be read ({_plain(error)[:200].rstrip('.')}).")
        parts, problems = _pages(reader, count)
        if not parts and not problems:
            scanned = "a scan can be searched after OCR (for example by ocrmypdf)"
            problems = [f"None of its {count} pages has text; {scanned}."]
        title, values = "", dict[str, Any]()
        with suppress(Exception):  # broken metadata can raise anything, and counts as none
            if (metadata := reader.metadata) is not None:
                title, author = _plain(metadata.title), _plain(metadata.author)
                values |= {"author": author} if author else {}
                if day := metadata.modification_date or metadata.creation_date:
                    values["date"] = day.date().isoformat()
        values["pages"] = count
        return document_of_parts(path, title or PurePosixPath(path).stem, parts, values, problems=problems)


def _pages(reader: PdfReader, count: int) -> tuple[list[Part], list[str]]:
    """Read the pages with text; return them, and messages on what was left out."""
    ends = time.monotonic() + PDF_SECONDS
    chapters = _chapters(reader)
    parts: list[Part] = []
    bad: list[int] = []
    above: tuple[tuple[int, str], ...] = ()
    problems = []
    for number in range(1, min(count, PDF_PAGES) + 1):
        above += chapters.get(number, ())
        try:
            lines = _lines(_text_of(reader.pages[number - 1], min(ends, time.monotonic() + PAGE_SECONDS)))
        except Exception:  # noqa: BLE001 - a broken page can raise anything, and the others may be fine
            if time.monotonic() > ends:
                problems.append(f"It takes too long; pages from {number} on are left out.")
                break
            bad.append(number)
            continue
        if lines:
            parts.append(Part(f"Page {number}", f"## Page {number}", lines, above))
            above = ()
    else:
        if count > PDF_PAGES:
            problems.append(f"It has {count} pages; those after {PDF_PAGES} are left out.")
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        problems.append(f"Pages that cannot be read are left out: {', '.join(map(str, bad[:5]))}{more}.")
    return parts, problems


def _chapters(reader: PdfReader) -> dict[int, tuple[tuple[int, str], ...]]:
    """Page → headings that start there: (level, text); from the table of contents, as far as it can be read."""
    headings: dict[int, tuple[tuple[int, str], ...]] = {}
    with suppress(Exception):  # a broken table of contents can raise anything, and counts as none
        if not (outline := reader.outline):
            return headings
        pages = enumerate(reader.pages, 1)
        numbers = {getattr(page.indirect_reference, "idnum", None): number for number, page in pages}
        for level, entry in islice(_entries(outline, 1), OUTLINE_ENTRIES):
            number = numbers.get(getattr(entry.page, "idnum", 0))
            if number is not None and (text := _plain(entry.title)):
                headings[number] = (*headings.get(number, ()), (level, text))
    return headings


def _entries(outline: Any, level: int) -> Iterator[tuple[int, Any]]:
    for entry in outline:
        if isinstance(entry, list):
            if level < OUTLINE_DEPTH:
                yield from _entries(entry, level + 1)
        else:
            yield level, entry


def _plain(text: object) -> str:
    """A text of the file on one line, without characters that an index rejects."""
    clean = str(text or "").replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return " ".join(clean.split())
