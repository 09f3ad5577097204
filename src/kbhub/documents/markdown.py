"""The parser of a file's bytes into a `Document`, which never fails or loses text.

Files that are not Markdown by their name are plain text: one title, no structure.
"""

from __future__ import annotations

import codecs
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.documents.blocks import MAX_HEADING_CHARS, scan_blocks
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.inline_tags import inline_tags, joined_tags
from kbhub.documents.links import extract_links
from kbhub.types import Document
from kbhub.workspace.formats import file_title, is_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.documents.blocks import Blocks
    from kbhub.documents.frontmatter import FrontMatter
    from kbhub.documents.inline_tags import InlineTag
    from kbhub.types import Heading, Link

PART_NAMES = frozenset(("abstract", "background", "contents", "introduction", "motivation", "overview", "summary"))
"""Headings that, as the first of several at level 1, name a section rather than the document."""

# Those of UTF-32 begin like those of UTF-16, so they come first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)


def encoding_of(data: bytes) -> tuple[bytes, str, str]:
    """Return a file's byte order mark (maybe empty), its encoding for Python, and the encoding's display name."""
    return next((entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0])), (b"", "utf-8", "UTF-8"))


def decode(data: bytes) -> tuple[str, str | None]:
    """Return a file's text without byte order mark, decoded as that says or as UTF-8, and a message or None.

    Invalid bytes and NUL characters become U+FFFD, as the message says, so that any index can store the text.
    """
    mark, encoding, name = encoding_of(data)
    problems = []
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        text = data[len(mark) :].decode(encoding, "replace")
        place = error.start + len(mark)
        problems.append(f"Not valid {name} (byte {place}): unreadable bytes are shown as �. Save it as UTF-8.")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
        problems.append("Contains NUL characters, shown as �; it may not be a text file.")
    return text, " ".join(problems) or None


def parse_document(path: str, data: bytes, *, inline: bool = False) -> Document:
    """Parse a file of a base, Markdown or not by its suffix; `problems` of the document list what could not be parsed.

    `inline` is whether `#tags` in its text are tags, as `Base.inline_tags` says.
    """
    text, encoding_problem = decode(data)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # the final newline starts no line
    name = PurePosixPath(path)
    if not is_markdown(path):
        problems = (encoding_problem,) if encoding_problem else ()
        return Document(path, file_title(name), tuple(lines), 0, {}, (), (), (), (), (), problems)
    front = read_front_matter(lines)
    blocks = scan_blocks(lines, front.body, front.closing)
    return Document(
        path=path,
        title=front.title[:MAX_HEADING_CHARS] or heading_title(blocks.headings) or file_title(name),
        lines=tuple(lines),
        body=front.body,
        front_matter=front.values,
        tags=joined_tags(front.tags, inline_tags(text, lines, _untagged(front, blocks))) if inline else front.tags,
        aliases=front.aliases,
        headings=tuple(blocks.headings),
        fences=tuple(blocks.fences),
        links=extract_links(text, lines, _hidden(front, blocks)),
        problems=tuple(problem for problem in (encoding_problem, front.problem) if problem),
        tables=tuple(blocks.tables),
    )


def images_of(text: str) -> tuple[Link, ...]:
    """Return the images of a Markdown document, with line feeds, that are local files, not external or `data:` URLs."""
    if "![" not in text:
        return ()
    lines = text.split("\n")
    front = read_front_matter(lines)
    blocks = scan_blocks(lines, front.body, front.closing)
    return extract_links(text, lines, _hidden(front, blocks), images=True)


def inline_tags_of(text: str) -> tuple[InlineTag, ...]:
    """Return the tags in a Markdown document, with line feeds, in order and with repetitions."""
    lines = text.split("\n")
    front = read_front_matter(lines)
    return tuple(inline_tags(text, lines, _untagged(front, scan_blocks(lines, front.body, front.closing))))


def _untagged(front: FrontMatter, blocks: Blocks) -> list[tuple[int, int]]:
    """Return the line spans without tags."""
    return [*_hidden(front, blocks), *blocks.indented]


def _hidden(front: FrontMatter, blocks: Blocks) -> list[tuple[int, int]]:
    """Return the line spans without links."""
    return [*blocks.fences, *blocks.raw, *([(1, front.body)] if front.body else [])]


def heading_title(headings: Sequence[Heading]) -> str:
    """Return the first level-1 heading, else the first; "" if the first of several at level 1 names a section."""
    texts = [heading.text for heading in headings if heading.text]
    tops = [heading.text for heading in headings if heading.text and heading.level == 1]
    if len(tops) > 1 and tops[0].casefold() in PART_NAMES:
        return ""
    return (tops or texts or [""])[0]
