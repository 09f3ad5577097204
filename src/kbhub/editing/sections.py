"""Put text into a document or one of its sections, and leave every byte around it as it is.

A section is what `read` shows for its heading: everything down to the next heading of its level or a higher one.
Text is appended to the section proper, above its first subsection, unless it begins with a heading itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kbhub.blocks import heading_end, is_item, scan_blocks
from kbhub.errors import WriteRefused
from kbhub.frontmatter import read_front_matter
from kbhub.text_editing import Text, lines_of
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.types import Heading

HEADINGS_NAMED = 20
"""Headings that a refusal names."""


@struct
class Change:
    """A changed text, and where in it the new lines are."""

    text: Text
    start: int
    """Index of the first new line."""
    end: int
    """Index after the last one."""
    lost: tuple[str, ...] = ()
    """Headings that were there and are no longer."""


@struct
class _Section:
    heading: Heading
    names: tuple[str, ...]
    """Headings above it and its own."""
    start: int
    """Index of its heading's first line."""
    body: int
    """Index of the line after its heading."""
    proper: int
    """Index after its own text: its first subsection, or its end."""
    end: int
    """Index after all of it."""


def append(ref: str, text: Text, new: str, heading: str | None) -> Change:
    """Add text at the end of a document or of a section.

    Args:
        ref: the document, for messages.
        text: what it is now.
        new: Markdown; blank lines around it are kept or made as they are needed.
        heading: the section: its heading, or the last headings of its path joined by ` > `.

    Raises:
        WriteRefused: there is no such section, or several; or a code block would swallow what follows.
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


def replace_section(ref: str, text: Text, new: str, heading: str) -> Change:
    """Put text in place of a section's, subsections included.

    Args:
        ref: the document, for messages.
        text: what it is now.
        new: Markdown; where it begins with a heading of the section's level, that replaces the heading too.
            Empty, it leaves the heading alone.
        heading: as for `append`.

    Raises:
        WriteRefused: as for `append`.
    """
    section = find_section(ref, text, heading)
    fresh = _trimmed(new, text.newline)
    opening = _opening_heading(fresh)
    start = section.start if opening and opening.level == section.heading.level else section.body
    return _checked(ref, text, _replaced(text, start, section.end, fresh))


def replace_body(ref: str, text: Text, new: str) -> Change:
    """Put text in place of everything below the front matter.

    Raises:
        WriteRefused: the front matter cannot be read, so that nobody knows where it ends.
    """
    front = read_front_matter(text.bare)
    if front.problem:
        reason = (
            f"{front.problem[0].lower()}{front.problem[1:].rstrip('.')}, or give a text with front matter of its own"
        )
        raise WriteRefused(ref, reason)
    return _replaced(text, front.body, len(text.lines), _trimmed(new, text.newline))


def replace_all(text: Text, new: str) -> Change:
    """Put text in place of a whole document, front matter included; its line endings and encoding stay."""
    return _replaced(text, 0, len(text.lines), _trimmed(new, text.newline))


def brings_front_matter(text: str) -> bool:
    """Whether a text begins with front matter of its own, good or bad."""
    front = read_front_matter([line.rstrip("\r\n") for line in lines_of(text.lstrip("\ufeff"))])
    return bool(front.closing or front.problem)


def front_end(text: Text) -> int:
    """Index of the first line after the front matter, which may be one that cannot be read."""
    front = read_front_matter(text.bare)
    return front.body or (front.closing + 1 if front.closing else 0)


def find_section(ref: str, text: Text, heading: str) -> _Section:
    """Find the one section that a heading, or the end of a path of headings, names.

    Raises:
        WriteRefused: there is none, or there are several; the reason names what there is.
    """
    sections = _sections(text)
    wanted = [_folded(part) for part in re.split(r"(?<=\s)>(?=\s)", heading)]
    found = [one for one in sections if [_folded(name) for name in one.names][-len(wanted) :] == wanted]
    if not found and len(wanted) == 1:
        found = [one for one in sections if _anchor(one.heading.text) == _anchor(heading)]
    exact = [one for one in found if len(one.names) == len(wanted)]
    if len(found) > 1 and len(exact) == 1:
        found = exact
    if not found:
        named = ", ".join(f"`{one.heading.text}`" for one in sections[:HEADINGS_NAMED])
        raise WriteRefused(ref, f"it has no heading {heading!r}; it has {named or 'none'}")
    if len(found) > 1:
        paths = list(dict.fromkeys(" > ".join(one.names) for one in found))
        if len(paths) > 1:
            raise WriteRefused(ref, f"{heading!r} names several sections; say which: {' or '.join(map(repr, paths))}")
        lines = ", ".join(str(one.start + 1) for one in found)
        raise WriteRefused(ref, f"it has the heading {paths[0]!r} several times (lines {lines}); make them differ")
    return found[0]


def _sections(text: Text) -> list[_Section]:
    bare = text.bare
    headings = scan_blocks(bare, front_end(text), 0).headings
    sections = []
    path: list[Heading] = []
    for number, one in enumerate(headings):
        path = [*(above for above in path if above.level < one.level), one]
        later = headings[number + 1 :]
        end = next((other.line - 1 for other in later if other.level <= one.level), len(bare))
        proper = min(end, later[0].line - 1 if later else len(bare))
        start = one.line - 1
        names = tuple(above.text for above in path)
        sections.append(_Section(one, names, start, heading_end(bare, start), proper, end))
    return sections


def _replaced(text: Text, start: int, end: int, fresh: Sequence[str]) -> Change:
    """Put lines in place of a stretch, except for the blank lines at its two ends."""
    gone = [heading.text for heading in _headings(text) if start <= heading.line - 1 < end]
    first, last = start, end
    while last > first and not text.lines[last - 1].strip():
        last -= 1
    while first < last and not text.lines[first].strip():
        first += 1
    if first == last:  # only blank lines, if any: they stay below
        first = last = start
    change = _placed(text, first, last, fresh) if fresh else Change(text.replaced(first, last, ()), first, first)
    now = {heading.text for heading in _headings(change.text)}
    return Change(change.text, change.start, change.end, tuple(name for name in gone if name not in now))


def _placed(text: Text, start: int, end: int, fresh: Sequence[str]) -> Change:
    """Put lines in place of others, with blank lines around them where Markdown needs some."""
    newline = text.newline
    before, after = text.lines[:start], text.lines[end:]
    lines = list(fresh)
    if after or text.ends_with_newline:
        lines[-1] += newline
    blank = bool(before) and start == end and bool(before[-1].strip()) and not _goes_on(before[-1], lines[0])
    # What ends the line above, if it has no ending, is the first of these.
    unended = bool(before) and not before[-1].endswith(("\r", "\n"))
    lead = [newline] * (unended + blank)
    trail = [newline] if after and after[0].strip() else []
    whole = "".join((*before, *lead, *lines, *trail, *after))
    first = start + blank
    return Change(Text(lines_of(whole), text.mark, text.encoding), first, first + len(lines))


def _goes_on(above: str, below: str) -> bool:
    """Whether a line continues the list or table above it, so that a blank line would part them."""
    row = above.lstrip().startswith("|") and below.lstrip().startswith("|")
    return row or (is_item(above) and is_item(below) and len(above.split(None, 1)) > 1)


def _checked(ref: str, old: Text, change: Change) -> Change:
    """Refuse a change after which a code block or comment holds what was outside, or a heading is lost.

    Raises:
        WriteRefused: the reason says on which line the block begins.
    """
    bare = change.text.bare
    blocks = scan_blocks(bare, front_end(change.text), 0)
    for first, last in (*blocks.fences, *blocks.raw):
        if first - 1 < change.start < last:
            raise WriteRefused(ref, f"its code block or comment from line {first} is never closed; close it first")
        if change.start <= first - 1 < change.end < last:
            raise WriteRefused(ref, "the new text opens a code block or comment and does not close it")
    before = [heading for heading in _headings(old) if heading.line - 1 < change.start]
    now = [heading for heading in blocks.headings if heading.line - 1 < change.start]
    if [(one.level, one.text) for one in before[: len(now)]] != [(one.level, one.text) for one in now]:
        raise WriteRefused(ref, "the new text would turn the line above it into a heading; begin it otherwise")
    return change


def _headings(text: Text) -> list[Heading]:
    return scan_blocks(text.bare, front_end(text), 0).headings


def _opening_heading(lines: Sequence[str]) -> Heading | None:
    bare = [line.rstrip("\r\n") for line in lines]
    headings = scan_blocks(bare, 0, 0).headings
    return headings[0] if headings and headings[0].line == 1 else None


def _trimmed(text: str, newline: str) -> list[str]:
    """Give the lines of a new text with the document's line endings; none at the end, no blank lines around."""
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
