"""Sections of documents as answers: the lines below each heading, named by their heading path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Document

SECTION_MARK = "::"
"""Separates a document from the heading path of a section."""

_JOIN = " > "


@struct
class HeadedSection:
    """The lines from a heading to the next one of any level."""

    path: str
    """Headings, outermost first, joined by ` > `; empty for the lines before the first heading."""
    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""


def headed_sections(document: Document) -> tuple[HeadedSection, ...]:
    """Split a document at its headings; the sections cover it in order."""
    path: list[tuple[int, str]] = []
    sections = []
    starts = [heading.line for heading in document.headings]
    if not starts or starts[0] > 1:
        sections.append(HeadedSection("", 1, (starts[0] if starts else len(document.lines) + 1) - 1))
    ends = [start - 1 for start in starts[1:]] + [len(document.lines)]
    for heading, end in zip(document.headings, ends, strict=False):
        path = [ancestor for ancestor in path if ancestor[0] < heading.level] + [(heading.level, heading.text)]
        sections.append(HeadedSection(_JOIN.join(text for _, text in path), heading.line, end))
    return tuple(sections)


def best_answer(name: str, sections: Sequence[HeadedSection], lines: tuple[int, int], gold: Mapping[str, int]) -> str:
    """Return what a chunk counts as: the section it overlaps, or its document, with the highest gain.

    Args:
        name: the document.
        sections: the document's sections.
        lines: first and last line of the chunk, 1-based.
        gold: section or document → gain.

    Returns:
        The first with the highest gain, or the first overlapping section if none has a gain.
    """
    candidates = [
        f"{name}{SECTION_MARK}{section.path}" if section.path else name
        for section in sections
        if section.start_line <= lines[1] and section.end_line >= lines[0]
    ]
    return max([*candidates, name], key=lambda item: gold.get(item, 0))
