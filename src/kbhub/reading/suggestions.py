"""Suggest refs similar to one that leads nowhere."""

from __future__ import annotations

import difflib
import heapq
import os.path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NEAR = 3
"""Number of suggested refs."""

NEAR_ENOUGH = 0.6
"""Minimum similarity (0 to 1, difflib's ratio) of a suggested ref."""

NEAR_AMONG = 200
"""Refs compared letter by letter, at 0.1 ms each: those that share the most parts with the target."""

PART = 3
"""Letters per part."""

PARTS_FROM = 200
"""Letters of the target that are considered."""


def closest(target: str, refs: Iterable[str], names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the refs that were most probably meant, likeliest first.

    A document with exactly the same file name comes before similar ones, whatever its folder.

    Args:
        target: the ref as typed.
        refs: all existing refs.
        names: case-folded title or alias → refs of the documents with it.
    """
    target = target[:PARTS_FROM]
    based = "@" in target
    by_stem: dict[str, list[str]] = {}
    by_spelling: dict[str, list[str]] = {}
    for ref in refs:
        by_stem.setdefault(stem(ref), []).append(ref)
        by_spelling.setdefault(_spelling(ref, based=based), []).append(ref)
    same = _by_likeness(target, by_stem.get(stem(target), ()))
    alike = _similar(_spelling(target, based=based), by_spelling)
    similar = [ref for name in alike for ref in _by_likeness(target, by_spelling[name])]
    stems = [ref for name in _similar(stem(target), by_stem) for ref in _by_likeness(target, by_stem[name])]
    titles = [ref for name in _similar(target.casefold(), names) for ref in names[name]]
    return list(dict.fromkeys([*same, *similar, *stems, *titles]))[:NEAR]


def stem(ref: str) -> str:
    """Return the file name of a ref, without folder, base, extension and case."""
    name = ref.rpartition("/")[2].rpartition("@")[2].casefold()
    return os.path.splitext(name)[0] or name  # noqa: PTH122 - a ref is no path of the system


def _spelling(ref: str, *, based: bool) -> str:
    """Return the part of a ref that is compared: without extension, and without a base unless the target has one."""
    return os.path.splitext(ref if based else ref.rpartition("@")[2])[0]  # noqa: PTH122 - a ref is no path of the system


def _by_likeness(target: str, refs: Iterable[str]) -> list[str]:
    compare = difflib.SequenceMatcher(b=target, autojunk=False)

    def likeness(ref: str) -> tuple[float, int, str]:
        compare.set_seq1(ref[:PARTS_FROM])
        return -compare.ratio(), len(ref), ref

    return sorted(_likely(target, refs), key=likeness)


def _similar(target: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to one, nearest first."""
    return difflib.get_close_matches(target, _likely(target, names), n=NEAR, cutoff=NEAR_ENOUGH)


def _likely(target: str, names: Iterable[str]) -> list[str]:
    parts = {target[at : at + PART] for at in range(len(target) - PART + 1)}
    return heapq.nlargest(NEAR_AMONG, names, key=lambda name: (sum(part in name for part in parts), -len(name)))
