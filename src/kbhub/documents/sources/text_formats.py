"""Read text formats other than Markdown as documents whose lines are those of the file."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.documents.blocks import MAX_HEADING_CHARS
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import decode, heading_title, parse_document
from kbhub.documents.sources.adoc import scan_adoc
from kbhub.documents.sources.converted import document_of_markdown, storable
from kbhub.documents.sources.org import scan_org
from kbhub.documents.sources.plain_text import scan_plain_text
from kbhub.documents.sources.rst import scan_rst
from kbhub.types import Document
from kbhub.workspace.formats import file_title, format_of, is_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbhub.documents.sources.outline import Outline

SCANS: dict[str, Callable[[Sequence[str], int], Outline]] = {
    ".rst": scan_rst,
    ".rest": scan_rst,
    ".org": scan_org,
    ".adoc": scan_adoc,
    ".asciidoc": scan_adoc,
    ".txt": scan_plain_text,
    ".text": scan_plain_text,
}
"""Lower-case suffix → what finds the structure of such a file."""


def parse_text(path: str, data: bytes, *, inline: bool = False) -> Document:
    """Parse a text file of a base, or the text that an index has of a converted file, which is Markdown.

    Args:
        path: relative to its base, with `/`; its suffix tells the format.
        data: the whole text.
        inline: whether `#tags` in Markdown are tags, as `Base.inline_tags` says.
    """
    if is_markdown(path):
        return parse_document(path, data, inline=inline)
    found = format_of(path)
    if found is None or found.kind is None:
        return read_text(path, data)
    text, problem = decode(data)
    return document_of_markdown(path, text, problems=(problem,) if problem else ())


def read_text(path: str, data: bytes) -> Document:
    """Read reStructuredText, Org, AsciiDoc or plain text.

    Args:
        path: relative to its base, with `/`; its suffix tells the format, and an unknown one is plain text.
        data: the whole file.

    Returns:
        The document, with the lines of the file. YAML front matter is read in any of them, as site generators do.
    """
    text, problem = decode(data)
    lines = storable(text).split("\n")
    if not lines[-1]:
        lines.pop()
    name = PurePosixPath(path)
    front = read_front_matter(lines)
    outline = SCANS.get(name.suffix.lower(), scan_plain_text)(lines, front.body)
    title = front.title or outline.title or heading_title(outline.headings) or file_title(name)
    return Document(
        path=path,
        title=title[:MAX_HEADING_CHARS],
        lines=tuple(lines),
        body=max(front.body, outline.body),
        front_matter={**outline.values, **front.values},
        tags=tuple(dict.fromkeys((*front.tags, *outline.tags))),
        aliases=tuple(dict.fromkeys((*front.aliases, *filter(None, outline.aliases)))),
        headings=tuple(outline.headings),
        fences=tuple(outline.fences),
        links=tuple(outline.links),
        problems=tuple(part for part in (problem, front.problem) if part),
        tables=tuple(outline.tables),
    )
