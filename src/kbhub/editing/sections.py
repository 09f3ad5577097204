"""Inserting text into a document or one of its sections, without changing a byte around it.

A section extends to the next heading of the same or a higher level, as in `read`. Text is appended above its first
subsection, unless the text begins with a heading itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kbhub.documents.edits import Text, lines_of
from kbhub.documents.frontmatter import read_front_matter
from kbhub.documents.markdown import heading_end, is_item, scan_blocks
from kbhub.errors import WriteRefused
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.types import Heading

HEADINGS_NAMED = 20
"""Limit of headings named in a refusal."""


@struct
class TextChange:
    """A changed text, and the location of the new lines in it."""

    text: Text
    start: int
    """Index of the first new line."""
    end: int
    """Index after the last new line."""
    lost: tuple[str, ...] = ()
    """Headings that no longer exist."""


@struct
class _Section:
    heading: Heading
    names: tuple[str, ...]
    """Headings above it, and its own."""
    start: int
    """Index of the heading's first line."""
    body: int
    """Index of the line after the heading."""
    proper: int
    """Index of the first subsection, or the end."""
    end: int
    """Index after the section."""


def append(ref: str, text: Text, new: str, heading: str | None) -> TextChange:
    """Append Markdown to a document or a section; surrounding blank lines are added as needed.

    A section is named by its heading, or the last headings of its path joined by ` > `. Raises `WriteRefused` if it
    does not exist or is ambiguous, or a code block would swallow what follows.
    """
    fresh = _trimmed(new, text.newline)
    if heading is None:
        start, end = front_end(text), len(text.lines)
    else:
        section = find_section(ref, text, heading)
        end = section.end if _opening_heading(fresh) else section.proper
        start = section.body
    while end > start and not text.lines[end - 1].strip():
        end -= 1
    return _checked(ref, text, _placed(text, end, end, fresh))


def replace_section(ref: str, text: Text, new: str, heading: str) -> TextChange:
    """Replace a section's text, including its subsections.

    Text that begins with a heading of the section's level replaces the heading too; empty text leaves only the heading.
    The section is named as for `append`, and refused for the same reasons.
    """
    section = find_section(ref, text, heading)
    fresh = _trimmed(new, text.newline)
    opening = _opening_heading(fresh)
    start = section.start if opening and opening.level == section.heading.level else section.body
    return _checked(ref, text, _replaced(text, start, section.end, fresh))


def replace_body(ref: str, text: Text, new: str) -> TextChange:
    """Replace everything below the front matter; raise `WriteRefused` if it cannot be parsed, so its end is unknown."""
    front = read_front_matter(text.bare)
    if front.problem:
        reason = (
            f"{front.problem[0].lower()}{front.problem[1:].rstrip('.')}, or give a text with front matter of its own"
        )
        raise WriteRefused(ref, reason)
    return _replaced(text, front.body, len(text.lines), _trimmed(new, text.newline))


def replace_all(text: Text, new: str) -> TextChange:
    """Replace a whole document, front matter included; line endings and encoding stay."""
    return _replaced(text, 0, len(text.lines), _trimmed(new, text.newline))


def brings_front_matter(text: str) -> bool:
    """Return whether a text begins with front matter, valid or not."""
    front = read_front_matter([line.rstrip("\r\n") for line in lines_of(text.lstrip("\ufeff"))])
    return bool(front.closing or front.problem)


def front_end(text: Text) -> int:
    """Return the index of the first line after the front matter, even if that cannot be parsed."""
    front = read_front_matter(text.bare)
    return front.body or (front.closing + 1 if front.closing else 0)


def find_section(ref: str, text: Text, heading: str) -> _Section:
    """Find the only section with this heading or path of headings.

    If there is none, or several, raise `WriteRefused` with the alternatives.
    """
    sections = _sections(text)
    path = [_folded(part) for part in re.split(r"(?<=\s)>(?=\s)", heading)]
    matches = [section for section in sections if [_folded(name) for name in section.names][-len(path) :] == path]
    if not matches and len(path) == 1:
        matches = [section for section in sections if _anchor(section.heading.text) == _anchor(heading)]
    exact = [section for section in matches if len(section.names) == len(path)]
    if len(matches) > 1 and len(exact) == 1:
        matches = exact
    if not matches:
        headings = ", ".join(f"`{section.heading.text}`" for section in sections[:HEADINGS_NAMED])
        raise WriteRefused(ref, f"it has no heading {heading!r}; it has {headings or 'none'}")
    if len(matches) > 1:
        paths = list(dict.fromkeys(" > ".join(section.names) for section in matches))
        if len(paths) > 1:
            raise WriteRefused(ref, f"{heading!r} names several sections; say which: {' or '.join(map(repr, paths))}")
        lines = ", ".join(str(section.start + 1) for section in matches)
        raise WriteRefused(ref, f"it has the heading {paths[0]!r} several times (lines {lines}); make them different")
    return matches[0]


