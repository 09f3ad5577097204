"""Build and chunk documents that consist of parts, such as pages or turns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbhub.documents.blocks import MAX_HEADING_CHARS, scan_blocks
from kbhub.documents.chunking import chunk_document
from kbhub.types import Document, Heading
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kbhub.types import Chunk

PART_LEVEL = 6
"""Heading level of a part, below those of any table of contents."""

SHOWN_LINES = ("session", "agent", "model", "folder", "author", "pages", "date")
"""Front matter keys that are repeated at the top of the text."""


@struct
class Part:
    """A page or a turn."""

    heading: str
    """Its heading in results."""
    header: str
    """Its first line in the text."""
    lines: tuple[str, ...]
    above: tuple[tuple[int, str], ...] = ()
    """Headings that start with it, such as those of a chapter: (level, text), levels 1 to 5."""


def document_of_parts(
    path: str,
    title: str,
    parts: Sequence[Part],
    front_matter: Mapping[str, Any],
    *,
    aliases: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> Document:
    """Build a document from parts: a few lines of metadata, then each part below its header.

    Args:
        path: relative to the base, with `/`.
        title: its title.
        parts: its parts, in order.
        front_matter: JSON-safe values.
        aliases: other names.
        problems: messages on what could not be read.
    """
    lines = [f"{key}: {front_matter[key]}" for key in SHOWN_LINES if key in front_matter] if parts else []
    lines += [""] if lines else []
    body = len(lines)
    headings: list[Heading] = []
    for part in parts:
        names = (*part.above, (PART_LEVEL, part.heading))
        headings += [Heading(level, text[:MAX_HEADING_CHARS], len(lines) + 1) for level, text in names]
        lines += [part.header, *part.lines, ""]
    return Document(
        path=path,
        title=title[:MAX_HEADING_CHARS],
        lines=tuple(lines[:-1]),
        body=body,
        front_matter=dict(front_matter),
        tags=(),
        aliases=tuple(aliases),
        headings=tuple(headings),
        fences=(),
        links=(),
        problems=tuple(problems),
    )


def chunk_parts(document: Document) -> list[Chunk]:
    """Cut a document into its parts, and parts that are too long into several chunks.

    Args:
        document: a document from `document_of_parts`.

    Returns:
        Chunks in line order; the header of a part is not part of its prose.
    """
    return [chunk for start, end, names in _spans(document) for chunk in _chunks(document, start, end, names)]


def _spans(document: Document) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield (first line, last line, headings) of each part."""
    starts = [heading.line for heading in document.headings if heading.level == PART_LEVEL]
    ends = iter([*(start - 1 for start in starts[1:]), len(document.lines)])
    path: list[Heading] = []
    for heading in document.headings:
        path = [above for above in path if above.level < heading.level] + [heading]
        if heading.level == PART_LEVEL:
            yield heading.line, next(ends), tuple(above.text for above in path if above.text)


def _chunks(document: Document, start: int, end: int, names: tuple[str, ...]) -> Iterator[Chunk]:
    # Text before the first part goes with it, as front matter goes with a first section.
    first = 1 if start == document.body + 1 else start
    lines = document.lines[first - 1 : end]
    body = start - first + 1
    blocks = scan_blocks(lines, body, 0)
    part = replace(
        document,
        lines=lines,
        body=body,
        headings=(),
        fences=tuple(blocks.fences),
        tables=tuple(blocks.tables),
        front_matter={},
    )
    for chunk in chunk_document(part):
        yield replace(
            chunk, headings=names, start_line=chunk.start_line + first - 1, end_line=chunk.end_line + first - 1
        )
