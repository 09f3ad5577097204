"""Measure text in words, and split lines that are too long for a chunk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_WORDS = 300
"""Words of the largest chunk: what a reader takes in at once and a mean-pooled embedding still tells apart."""
MIN_WORDS = 40
"""Smaller sections, in words, are merged; a full chunk may exceed its limit by as much to keep a heading's text."""
WORD_CHARS = 16
"""A line counts at least one word per so many characters: URLs and encoded data are long words."""

_HAN_KANA = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+")
_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
HAN_KANA_CHARS = 2
"""Characters of Han and Kana per word: most words have two."""
SOUTH_EAST_ASIAN_CHARS = 4
"""Characters per word of Thai, Lao, Burmese and Khmer, which put no spaces between words."""
_SPACE = re.compile(r"\s*")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]")
SENTENCE_SHARE = 0.5
"""A long line is cut after a sentence only if that ends in this last share of a part, else at a space."""


def size(line: str) -> int:
    """Return the size of a line in words; 0 if it is blank.

    White space separates words. In scripts without it, two characters of Han or Kana, or four of Thai, Lao, Burmese or
    Khmer, count as a word. A line has at least one word per 16 characters.
    """
    words = len(line.split())
    if not line.isascii():
        words += sum(map(len, _HAN_KANA.findall(line))) // HAN_KANA_CHARS
        words += sum(map(len, _SOUTH_EAST_ASIAN.findall(line))) // SOUTH_EAST_ASIAN_CHARS
    if len(line) > words * WORD_CHARS:
        words = max(words, -(-len(line.strip()) // WORD_CHARS))
    return words


def split_line(line: str) -> Iterator[tuple[int, int]]:
    """Split a long line into parts of at most `CHUNK_WORDS`, after sentences or words where possible.

    Yields:
        Start and end of each part; white space between parts belongs to the earlier one.
    """
    start, length = 0, len(line)
    while start < length:
        filled = _after_space(line, start)
        end = filled + _fitting(line[filled : filled + CHUNK_WORDS * WORD_CHARS])
        rest = line[end : end + MIN_WORDS * WORD_CHARS + 1]
        if end + len(rest) == length and 0 < size(rest) < MIN_WORDS:
            end = min(end, filled + (length - filled) // 2)  # two halves rather than a small remainder
        if end < length:
            end = _after_space(line, filled + _cut_place(line[filled:end]))
        yield start, end
        start = end


def _after_space(line: str, start: int) -> int:
    match = _SPACE.match(line, start)
    return match.end() if match else start


def _fitting(text: str) -> int:
    """Length of a prefix that fits a chunk, close to the longest."""
    length = len(text)
    while (words := size(text[:length])) > CHUNK_WORDS:
        length = length * CHUNK_WORDS // words
    return length


def _cut_place(text: str) -> int:
    """Where to cut a text that fits: after a sentence, else after a word, else at its end."""
    earliest = int(len(text) * SENTENCE_SHARE)
    sentence = 0
    for match in _SENTENCE_END.finditer(text, earliest):
        sentence = match.end()
    if sentence:
        return sentence
    space = max(text.rfind(" "), text.rfind("\t"))
    return space + 1 if space >= earliest // 2 else len(text)
