"""The tags in the text of a Markdown document, `#topic` and `#topic/part`, by the rules of Obsidian.

A tag stands at the start of a line or after white space and has letters, digits, `_`, `-` and `/`, not only digits.
What looks like one in code, comments, links, addresses and HTML is none. The time is linear in the text for any input.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kbhub.documents.links import paragraphs, starts_of, visible_ranges, without_code
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_TAG_CHARACTERS = 100
"""Length of the longest tag; what is longer is data."""

MAX_TAGS = 1000
"""Tags of a document that count, with repetitions; real ones have some ten."""

# ASCII is decided here, other scripts by category: Python's `\w` lacks the vowel signs of Indian scripts.
_CANDIDATE = re.compile(r"(?<!\S)#(?=[^\s\x00-,./:-@\[-^`{-\x7f])")
_TAG = re.compile(rf"(?<!\S)#([^\s\x00-,.:-@\[-^`{{-\x7f]{{1,{MAX_TAG_CHARACTERS + 1}}})")
_IN_WORDS = ("L", "M", "N")
"""Unicode categories of letters, their marks, and digits."""

MASK = "."
"""Stands for what is no text: it neither ends a word before a tag nor continues one."""

_MASKED = re.compile(
    r"^[ \t>]*+\[[^\[\]\n]*\]:[^\n]*"  # a definition of a reference
    r"|!?\[\[[^\[\]\n]*\]\]"
    r"|!?\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]\n]*\])"
    r"|<[A-Za-z/!?][^<>]*>",
    re.MULTILINE,
)
_COMMENT, _COMMENT_END = "<!--", "-->"


@struct
class InlineTag:
    """A tag in the text of a document."""

    tag: str
    """As written, without `#` and closing slashes."""
    line: int
    """1-based."""
    column: int
    """Index in the line of its first character after `#`."""


def inline_tags(text: str, lines: Sequence[str], hidden: Sequence[tuple[int, int]]) -> Iterator[InlineTag]:
    """Yield the tags of a document in order, with repetitions, `MAX_TAGS` at most.

    `lines` are those of `text`, which has line feeds as line endings; `hidden` are line spans (1-based, inclusive)
    without
    tags: code, comments, front matter.
    """
    if not _CANDIDATE.search(text):
        return
    starts = starts_of(lines)
    line, left = 0, MAX_TAGS
    for begin, end in visible_ranges(starts, hidden):
        for paragraph, offset in paragraphs(text, begin, end, _CANDIDATE):
            for match in _TAG.finditer(_masked(paragraph)):
                tag = _tag(match[1])
                if not tag:
                    continue
                place = offset + match.start(1)
                while starts[line + 1] <= place:
                    line += 1
                yield InlineTag(tag, line + 1, place - starts[line])
                left -= 1
                if not left:
                    return


def is_inline_tag(tag: str) -> bool:
    """Return whether a tag can be written in the text, as `#tag`."""
    match = _TAG.fullmatch(f"#{tag}")
    return match is not None and _tag(match[1]) == tag


def joined_tags(tags: Sequence[str], inline: Iterator[InlineTag]) -> tuple[str, ...]:
    """Return all front matter tags, then those of the text, each once whatever its case; the first form counts."""
    known = {_folded(tag) for tag in tags}
    joined = list(tags)
    for one in inline:
        if (key := _folded(one.tag)) not in known:
            known.add(key)
            joined.append(one.tag)
    return tuple(joined)


def _tag(text: str) -> str:
    """Return the tag that a run of characters starts with; empty if it is none."""
    if not text.isascii():
        end = next((place for place, character in enumerate(text) if not _may_be_in(character)), len(text))
        text = text[:end]
    if len(text) > MAX_TAG_CHARACTERS:
        return ""
    tag = text.rstrip("/")
    return tag if any(map(str.isalnum, tag)) and not tag.isdigit() and tag[0] != "/" else ""


def _may_be_in(character: str) -> bool:
    return character in "_-/" or unicodedata.category(character)[0] in _IN_WORDS


def _folded(tag: str) -> str:
    return unicodedata.normalize("NFC", tag).casefold()


def _masked(paragraph: str) -> str:
    """Replace code, comments, links and HTML without moving any character."""
    masked = without_code(paragraph, MASK)
    if _COMMENT in masked:
        masked = _without_comments(masked)
    if "[" in masked or "<" in masked:
        masked = _MASKED.sub(lambda match: MASK * len(match[0]), masked)
    return masked


def _without_comments(text: str) -> str:
    parts, position = list[str](), 0
    while (start := text.find(_COMMENT, position)) >= 0:
        end = text.find(_COMMENT_END, start + len(_COMMENT))
        if end < 0:
            break
        end += len(_COMMENT_END)
        parts += (text[position:start], MASK * (end - start))
        position = end
    return "".join([*parts, text[position:]])
