"""The name that is most like another, among very many: found by the parts that both share."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PART = 3
"""Letters of a part."""

LETTERS = 100
"""Letters of a name that are looked at."""

RAREST = 8
"""Parts of a name by which candidates are found: those that the fewest names have."""

SHARED_BY = 500
"""Names that are looked at for one part; what more have tells little."""

COMPARED = 20
"""Candidates that are compared letter by letter, which takes 0.05 ms each."""

_DIGITS = re.compile(r"\d+")


class Nearest:
    """Names, to be searched for the one most like another.

    Args:
        names: each as it is compared; case counts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._having: dict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            for part in _parts(name):
                self._having[part].append(name)
        self._known: dict[tuple[str, float], str] = {}

    def closest(self, name: str, likeness: float) -> str:
        """Give the name most like another; empty if none is near enough.

        Names with other numbers in them are no candidates: `step-13` is not what somebody meant who wrote `step-12`.

        Args:
            name: any text.
            likeness: similarity from which a name is near enough, 0 to 1 (difflib's ratio).
        """
        key = (name[:LETTERS], likeness)
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, name: str, likeness: float) -> str:
        parts = sorted((part for part in _parts(name) if part in self._having), key=lambda one: len(self._having[one]))
        shared = Counter(other for part in parts[:RAREST] for other in self._having[part][:SHARED_BY])
        numbers = _DIGITS.findall(name)
        compare = difflib.SequenceMatcher(b=name, autojunk=False)
        best, found = likeness, ""
        likely = (other for other, _ in shared.most_common(SHARED_BY) if _DIGITS.findall(other) == numbers)
        for _, other in zip(range(COMPARED), likely, strict=False):
            compare.set_seq1(other[:LETTERS])
            ratio = compare.ratio()
            if ratio > best or (ratio == best and not found):
                best, found = ratio, other
        return found


def _parts(name: str) -> set[str]:
    padded = f" {name[:LETTERS]} "
    return {padded[at : at + PART] for at in range(len(padded) - PART + 1)}