def _sections(text: Text) -> list[_Section]:
    bare = text.bare
    headings = scan_blocks(bare, front_end(text), 0).headings
    sections = []
    path: list[Heading] = []
    for number, heading in enumerate(headings):
        path = [*(above for above in path if above.level < heading.level), heading]
        later = headings[number + 1 :]
        end = next((other.line - 1 for other in later if other.level <= heading.level), len(bare))
        proper = min(end, later[0].line - 1 if later else len(bare))
        start = heading.line - 1
        names = tuple(above.text for above in path)
        sections.append(_Section(heading, names, start, heading_end(bare, start), proper, end))
    return sections


def _replaced(text: Text, start: int, end: int, fresh: Sequence[str]) -> TextChange:
    """Replace a range of lines, keeping the blank lines at both ends."""
    old = [heading.text for heading in _headings(text) if start <= heading.line - 1 < end]
    first, last = start, end
    while last > first and not text.lines[last - 1].strip():
        last -= 1
    while first < last and not text.lines[first].strip():
        first += 1
    if first == last:  # only blank lines: they stay below
        first = last = start
    change = _placed(text, first, last, fresh) if fresh else TextChange(text.replaced(first, last, ()), first, first)
    new = {heading.text for heading in _headings(change.text)}
    return TextChange(change.text, change.start, change.end, tuple(name for name in old if name not in new))


def _placed(text: Text, start: int, end: int, fresh: Sequence[str]) -> TextChange:
    """Replace lines, adding blank lines around them where Markdown needs some."""
    newline = text.newline
    before, after = text.lines[:start], text.lines[end:]
    lines = list(fresh)
    if after or text.ends_with_newline:
        lines[-1] += newline
    blank = bool(before) and start == end and bool(before[-1].strip()) and not _goes_on(before[-1], lines[0])
    # The first newline ends the line above, if it has no line ending.
    unended = bool(before) and not before[-1].endswith(("\r", "\n"))
    lead = [newline] * (unended + blank)
    trail = [newline] if after and after[0].strip() else []
    whole = "".join((*before, *lead, *lines, *trail, *after))
    first = start + blank
    return TextChange(Text(lines_of(whole), text.mark, text.encoding), first, first + len(lines))


def _goes_on(above: str, below: str) -> bool:
    """Return whether a line continues the list or table above it, so that no blank line may separate them."""
    row = above.lstrip().startswith("|") and below.lstrip().startswith("|")
    return row or (is_item(above) and is_item(below) and len(above.split(None, 1)) > 1)


def _checked(ref: str, old: Text, change: TextChange) -> TextChange:
    """Refuse a change with which a code block or comment would swallow other text, or a heading would change."""
    bare = change.text.bare
    blocks = scan_blocks(bare, front_end(change.text), 0)
    for first, last in (*blocks.fences, *blocks.raw):
        if first - 1 < change.start < last:
            raise WriteRefused(ref, f"its code block or comment at line {first} is never closed; close it first")
        if change.start <= first - 1 < change.end < last:
            raise WriteRefused(ref, "the new text opens a code block or comment without closing it")
    before, after = (
        [(heading.level, heading.text) for heading in headings if heading.line - 1 < change.start]
        for headings in (_headings(old), blocks.headings)
    )
    if before[: len(after)] != after:
        raise WriteRefused(ref, "the new text would turn the line above it into a heading; start it differently")
    return change


def _headings(text: Text) -> list[Heading]:
    return scan_blocks(text.bare, front_end(text), 0).headings


def _opening_heading(lines: Sequence[str]) -> Heading | None:
    bare = [line.rstrip("\r\n") for line in lines]
    headings = scan_blocks(bare, 0, 0).headings
    return headings[0] if headings and headings[0].line == 1 else None


def _trimmed(text: str, newline: str) -> list[str]:
    """Return the lines of a new text with the document's line endings, without surrounding blank lines."""
    lines = [line.rstrip("\r\n") for line in lines_of(text.lstrip("\ufeff"))]
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return [line + newline for line in lines[:-1]] + lines[-1:]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold().strip().strip("#").strip()


def _anchor(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.casefold().strip()).replace(" ", "-")
