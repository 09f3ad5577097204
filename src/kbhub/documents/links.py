"""The links of a Markdown document to other documents: inline, reference and wiki links.

External links and code are skipped. Brackets are paired with a stack and code spans by length, so the time is linear
in the text for any input.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile
from typing import Literal
from urllib.parse import unquote

from kbhub.documents.shown_text import COMMENT, TEMPLATE, without_code
from kbhub.types import Link
from kbhub.values import struct

MAX_LINK_TEXT = 200
"""Characters at which `Link.text` is cut; nested brackets would otherwise add up to quadratic size."""

# At least two letters: one is the drive of a Windows path.
EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
EXTERNAL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|mailto:")
"""Prefix of an external name in double brackets."""

_LOCAL = r"(?!<?(?:https?|mailto|ftp):)"
_CANDIDATE = re.compile(rf"\]\({_LOCAL}|\[\[")
_BRACKET = re.compile(r"\[")
# Every branch opens with a fixed character, which makes the search fast.
_TOKEN = re.compile(r"\\.|\[\[([^\[\]\n]{1,1000}+)\]\](?!\()|\[|\]", re.DOTALL)
_DESTINATION = re.compile(
    rf"\(\s*+(?:<([^<>\n]{{0,2000}}+)>|((?>{TEMPLATE}"
    r"|[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.){0,1000}\)){0,2000}))"
    r"(?:\s++(?:\"[^\"]{0,1000}+\"|'[^']{0,1000}+'|\([^()]{0,1000}+\)))?\s*+\)"
)
_LABEL = re.compile(r"\[([^\[\]]{0,999}+)\]")
_DEFINITION = re.compile(
    rf"[ \t>]*+\[(?!\^)((?:[^\[\]\\\n]|\\.){{1,999}})\]:[ \t]*+{_LOCAL}"
    rf"(?:<([^<>\n]{{1,2000}}+)>|((?:{TEMPLATE}|\S){{1,2000}}+))"
)
_TEMPLATES = re.compile(TEMPLATE)
_NAMED = re.compile(
    r"""\b(?:ref|relref|link|post_url)\s+["']?([^\s"'|]+)|["']([^\s"']+)["']\s*\|\s*(?:relative|absolute)_url"""
)
_UNKNOWN = "\n"
"""Stands for what only the build of the site knows; no destination has it."""

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


def extract_links(
    text: str, lines: Sequence[str], hidden: Sequence[tuple[int, int]], *, images: bool = False
) -> tuple[Link, ...]:
    """Return a document's links (`![[name]]` is one), or its images, by their ends; takes what `inline_tags` does."""
    defines = next(_definitions(text, 0, len(text)), None) is not None
    if not defines and not _CANDIDATE.search(text):
        return ()
    starts = starts_of(lines)
    ranges = list(visible_ranges(starts, hidden))
    definitions: dict[str, str] = {}
    for begin, end in ranges if defines else ():
        for match in _definitions(text, begin, end):
            definitions.setdefault(_label(match[1]), match[2] or match[3])
    candidate = _BRACKET if definitions else _CANDIDATE
    links: list[Link] = []
    for begin, end in ranges:
        for paragraph, offset in paragraphs(text, begin, end, candidate):
            inside = _Paragraph(paragraph, without_code(paragraph), offset, starts, definitions)
            links.extend(inside.links(images=images))
    return tuple(links)


def _definitions(text: str, begin: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the definitions in a range that begins with a line; looks only at lines that have their mark."""
    while (mark := text.find("]:", begin, end)) >= 0:
        if match := _DEFINITION.match(text, text.rfind("\n", begin, mark) + 1 or begin, end):
            yield match
        begin = text.find("\n", mark, end)
        if begin < 0:
            return


def starts_of(lines: Sequence[str]) -> list[int]:
    """Return the offset of each line in a text, and the text's length with a final line feed."""
    return [0, *accumulate(len(line) + 1 for line in lines)]


def visible_ranges(starts: Sequence[int], hidden: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the character ranges outside the hidden line spans."""
    position = 0
    for first, last in sorted(hidden):
        if starts[first - 1] > position:
            yield position, starts[first - 1]
        position = max(position, starts[last])
    if position < starts[-1]:
        yield position, starts[-1]


def paragraphs(text: str, begin: int, end: int, candidate: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """Yield the paragraphs of a range that may contain a link, with their offsets."""
    while match := candidate.search(text, begin, end):
        start = text.rfind("\n\n", begin, match.start())
        start = begin if start < 0 else start + 2
        stop = text.find("\n\n", match.start(), end)
        stop = end if stop < 0 else stop
        yield text[start:stop], start
        begin = stop


def _label(text: str) -> str:
    return " ".join(text.split()).casefold()


@struct
class _Paragraph:
    """A paragraph whose brackets are being paired."""

    text: str
    masked: str
    """The text without code spans."""
    offset: int
    starts: Sequence[int]
    definitions: dict[str, str]

    def links(self, *, images: bool) -> Iterator[Link]:
        """Pair brackets and yield the resulting links, or images."""
        opened: list[tuple[int, bool]] = []
        masked, position = self.masked, 0
        while match := _TOKEN.search(masked, position):
            start, before = match.start(), position
            position = match.end()
            mark = masked[start]
            if mark == "\\":
                continue
            if mark == "]":
                if opened:
                    start, image = opened.pop()
                    link, position = self._closed(start, position)
                    if link is not None and image == images:
                        yield link
                continue
            bang = start > before and masked[start - 1] == "!"
            if match[1] is None:
                opened.append((position, bang))
            elif not images and (link := self._wikilink(match[1], start, "embed" if bang else "wikilink")):
                yield link

    def _closed(self, start: int, end: int) -> tuple[Link | None, int]:
        """Return the link whose text runs from `start` to the bracket before `end`, and where to continue."""
        following = self.masked[end : end + 1]
        if following == "(" and (match := _DESTINATION.match(self.masked, end)):
            return self._link("markdown", start, end - 1, match[1] or match[2] or ""), match.end()
        if not self.definitions or following == ":":
            return None, end
        label = _LABEL.match(self.masked, end) if following == "[" else None
        name = label[1] if label and label[1] else self.masked[start : min(end - 1, start + 1000)]
        target = self.definitions.get(_label(name))
        after = label.end() if label else end
        return (None if target is None else self._link("reference", start, end - 1, target)), after

    def _link(self, kind: Literal["markdown", "reference"], start: int, end: int, destination: str) -> Link | None:
        destination = _TEMPLATES.sub(_computed, destination)
        if EXTERNAL.match(destination) or _UNKNOWN in destination:
            return None
        raw, _, fragment = _ESCAPED.sub(r"\1", destination).partition("#")
        target, fragment = _decoded(raw.partition("?")[0]), _decoded(fragment)
        if not target and not fragment:
            return None
        text = " ".join(self.text[start : min(end, start + MAX_LINK_TEXT)].split())
        return Link(target, fragment, text, self._line(start), kind)

    def _wikilink(self, inside: str, start: int, kind: Literal["wikilink", "embed"]) -> Link | None:
        # In a table, the bar is escaped.
        name, _, alias = inside.replace("\\|", "|").partition("|")
        target, _, fragment = name.partition("#")
        target, fragment = target.strip(), fragment.strip()
        if (not target and not fragment) or EXTERNAL_NAME.match(target):
            return None
        text = (alias.strip() or name.strip())[:MAX_LINK_TEXT]
        return Link(_decoded(target), _decoded(fragment), text, self._line(start), kind)

    def _line(self, position: int) -> int:
        return bisect_right(self.starts, self.offset + position)


def _computed(template: re.Match[str]) -> str:
    """Return the part of a destination that an expression stands for."""
    if named := _NAMED.search(template[0]):
        return named[1] or named[2]
    return "" if re.search(r"base_?url", template[0], re.IGNORECASE) else _UNKNOWN


def _decoded(text: str) -> str:
    return unquote(text).replace("\0", "\ufffd") if "%" in text else text


MAX_TAG_CHARACTERS = 100
"""Maximum length of a tag; longer runs are data."""

MAX_TAGS = 1000
"""Tags of a document that count, with repetitions; real ones have some ten."""

# ASCII is decided here, other scripts by category: Python's `\w` lacks the vowel signs of Indian scripts.
_TAG_CANDIDATE = re.compile(r"(?<!\S)#(?=[^\s\x00-,./:-@\[-^`{-\x7f])")
_TAG = re.compile(rf"(?<!\S)#([^\s\x00-,.:-@\[-^`{{-\x7f]{{1,{MAX_TAG_CHARACTERS + 1}}})")
_IN_WORDS = ("L", "M", "N")
"""Unicode categories of letters, their marks, and digits."""

MASK = "."
"""Placeholder for anything that is not text: it neither ends a word before a tag nor continues one."""

_MASKED = re.compile(
    rf"{COMMENT.pattern}"
    r"|^[ \t>]*+\[[^\[\]\n]*\]:[^\n]*"  # a definition of a reference
    r"|!?\[\[[^\[\]\n]*\]\]"
    r"|!?\[[^\[\]]*\](?:\([^()\n]*\)|\[[^\[\]\n]*\])"
    r"|<[A-Za-z/!?][^<>]*>",
    re.MULTILINE,
)


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
    without tags: code, comments, front matter.
    """
    if not _TAG_CANDIDATE.search(text):
        return
    starts = starts_of(lines)
    line, left = 0, MAX_TAGS
    for begin, end in visible_ranges(starts, hidden):
        for paragraph, offset in paragraphs(text, begin, end, _TAG_CANDIDATE):
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
    known, inside = set(map(_folded, tags)), dict[str, str]()
    for one in inline:
        inside.setdefault(_folded(one.tag), one.tag)
    return (*tags, *(tag for key, tag in inside.items() if key not in known))


def _tag(text: str) -> str:
    """Return the tag that a run of characters starts with; empty if it is none."""
    if not text.isascii():
        inside = takewhile(lambda letter: letter in "_-/" or unicodedata.category(letter)[0] in _IN_WORDS, text)
        text = "".join(inside)
    if len(text) > MAX_TAG_CHARACTERS:
        return ""
    tag = text.rstrip("/")
    return tag if any(map(str.isalnum, tag)) and not tag.isdigit() and tag[0] != "/" else ""


def _folded(tag: str) -> str:
    return unicodedata.normalize("NFC", tag).casefold()


def _masked(paragraph: str) -> str:
    """Replace code, comments, links and HTML without moving any character."""
    masked = without_code(paragraph, MASK)
    return _MASKED.sub(lambda match: MASK * len(match[0]), masked) if "[" in masked or "<" in masked else masked
