"""Where words of some stems stand in a text, without taking all of the text apart: a tenth of the tokenizer's time."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from kbhub.query.tokens import normalise, stems

WORDS = 16_384
"""Words whose stems are remembered, some 2 MB."""

QUERIES = 64
"""Queries whose beginnings of words are remembered: each looks at 20 texts and more."""

CHANGED_ENDINGS = "eil"
"""Letters at the end of a stem that its word may not have: stemming adds an `e` (`filing`, `file`), turns `y` into `i`
(`policy`) and `-bility` into `-bl`. All before them, the word begins with (Porter: "An algorithm for suffix stripping",
Program 14, 1980)."""

_FOREIGN = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile("[a-z0-9]+")


def plain(text: str) -> str | None:
    """Give a text in small letters, with a `?` for each character beyond ASCII, which only separates words.

    Args:
        text: any string.

    Returns:
        As long as the text; none if it has letters, digits or marks beyond ASCII, which only the tokenizer knows.
    """
    if text.isascii():
        return text.lower()
    if not all(map(_separates, set(_FOREIGN.findall(text)))):
        return None
    return text.encode("ascii", "replace").decode("ascii").lower()


def occurrences(text: str, wanted: frozenset[str]) -> list[tuple[int, int, str]]:
    """Find the words that have some stems.

    Args:
        text: as `plain` gives it.
        wanted: stems.

    Returns:
        (start, end, stem) of each word, in order.
    """
    found: dict[int, tuple[int, int, str]] = {}
    for beginning in _beginnings(wanted):
        at = text.find(beginning)
        while at >= 0:
            end = at + len(beginning)
            if (not at or not text[at - 1].isalnum()) and at not in found:
                word = _WORD.match(text, at)
                end = word.end() if word else end
                if (stem := stem_of(text[at:end])) in wanted:
                    found[at] = (at, end, stem)
            at = text.find(beginning, end)
    return [found[at] for at in sorted(found)]


@lru_cache(maxsize=WORDS)
def stem_of(word: str) -> str:
    """Give the stem of one word, remembered."""
    return "".join(stems(word))


@lru_cache(maxsize=QUERIES)
def _beginnings(stems: frozenset[str]) -> frozenset[str]:
    return frozenset(
        stem[:-1] if len(stem) > 1 and stem[-1] in CHANGED_ENDINGS else stem for stem in stems if stem.isascii()
    )


@lru_cache(maxsize=1024)
def _separates(character: str) -> bool:
    return not any(one.isalnum() or unicodedata.category(one)[0] in "MC" for one in normalise(character))
