"""Build documents of formats whose text is converted to Markdown."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbhub.documents.chunking import chunk_document
from kbhub.documents.frontmatter import FrontMatter
from kbhub.documents.markdown import decode, encoding_of, outlined, scan_blocks, scan_markdown, sections_of
from kbhub.documents.shown_text import MAX_HEADING_CHARS
from kbhub.types import Chunk, Document, Heading
from kbhub.values import struct

_NO_CHARSETS = frozenset(
    ("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
)
"""Codecs of Python that no file is written in, or that take more than linear time."""

_WEB_NAMES = {"iso8859-1": "cp1252", "ascii": "cp1252", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8"}
"""What browsers read in place of a declared encoding: Latin-1 means Windows-1252, and a file that could be read far
enough to find `utf-16` is not in it."""


def decode_as(data: bytes, charset: str) -> tuple[str, str | None]:
    """Decode like `decode` in a declared encoding (`""`: none); a byte order mark is first, UTF-8 for unknown names."""
    if not charset or encoding_of(data)[0]:
        return decode(data)
    try:
        name = codecs.lookup(charset.strip()).name
        name = _WEB_NAMES.get(name, name)
        if name in _NO_CHARSETS or name == "utf-8":
            return decode(data)
        text = data.decode(name, "replace").replace("\0", "\ufffd")
    except (LookupError, ValueError):
        text, problem = decode(data)
        return text, problem and f"Its encoding {charset.strip()[:40]!r} is unknown. {problem}"
    text = text.encode("utf-8", "replace").decode("utf-8")  # some codecs let lone surrogates through
    lost = "\ufffd" in text and "\ufffd".encode() not in data
    return text, f"Not all of it is valid {name}: unreadable bytes are shown as \ufffd." if lost else None


def document_of_markdown(
    path: str,
    markdown: str,
    *,
    title: str = "",
    front_matter: Mapping[str, Any] | None = None,
    shown: Sequence[str] = (),
    tags: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> Document:
    """Build a document from text that was converted to Markdown, in which YAML at the top is text.

    Without a `title`, the text decides, as in Markdown. The values of `front_matter` (JSON-safe) under the keys `shown`
    are repeated at the top of the text, so that words find them.
    """
    values = {key: storable(value) if isinstance(value, str) else value for key, value in (front_matter or {}).items()}
    text = storable(markdown).strip("\n")
    lines = text.split("\n") if text else []
    head = [f"{key}: {_one_line(values[key])}" for key in shown if values.get(key)]
    head += [""] if head and lines else []
    lines = [*head, *lines]
    front = FrontMatter(len(head), values=values, title=_one_line(storable(title)), tags=tuple(filter(None, tags)))
    return outlined(path, lines, front, scan_markdown(lines, front), map(_one_line, problems))


def structured(document: Document) -> Document:
    """Return a converted document with the headings, links and the like of its lines, which are Markdown."""
    parsed = document_of_markdown(
        document.path,
        "\n".join(document.lines),
        title=document.title,
        front_matter=document.front_matter,
        tags=document.tags,
        problems=document.problems,
    )
    return replace(parsed, body=document.body, aliases=document.aliases)


def storable(text: str) -> str:
    """Return text with line feeds as line endings, and without the lone surrogates and NUL that no index can store."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _one_line(value: object) -> str:
    return " ".join(str(", ".join(map(str, value)) if isinstance(value, list) else value).split())


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
    """Build a document from parts: a few lines of metadata, then each part below its header."""
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
        aliases=tuple(aliases),
        headings=tuple(headings),
        problems=tuple(problems),
    )


def chunk_parts(document: Document) -> list[Chunk]:
    """Cut a document from `document_of_parts` into its parts, whose headers are no prose, and long ones further."""
    chunks: list[Chunk] = []
    for heading, names, end in sections_of(document.headings, len(document.lines)):
        if heading.level != PART_LEVEL:
            continue
        # Text before the first part goes with it, as front matter goes with a first section.
        above = 0 if heading.line == document.body + 1 else heading.line - 1
        lines, body = document.lines[above:end], heading.line - above
        blocks = scan_blocks(lines, body, 0)
        fences, tables = tuple(blocks.fences), tuple(blocks.tables)
        part = replace(document, lines=lines, body=body, headings=(), fences=fences, tables=tables, front_matter={})
        path = tuple(filter(None, names))
        for chunk in chunk_document(part):
            start, last = chunk.start_line + above, chunk.end_line + above
            chunks.append(replace(chunk, headings=path, start_line=start, end_line=last))
    return chunks
