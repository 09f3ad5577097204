"""Vectors of words of other languages than English, beside the packaged model's English pieces.

A word list and a matrix of 4-bit numbers, both memory-mapped. A word is found by its hash, so that neither loading nor
a query reads the whole list.
"""

from __future__ import annotations

import hashlib
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS, ROWS, LEVELS, STEPS = "words", "rows", "levels", "steps"
"""Names of the tensors: sorted hashes, the row of each (`ENGLISH` for a word to leave alone), two 4-bit levels
per byte, and the distance between a row's levels."""

ENGLISH = -1
"""Row of an English word: its pieces are the better vector."""

MIDDLE = 7.5
"""Level that stands for 0."""

_PAIRS = (np.arange(256)[:, None] >> (0, 4) & 15).astype(np.float32) - np.float32(MIDDLE)
"""Byte → its two levels, as distances from the middle."""

STRIPPED, SHORTEST = 3, 4
"""Most letters that are taken from the end of an unknown word, and fewest that must remain: inflected forms."""

_MARKS = re.escape(string.punctuation)

WORD_OR_MARK = rf"[{_MARKS}]|[^ \t\n\r{_MARKS}]+"
"""Pattern of the words that `Lexicon.tokens` takes, and of the marks that separate them."""

_HAN_KANA = r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNITS = rf"[{_HAN_KANA}]+|[^\W_{_HAN_KANA}]+"
"""Compiled at first use, which takes some ms: most queries are ASCII."""

_STEMS = (("\u0400", "\u052f", 6), ("\uac00", "\ud7af", 2))
"""First and last letter of the scripts whose words have no English pieces, Cyrillic and Hangul, and how many letters at
the beginning of a word stand for all words that share them."""


class Lexicon:
    """The words of other languages and their vectors; token ids below `first` belong to the tokenizer."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], first: int) -> None:
        self.first = first
        self._words, self._rows = tensors[WORDS], tensors[ROWS]
        self._levels, self._steps = tensors[LEVELS], tensors[STEPS]

    def apart(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Split the tokens of a text into those of the tokenizer and those of the lexicon."""
        own = tokens >= self.first
        if not np.count_nonzero(own):
            return tokens, tokens[:0]
        return tokens[~own], tokens[own]

    def vectors(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of the lexicon's tokens, in the unit of the model's int8 rows; shape (n, dimensions).

        Their components are multiples of a half, so sums are exact whatever their order.
        """
        rows = tokens - self.first
        levels = _PAIRS.take(self._levels.take(rows, 0), 0).reshape(len(rows), 2 * self._levels.shape[1])
        vectors: NDArray[np.float32] = levels * self._steps.take(rows)[:, None]
        return vectors

    def tokens(self, words: Iterable[str]) -> dict[str, tuple[list[int], str]]:
        """Return word → its token ids, and the rest for the tokenizer; unknown words are left out.

        Words have no spaces; a run of several languages or with punctuation is taken apart.
        """
        parts_of = {word: units(word) for word in words}
        every = {unit for parts in parts_of.values() for unit in parts}
        runs = {unit: characters(unit) for unit in every if is_run(unit)}
        rows = self._find(chain(every.difference(runs), *runs.values()))
        # A word with digits is a name; it has no other forms.
        forms = {unit: _forms(unit) for unit in every if unit not in rows and unit.isalpha() and unit not in runs}
        rows |= self._find(chain.from_iterable(forms.values()))
        compounds = {unit: _beginnings(unit) for unit, others in forms.items() if rows.keys().isdisjoint(others)}
        rows |= self._find(chain.from_iterable(compounds.values()))
        halves = {
            unit: [(left, [unit[len(left) :], *_forms(unit[len(left) :])]) for left in some]
            for unit, lefts in compounds.items()
            if (some := [left for left in lefts if rows.get(left, ENGLISH) != ENGLISH])
        }
        rows |= self._find(right for pairs in halves.values() for _, rights in pairs for right in rights)
        known = {unit: found for unit, keys in runs.items() if (found := [rows[key] for key in keys if key in rows])}
        for unit in every.difference(runs):
            row = rows[unit] if unit in rows else _first(forms.get(unit, ()), rows)
            found = _two(halves.get(unit, ()), rows) if row is None else [row] if row != ENGLISH else []
            if found:
                known[unit] = found
        return {
            word: ([self.first + row for unit in parts for row in known.get(unit, ())], _rest(word, known, rows))
            for word, parts in parts_of.items()
            if not known.keys().isdisjoint(parts)
        }

    def _find(self, wanted: Iterable[str]) -> dict[str, int]:
        """Return key → row, for those that the list has."""
        if not (keys := list(dict.fromkeys(wanted))):
            return {}
        hashes = np.frombuffer(b"".join(map(word_hash, keys)), "<u8")
        at = np.searchsorted(self._words, hashes).clip(max=len(self._words) - 1)
        known = np.flatnonzero(self._words[at] == hashes)
        return {keys[number]: row for number, row in zip(known.tolist(), self._rows[at[known]].tolist(), strict=True)}


def word_hash(key: str) -> bytes:
    """Return the number by which a key is found, as 8 bytes, little-endian."""
    return hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest()


def units(word: str) -> list[str]:
    """Return the words, and runs of Han and Kana, of a text without spaces and ASCII punctuation, in a normal form."""
    if word.isascii():
        return [word.lower()] if word.isalnum() else []
    return re.findall(_UNITS, _normal(word))


def _normal(word: str) -> str:
    return unicodedata.normalize("NFKC", word).lower()


def is_run(unit: str) -> bool:
    """Return whether a unit is a run of Han or Kana."""
    return not unit.isascii() and re.match(f"[{_HAN_KANA}]", unit) is not None


def characters(run: str) -> list[str]:
    """Return the characters of a run of Han and Kana, and the pairs of neighbours, as they are listed."""
    return [*run, *map("".join, pairwise(run))]


def _forms(word: str) -> list[str]:
    """Return other keys under which a word may be listed, the nearest first."""
    forms = [word[:end] for end in range(len(word) - 1, max(SHORTEST, len(word) - STRIPPED) - 1, -1)]
    return forms if word.isascii() else forms + stems(word)


def stems(word: str) -> list[str]:
    """Return the key that stands for all words with the beginning of a word; none if its script has English pieces."""
    return [f"{word[:size]}*" for first, last, size in _STEMS if first <= word[:1] <= last]


def _beginnings(word: str) -> list[str]:
    """Return the first halves of a compound, for each place where it may be joined, the longest first."""
    return [word[:at] for at in range(len(word) - SHORTEST, SHORTEST - 1, -1)]


def _two(halves: Iterable[tuple[str, Iterable[str]]], rows: Mapping[str, int]) -> list[int]:
    """Return rows of the halves of a compound, given its known first halves with the forms of the second ones."""
    for left, rights in halves:
        if (second := _first(rights, rows)) is not None and second != ENGLISH:
            return [rows[left], second]
    return []


def _first(keys: Iterable[str], rows: Mapping[str, int]) -> int | None:
    for key in keys:  # a generator takes twice as long
        if key in rows:
            return rows[key]
    return None


def _rest(word: str, taken: Mapping[str, list[int]], rows: Mapping[str, int]) -> str:
    """Return the unknown part of a word; single characters of Han and Kana are looked up for themselves."""
    if word.isascii():
        return ""

    def left(match: re.Match[str]) -> str:
        unit = match.group()
        if unit not in taken:
            return unit
        return "".join(f" {letter} " for letter in unit if letter not in rows) if is_run(unit) else " "

    return re.sub(_UNITS, left, _normal(word)).strip()
