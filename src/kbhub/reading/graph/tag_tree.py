"""Tags as a tree: `a/b` is below `a`; tags that differ only by case are the same. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from kbhub.index.query.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Who = TypeVar("Who")
"""Type of what is tagged."""

_WILD = frozenset("*?[")

REMEMBERED = 10_000
"""Tags whose ancestors are cached; vaults have some hundred."""


class TagTable(Generic[Who]):
    """The tags of a set of items, given as written."""

    def __init__(self, tagged: Iterable[tuple[Who, Sequence[str]]]) -> None:
        self.having: dict[str, list[Who]] = defaultdict(list)
        """Key of a tag → items with it or a tag below it."""
        self.own: Counter[str] = Counter()
        """Key of a tag → number of items with the tag itself."""
        self.size = 0
        """Number of items with any tag."""
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
        """Return the most frequent spelling of a tag; of equally frequent ones, the lower-case one."""
        return min(self._forms[key].items(), key=lambda item: (-item[1], item[0].swapcase()))[0]

    def tree(self) -> list[str]:
        """Return the keys of all tags in tree order, the most frequent first."""
        return sorted(self.having, key=lambda key: [(-len(self.having[above]), above) for above in keys_of((key,))])

    def matching(self, name: str) -> list[str]:
        """Return the keys that a name (any case, with or without `#`) stands for; with `*` or `?`, all that match."""
        key = key_of(name)
        if _WILD.isdisjoint(key):
            return [key] if key in self.having else []
        return [tag for tag in self.having if fnmatchcase(tag, key)]

    def weight(self, key: str) -> float:
        """Return the information of a tag: the logarithm of its rarity among tagged items."""
        return math.log((self.size + 1) / len(self.having[key]))

    def alike(self, tags: Sequence[str]) -> dict[Who, tuple[float, list[str]]]:
        """Return item → share of the weight of the tags (0 to 1), and the keys of shared tags, rarest first.

        The item whose tags are given is itself among the results.
        """
        own_keys = [key for key in keys_of(tags) if key in self.having]
        weights = {key: self.weight(key) for key in own_keys}
        whole = sum(weights.values())
        shared: dict[Who, list[str]] = defaultdict(list)
        for key in sorted(own_keys, key=lambda key: (-weights[key], key)):
            for who in self.having[key]:
                shared[who].append(key)
        return {
            who: (sum(weights[key] for key in keys) / whole if whole else 0.0, keys) for who, keys in shared.items()
        }


def keys_of(tags: Iterable[str]) -> list[str]:
    """Return the distinct keys of tags and their ancestors."""
    return list(dict.fromkeys(key for tag in tags for key, _ in _levels(tag)))


def key_of(tag: str) -> str:
    """Return the key of a tag: case, spaces, `#` and outer slashes do not matter."""
    levels = _levels(tag)
    return levels[-1][0] if levels else ""


@lru_cache(maxsize=REMEMBERED)
def _levels(tag: str) -> tuple[tuple[str, str], ...]:
    """Return (key, spelling) of a tag's ancestors, outermost first, and of itself."""
    parts = [" ".join(part.split()) for part in tag.strip().lstrip("#").split("/")]
    parts = [part for part in parts if part]
    return tuple((fold("/".join(parts[:end])), "/".join(parts[:end])) for end in range(1, len(parts) + 1))
