"""Find the most similar of very many names by shared letter trigrams."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PART = 3
"""Letters per part."""

LETTERS = 100
"""Letters of a name that are compared."""

RAREST = 8
"""Parts of a name used to find candidates: the rarest ones."""

SHARED_BY = 500
"""Names considered per part; a commoner part tells little."""

COMPARED = 20
"""Candidates compared letter by letter, at 0.05 ms each."""

_DIGITS = re.compile(r"\d+")


class Nearest:
    """An index to find the most similar of many names, case-sensitively."""

    def __init__(self, names: Iterable[str]) -> None:
        self._having: dict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            for part in _parts(name):
                self._having[part].append(name)
        self._known: dict[tuple[str, float], str] = {}

    def closest(self, name: str, likeness: float) -> str:
        """Return the most similar name, or an empty string if none reaches `likeness` (difflib's ratio, 0 to 1).

        Names with different numbers are not candidates: whoever wrote `step-12` did not mean `step-13`.
        """
        key = (name[:LETTERS], likeness)
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, name: str, likeness: float) -> str:
        parts = sorted((part for part in _parts(name) if part in self._having), key=lambda p: len(self._having[p]))
        shared = Counter(other for part in parts[:RAREST] for other in self._having[part][:SHARED_BY])
        numbers = _DIGITS.findall(name)
        compare = difflib.SequenceMatcher(b=name, autojunk=False)
        best, closest = likeness, ""
        likely = (other for other, _ in shared.most_common(SHARED_BY) if _DIGITS.findall(other) == numbers)
        for _, other in zip(range(COMPARED), likely, strict=False):
            compare.set_seq1(other[:LETTERS])
            ratio = compare.ratio()
            if ratio > best or (ratio == best and not closest):
                best, closest = ratio, other
        return closest


def _parts(name: str) -> set[str]:
    padded = f" {name[:LETTERS]} "
    return {padded[at : at + PART] for at in range(len(padded) - PART + 1)}
