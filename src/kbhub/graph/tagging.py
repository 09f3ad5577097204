"""Tags as a tree: `a/b` lies under `a`; those that differ by case alone are one. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from kbhub.query.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Who = TypeVar("Who")
"""What has tags."""

_WILD = frozenset("*?[")

REMEMBERED = 10_000
"""Tags whose levels are kept in memory; vaults have some hundred."""


class TagTable(Generic[Who]):
    """Who has which tags.

    Args:
        tagged: each with its tags, as they are written.
    """

    def __init__(self, tagged: Iterable[tuple[Who, Sequence[str]]]) -> None:
        self.having: dict[str, list[Who]] = defaultdict(list)
        """Key of a tag → who has it or one under it."""
        self.own: Counter[str] = Counter()
        """Key of a tag → how many have it itself."""
        self.size = 0
        """Who has any."""
        self._forms: dict[str, Counter[str]] = defaultdict(Counter)
        for who, tags in tagged:
            keys: set[str] = set()
            own: set[str] = set()
            for tag in tags:
                levels = _levels(tag)
                own.update(key for key, _ in levels[-1:])
                for key, form in levels:
                    keys.add(key)
                    self._forms[key][form] += 1
            self.own.update(own)
            self.size += bool(keys)
            for key in keys:
                self.having[key].append(who)

    def form(self, key: str) -> str:
        """Give a tag as it is most often written; of equally frequent forms, the one in small letters."""
        return min(self._forms[key].items(), key=lambda item: (-item[1], item[0].swapcase()))[0]

    def tree(self) -> list[str]:
        """Give the keys of all tags, each under its own, those that most have first."""
        return sorted(self.having, key=lambda key: [(-len(self.having[above]), above) for above in keys_of((key,))])

    def matching(self, name: str) -> list[str]:
        """Give the keys that a name stands for, tags under them included by what they mean; none if it is no tag.

        Args:
            name: a tag, with or without `#`, in any case; with `*` or `?`, all that match.
        """
        key = key_of(name)
        if _WILD.isdisjoint(key):
            return [key] if key in self.having else []
        return [one for one in self.having if fnmatchcase(one, key)]

    def weight(self, key: str) -> float:
        """Say how much having a tag tells: the logarithm of how rare it is among those that have any."""
        return math.log((self.size + 1) / len(self.having[key]))

    def alike(self, tags: Sequence[str]) -> dict[Who, tuple[float, list[str]]]:
        """Find who shares tags.

        Args:
            tags: of the one that is compared, who is among those found.

        Returns:
            Who → share of the weight of its tags (0 to 1), and the keys of those that both have, rarest first.
        """
        mine = [key for key in keys_of(tags) if key in self.having]
        weights = {key: self.weight(key) for key in mine}
        whole = sum(weights.values())
        shared: dict[Who, list[str]] = defaultdict(list)
        for key in sorted(mine, key=lambda key: (-weights[key], key)):
            for who in self.having[key]:
                shared[who].append(key)
        return {
            who: (sum(weights[key] for key in keys) / whole if whole else 0.0, keys) for who, keys in shared.items()
        }


def keys_of(tags: Iterable[str]) -> list[str]:
    """Give the keys of tags and of those that they lie under, each once."""
    return list(dict.fromkeys(key for tag in tags for key, _ in _levels(tag)))


def key_of(tag: str) -> str:
    """Give what is the same for tags that differ by case, blanks, `#` or a slash at an end alone."""
    levels = _levels(tag)
    return levels[-1][0] if levels else ""


@lru_cache(maxsize=REMEMBERED)
def _levels(tag: str) -> tuple[tuple[str, str], ...]:
    """Give (key, form) of the tags that a tag lies under, outermost first, and of itself."""
    parts = [" ".join(part.split()) for part in tag.strip().lstrip("#").split("/")]
    parts = [part for part in parts if part]
    return tuple((fold("/".join(parts[:end])), "/".join(parts[:end])) for end in range(1, len(parts) + 1))
