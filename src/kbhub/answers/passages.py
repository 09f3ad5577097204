"""Hits → passages: the very lines of the documents as they are now, of a readable size, each text once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbhub.answers.models import Passage
from kbhub.answers.tokens import estimated_tokens
from kbhub.evidence import Sought
from kbhub.markdown import parse_document
from kbhub.reading import ReadOptions
from kbhub.reranking import same_text
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.answers.models import Tier
    from kbhub.evidence import Evidence
    from kbhub.hub import Hub
    from kbhub.types import Document, Hit

PASSAGE_TOKENS = 700
"""Estimated tokens of a passage: nearly every chunk (300 words) is shorter, tables and code may be longer."""

TABLE_HEADER_LINES = 2
"""Names of the columns, and the rule below them."""


@struct
class Part:
    """Lines of a document."""

    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""
    text: str
    in_code: bool = False
    """Whether it begins within a code block."""
    table_header: str = ""
    """Header of the table that it begins within."""


class Texts:
    """Documents by docid, each read once, as they are on disk now.

    Args:
        hub: what reads them.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[str, Document | None] = {}

    def document(self, docid: str, path: str) -> Document | None:
        """Give a document, none if it is gone since it was indexed.

        Args:
            docid: its short id.
            path: in its base; its ending says what it is.
        """
        if docid not in self._known:
            read = self._hub.read([docid], ReadOptions(answer_bytes=sys.maxsize)).readings
            text = read[0].text if read else None
            self._known[docid] = None if text is None else parse_document(path, text.encode("utf-8", "replace"))
        return self._known[docid]

    def part(self, hit: Hit) -> Part:
        """Give the lines of a hit; its excerpt where the document is gone or is one overlong line."""
        document = self.document(hit.docid, hit.path)
        found = lines_of(document, hit.start_line, hit.end_line) if document else None
        if found is None or (found.start_line == found.end_line and estimated_tokens(found.text) > PASSAGE_TOKENS):
            return Part(hit.excerpt_line, hit.excerpt_line + hit.excerpt.count("\n"), hit.excerpt)
        return shortened(found, hit.excerpt_line, document)

    def opening(self, docid: str, path: str, heading: tuple[int, int] | None) -> Part | None:
        """Give the beginning of a document, or of a section of it; none if it is gone or empty."""
        document = self.document(docid, path)
        if document is None:
            return None
        start, end = heading or (document.body + 1, len(document.lines))
        found = lines_of(document, start, end)
        return shortened(found, start, document) if found else None


def lines_of(document: Document, start: int, end: int) -> Part | None:
    """Give lines without front matter and without blank ones at either end, none if nothing is left.

    Args:
        document: where they are.
        start: first line, from 1.
        end: last line.
    """
    start, end = max(start, document.body + 1), min(end, len(document.lines))
    while start <= end and not document.lines[start - 1].strip():
        start += 1
    while start <= end and not document.lines[end - 1].strip():
        end -= 1
    return _part(document, start, end) if start <= end else None


def _part(document: Document, start: int, end: int) -> Part:
    text = "\n".join(document.lines[start - 1 : end])
    return Part(start, end, text, _within(document, start), _header_above(document, start))


def _header_above(document: Document | None, line: int) -> str:
    """Give the header of the table that a line is a row of, none if it is no row."""
    tables = document.tables if document else ()
    start = next((first for first, last in tables if first + TABLE_HEADER_LINES <= line <= last), None)
    if document is None or start is None:
        return ""
    return "\n".join(document.lines[start - 1 : start - 1 + TABLE_HEADER_LINES])


def _within(document: Document | None, line: int) -> bool:
    """Say whether a line stands within a code block and does not open it."""
    return document is not None and any(first < line <= last for first, last in document.fences)


def shortened(part: Part, line: int, document: Document | None, room: int = PASSAGE_TOKENS) -> Part:
    """Cut a part to whole lines that fit, from a line on if the part does not fit whole.

    Args:
        part: the lines.
        line: that which must be among them.
        document: where they are; none if it is gone.
        room: estimated tokens.
    """
    if estimated_tokens(part.text) <= room:
        return part
    lines = part.text.split("\n")
    first = min(max(0, line - part.start_line), len(lines) - 1)
    taken: list[str] = []
    for one in lines[first:]:
        room -= estimated_tokens(one) + 1
        if room < 0 and taken:
            break
        taken.append(one)
    start = part.start_line + first
    in_code = part.in_code if not first else _within(document, start)
    header = part.table_header if not first else _header_above(document, start)
    return Part(start, start + len(taken) - 1, "\n".join(taken), in_code, header)


class Kept:
    """What has been chosen so far, so that nothing is chosen twice."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._texts: list[tuple[Evidence, str]] = []

    def takes(self, docid: str, part: Part, headings: Sequence[str], title: str) -> bool:
        """Take a part, unless its lines or its text are there already.

        Args:
            docid: of its document.
            part: the lines.
            headings: above it.
            title: of the document.
        """
        spans = self._spans.setdefault(docid, [])
        if any(start <= part.end_line and part.start_line <= end for start, end in spans):
            return False
        seen = Sought().examine(part.text, headings, title)
        if any(same_text(seen, other) or folded(part.text) == text for other, text in self._texts):
            return False
        spans.append((part.start_line, part.end_line))
        self._texts.append((seen, folded(part.text)))
        return True


def folded(text: str) -> str:
    """Give a text without what does not make it another one: case and white space."""
    return " ".join(text.casefold().split())


def passage_of(hit: Hit, part: Part, tier: Tier, reason: str, number: int = 0) -> Passage:
    """Describe a part of a hit's document as a passage."""
    return Passage(
        number=number,
        ref=hit.ref,
        docid=hit.docid,
        title=hit.title,
        headings=hit.headings,
        start_line=part.start_line,
        end_line=part.end_line,
        score=hit.score,
        tier=tier,
        reason=reason,
        outdated=hit.outdated,
        duplicates=hit.duplicates,
        in_code=part.in_code,
        table_header=part.table_header,
        text=part.text,
    )


def numbered(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Number passages from 1, in their order."""
    return tuple(one.model_copy(update={"number": number}) for number, one in enumerate(passages, 1))
