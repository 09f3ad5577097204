"""Find words with given stems in a text without tokenizing all of it: a tenth of the tokenizer's time."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from kbhub.index.query.tokens import normalise, stems

WORDS = 16_384
"""Words whose stems are cached, some 2 MB."""

QUERIES = 64
"""Queries whose word beginnings are cached: each query reads at least 20 texts."""

CHANGED_ENDINGS = "eil"
"""Last letters of a stem that its word may lack: stemming adds an `e` (`filing`, `file`), turns `y` into `i` (`policy`)
and `-bility` into `-bl`. The word starts with everything before them (Porter: "An algorithm for suffix stripping",
Program 14, 1980)."""

_FOREIGN = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile("[a-z0-9]+")


def plain(text: str) -> str | None:
    """Return a text in lower case, with `?` for non-ASCII separators.

    Args:
        text: any string.

    Returns:
        A text of the same length, or None if it has letters, digits or marks beyond ASCII, which need the tokenizer.
    """
    if text.isascii():
        return text.lower()
    if not all(map(_separates, set(_FOREIGN.findall(text)))):
        return None
    return text.encode("ascii", "replace").decode("ascii").lower()


def occurrences(text: str, wanted: frozenset[str]) -> list[tuple[int, int, str]]:
    """Find the words with given stems.

    Args:
        text: a result of `plain`.
        wanted: the stems.

    Returns:
        (start, end, stem) of each word, in order.
    """
    matches: dict[int, tuple[int, int, str]] = {}
    for beginning in _beginnings(wanted):
        at = text.find(beginning)
        while at >= 0:
            end = at + len(beginning)
            if (not at or not text[at - 1].isalnum()) and at not in matches:
                word = _WORD.match(text, at)
                end = word.end() if word else end
                if (stem := stem_of(text[at:end])) in wanted:
                    matches[at] = (at, end, stem)
            at = text.find(beginning, end)
    return [matches[at] for at in sorted(matches)]


@lru_cache(maxsize=WORDS)
def stem_of(word: str) -> str:
    """Return the stem of one word, cached."""
    return "".join(stems(word))


@lru_cache(maxsize=QUERIES)
def _beginnings(stems: frozenset[str]) -> frozenset[str]:
    return frozenset(
        stem[:-1] if len(stem) > 1 and stem[-1] in CHANGED_ENDINGS else stem for stem in stems if stem.isascii()
    )


@lru_cache(maxsize=1024)
def _separates(character: str) -> bool:
    return not any(char.isalnum() or unicodedata.category(char)[0] in "MC" for char in normalise(character))
