"""How much text counts for, in words, and where a line too long for a chunk is cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_WORDS = 300
"""Largest chunk, words: what a reader takes in at once and a mean-pooled embedding still tells apart."""
MIN_WORDS = 40
"""Smaller sections are joined, words; also what a heading may add to a full chunk rather than be cut off."""
WORD_CHARS = 16
"""A line counts at least one word for so many characters: addresses and encoded data are long words."""

_HAN_KANA = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+")
_SOUTH_EAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
HAN_KANA_CHARS = 2
"""Characters of Han and Kana that count as a word: most words are written with two."""
SOUTH_EAST_ASIAN_CHARS = 4
"""Characters of Thai, Lao, Burmese and Khmer, which put no spaces between words, that count as a word."""
_SPACE = re.compile(r"\s*")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|[。！？]")
SENTENCE_SHARE = 0.5
"""A long line is cut at a sentence's end only in this last share of a part, else at a space."""


def size(line: str) -> int:
    """How much a line counts for, in words.

    White space separates words; scripts without it count two characters of Han or Kana and four of Thai, Lao,
    Burmese or Khmer as a word; and never less than one for 16 characters. Blank lines count nothing.
    """
    words = len(line.split())
    if not line.isascii():
        words += sum(map(len, _HAN_KANA.findall(line))) // HAN_KANA_CHARS
        words += sum(map(len, _SOUTH_EAST_ASIAN.findall(line))) // SOUTH_EAST_ASIAN_CHARS
    if len(line) > words * WORD_CHARS:
        words = max(words, -(-len(line.strip()) // WORD_CHARS))
    return words


def split_line(line: str) -> Iterator[tuple[int, int]]:
    """Cut a long line into parts of at most `CHUNK_WORDS`, at sentences or words where there are any.

    Yields:
        Start and end of each part; white space between parts ends the earlier one.
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
    """Length of a beginning of the text that fits a chunk; close to the longest."""
    length = len(text)
    while (words := size(text[:length])) > CHUNK_WORDS:
        length = length * CHUNK_WORDS // words
    return length


def _cut_place(text: str) -> int:
    """Where to end a part within a text that fits: after a sentence, else a word, else at its end."""
    earliest = int(len(text) * SENTENCE_SHARE)
    sentence = 0
    for match in _SENTENCE_END.finditer(text, earliest):
        sentence = match.end()
    if sentence:
        return sentence
    space = max(text.rfind(" "), text.rfind("\t"))
    return space + 1 if space >= earliest // 2 else len(text)
