"""Read text formats other than Markdown as documents whose lines are those of the file."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import MAX_HEADING_CHARS, decode, heading_title, parse_document
from kbhub.documents.sources.converted import document_of_markdown, storable
from kbhub.documents.sources.markup import Outline, scan_adoc, scan_org
from kbhub.documents.sources.rst import scan_rst, width_of
from kbhub.types import Document
from kbhub.workspace.formats import file_title, format_of, is_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_HEADING = 100
"""Characters of a line that may be a heading."""

LEAST_UNDERLINE = 3
"""Characters of an underline."""

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
    if above and lines[index].rstrip() == lines[title + 1].rstrip():
        fits = len(lines[index].rstrip()) >= width_of(text)
    else:
        # As long as the title, or nearly: otherwise it is a rule, or a table's.
        fits = not above and abs(len(lines[title + 1].rstrip()) - width_of(text)) <= 1 and lines[title][0] not in " \t"
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
        if entry[1] in _following(kept[-1][1] if kept else ()):
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


def _following(numbers: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return the numbers that may come after others; those of a first heading if there are none."""
    if not numbers:
        return {(1,), (0,), (1, 1), (1, 0)}
    next_ones = {(*numbers[:depth], numbers[depth] + 1) for depth in range(len(numbers))}
    return next_ones | {(*numbers, 1), (*numbers, 0)}


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

    `inline` is `Base.inline_tags`.
    """
    if is_markdown(path):
        return parse_document(path, data, inline=inline)
    found = format_of(path)
    if found is None or found.kind is None:
        return read_text(path, data)
    text, problem = decode(data)
    return document_of_markdown(path, text, problems=(problem,) if problem else ())


def read_text(path: str, data: bytes) -> Document:
    """Read reStructuredText, Org, AsciiDoc or plain text (any other suffix), YAML front matter included."""
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
