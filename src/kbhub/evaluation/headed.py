"""Sections of a document as answers: the lines under each heading, and the path of headings that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.types import Document

SECTION_MARK = "::"
"""Between a document and the headings of one of its sections."""

_JOIN = " > "


@struct
class HeadedSection:
    """The lines from a heading to the next of any level."""

    path: str
    """Headings, outermost first, joined by ` > `; empty for what stands before the first."""
    start_line: int
    """1-based, inclusive."""
    end_line: int
    """1-based, inclusive."""


def headed_sections(document: Document) -> tuple[HeadedSection, ...]:
    """Cut a document at its headings; the sections cover it in order."""
    path: list[tuple[int, str]] = []
    found = []
    starts = [heading.line for heading in document.headings]
    if not starts or starts[0] > 1:
        found.append(HeadedSection("", 1, (starts[0] if starts else len(document.lines) + 1) - 1))
    ends = [start - 1 for start in starts[1:]] + [len(document.lines)]
    for heading, end in zip(document.headings, ends, strict=False):
        path = [above for above in path if above[0] < heading.level] + [(heading.level, heading.text)]
        found.append(HeadedSection(_JOIN.join(text for _, text in path), heading.line, end))
    return tuple(found)


def best_answer(name: str, sections: Sequence[HeadedSection], lines: tuple[int, int], gold: Mapping[str, int]) -> str:
    """Say as what a chunk counts: of the sections that it covers, and its document, what has the highest gain.

    Args:
        name: of the document.
        sections: of the document.
        lines: first and last of the chunk, from 1.
        gold: section or document → gain.

    Returns:
        The first of the best; the first section where none has a gain.
    """
    covered = [
        f"{name}{SECTION_MARK}{one.path}" if one.path else name
        for one in sections
        if one.start_line <= lines[1] and one.end_line >= lines[0]
    ]
    return max([*covered, name], key=lambda item: gold.get(item, 0))
