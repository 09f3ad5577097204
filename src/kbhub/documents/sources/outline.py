"""What a line scan of a text format finds: the same parts of a document as the parser of Markdown finds."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kbhub.documents.blocks import MAX_HEADING_CHARS
from kbhub.documents.links import EXTERNAL, MAX_LINK_TEXT
from kbhub.types import Heading, Link
from kbhub.values import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_LEVEL = 6
"""Deepest level of a heading."""

MAX_VALUES = 200
"""Fields of metadata that are read; real documents have a dozen."""

VALUE_CHARACTERS = 2000
"""Characters of one value of metadata."""

_SEPARATORS = re.compile(r"[,;]")


@record
class Outline:
    """The structure of a text; line spans are 1-based and inclusive."""

    title: str = ""
    """Title that its metadata gives it."""
    body: int = 0
    """Index of the first line after metadata at its top."""
    values: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)
    tables: list[tuple[int, int]] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)

    def add_heading(self, level: int, text: str, line: int) -> None:
        """Add a heading.

        Args:
            level: from 1; deeper ones than `MAX_LEVEL` count as that.
            text: without markup.
            line: its first line, from 1.
        """
        self.headings.append(Heading(min(level, MAX_LEVEL), " ".join(text.split())[:MAX_HEADING_CHARS], line))

    def add_value(self, name: str, value: str) -> None:
        """Add a field of metadata; `tags` and `keywords` are tags, and `title` is the title."""
        name, value = name.strip().lower(), " ".join(value.split())[:VALUE_CHARACTERS]
        if not value or len(self.values) >= MAX_VALUES or len(name) > MAX_HEADING_CHARS:
            return
        if name == "title":
            self.title = f"{self.title} {value}".strip()[:MAX_HEADING_CHARS]
            return
        if name in ("tags", "keywords", "tag"):
            self.add_tags(_SEPARATORS.split(value) if _SEPARATORS.search(value) else [value])
        self.values.setdefault(name, value)

    def add_tags(self, names: Sequence[str]) -> None:
        """Add tags, each once; those beyond `MAX_VALUES` do not count."""
        for name in (" ".join(name.strip().lstrip("#").split()) for name in names):
            if len(self.tags) >= MAX_VALUES:
                return
            if name and name not in self.tags:
                self.tags.append(name)

    def add_link(self, target: str, fragment: str, text: str, line: int) -> None:
        """Add a link, if it leads to a file and not to another place."""
        target, fragment = target.strip(), fragment.strip()
        if (target or fragment) and not EXTERNAL.match(target):
            shown = " ".join(text.split())[:MAX_LINK_TEXT] or target
            self.links.append(Link(target, fragment, shown, line, "markdown"))


class Visible:
    """The text of a document outside of code and comments, on the same lines.

    Args:
        lines: all lines.
        hidden: spans that are left out.
    """

    def __init__(self, lines: Sequence[str], hidden: Sequence[tuple[int, int]]) -> None:
        shown = list(lines)
        for first, last in hidden:
            shown[first - 1 : last] = [""] * (last - first + 1)
        self.text = "\n".join(shown)
        self._starts = [0, *accumulate(len(line) + 1 for line in shown)]

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
        """Yield the matches of a pattern, each with its line."""
        for match in pattern.finditer(self.text):
            yield match, bisect_right(self._starts, match.start())


def indent_of(line: str) -> int:
    """Return the columns of white space at the start of a line."""
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blank.expandtabs(8))


def block_end(lines: Sequence[str], index: int, indent: int) -> int:
    """Return the index after the indented block below a line, without blank lines at its end.

    Args:
        lines: the document.
        index: index of the line above the block.
        indent: columns of that line; the block has more.
    """
    end = place = index + 1
    while place < len(lines):
        if lines[place].strip():
            if indent_of(lines[place]) <= indent:
                break
            end = place + 1
        place += 1
    return end
