"""Passages for hits: the current lines of the documents, of a readable size, without duplicates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kbhub.answers.answer import Passage, estimated_tokens
from kbhub.documents.sources.text_formats import parse_text
from kbhub.reading.read import ReadOptions, read
from kbhub.search.evidence import QueryTerms
from kbhub.search.rerank_text import same_text
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbhub.answers.answer import Tier
    from kbhub.hub import Hub
    from kbhub.search.evidence import Evidence
    from kbhub.types import Document, Hit

PASSAGE_TOKENS = 700
"""Limit of a passage in estimated tokens: nearly every chunk (300 words) is shorter, tables and code may be longer."""

TABLE_HEADER_LINES = 2
"""The column names, and the rule below them."""


@struct
class PassageSpan:
    """Consecutive lines of a document."""

    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""
    text: str
    in_code: bool = False
    """Whether it starts inside a code block."""
    table_header: str = ""
    """Header of the table in which it starts."""


class Texts:
    """A cache of documents by docid, as they are on disk now."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._documents: dict[str, Document | None] = {}

    def document(self, docid: str, path: str) -> Document | None:
        """Return a document by its short docid, or None if it is gone since it was indexed.

        The suffix of the path tells its format.
        """
        if docid not in self._documents:
            readings = read(self._hub, [docid], ReadOptions(answer_bytes=sys.maxsize)).readings
            text = readings[0].text if readings else None
            self._documents[docid] = None if text is None else parse_text(path, text.encode("utf-8", "replace"))
        return self._documents[docid]

    def part(self, hit: Hit) -> PassageSpan:
        """Return the lines of a hit, or its excerpt if the document is gone or is one overlong line."""
        document = self.document(hit.docid, hit.path)
        part = lines_of(document, hit.start_line, hit.end_line) if document else None
        if part is None or (part.start_line == part.end_line and estimated_tokens(part.text) > PASSAGE_TOKENS):
            return PassageSpan(hit.excerpt_line, hit.excerpt_line + hit.excerpt.count("\n"), hit.excerpt)
        return shortened(part, hit.excerpt_line, document)

    def opening(self, docid: str, path: str, heading: tuple[int, int] | None) -> PassageSpan | None:
        """Return the beginning of a document or of a section, or None if it is gone or empty."""
        document = self.document(docid, path)
        if document is None:
            return None
        start, end = heading or (document.body + 1, len(document.lines))
        part = lines_of(document, start, end)
        return shortened(part, start, document) if part else None


def lines_of(document: Document, start: int, end: int) -> PassageSpan | None:
    """Return a range of lines (1-based, inclusive) without front matter and blank ends, or None if nothing is left."""
    start, end = max(start, document.body + 1), min(end, len(document.lines))
    while start <= end and not document.lines[start - 1].strip():
        start += 1
    while start <= end and not document.lines[end - 1].strip():
        end -= 1
    if start > end:
        return None
    text = "\n".join(document.lines[start - 1 : end])
    return PassageSpan(start, end, text, _within(document, start), _header_above(document, start))


def _header_above(document: Document | None, line: int) -> str:
    """Return the header of the table that a line is a row of, or ""."""
    tables = document.tables if document else ()
    start = next((first for first, last in tables if first + TABLE_HEADER_LINES <= line <= last), None)
    if document is None or start is None:
        return ""
    return "\n".join(document.lines[start - 1 : start - 1 + TABLE_HEADER_LINES])


def _within(document: Document | None, line: int) -> bool:
    """Return whether a line is inside a code block, other than its first line."""
    return document is not None and any(first < line <= last for first, last in document.fences)


def shortened(part: PassageSpan, line: int, document: Document | None, room: int = PASSAGE_TOKENS) -> PassageSpan:
    """Cut a part to whole lines that fit, starting at a given line if it does not fit whole.

    `room` is in estimated tokens; `document` is None if it is gone.
    """
    if estimated_tokens(part.text) <= room:
        return part
    lines = part.text.split("\n")
    first = min(max(0, line - part.start_line), len(lines) - 1)
    taken: list[str] = []
    for text in lines[first:]:
        room -= estimated_tokens(text) + 1
        if room < 0 and taken:
            break
        taken.append(text)
    start = part.start_line + first
    in_code = part.in_code if not first else _within(document, start)
    header = part.table_header if not first else _header_above(document, start)
    return PassageSpan(start, start + len(taken) - 1, "\n".join(taken), in_code, header)


class ChosenSpans:
    """The parts chosen so far, to avoid duplicates."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._texts: list[tuple[Evidence, str]] = []

    def takes(self, docid: str, part: PassageSpan, headings: Sequence[str], title: str) -> bool:
        """Record a part and return True, unless its lines or its text are recorded already."""
        spans = self._spans.setdefault(docid, [])
        if any(start <= part.end_line and part.start_line <= end for start, end in spans):
            return False
        seen = QueryTerms().examine(part.text, headings, title)
        if any(same_text(seen, other) or folded(part.text) == text for other, text in self._texts):
            return False
        spans.append((part.start_line, part.end_line))
        self._texts.append((seen, folded(part.text)))
        return True


def folded(text: str) -> str:
    """Fold case and white space."""
    return " ".join(text.casefold().split())


def passage_of(hit: Hit, part: PassageSpan, tier: Tier, reason: str, number: int = 0) -> Passage:
    """Build a passage from a part of a hit's document."""
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
    """Number passages in order, from 1."""
    return tuple(passage.model_copy(update={"number": number}) for number, passage in enumerate(passages, 1))
