"""What was probably meant by a ref that leads nowhere."""

from __future__ import annotations

import difflib
import heapq
import os.path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NEAR = 3
"""Refs suggested for one that is not found."""

NEAR_ENOUGH = 0.6
"""Similarity (0 to 1, difflib's ratio) from which a ref is suggested."""

NEAR_AMONG = 200
"""Refs that are compared letter by letter, which takes 0.1 ms each: those that share most parts with what was asked."""

PART = 3
"""Letters of such a part."""

PARTS_FROM = 200
"""Letters of what was asked that are looked at."""


def closest(target: str, refs: Iterable[str], names: Mapping[str, Sequence[str]]) -> list[str]:
    """Give the refs that were most probably meant, likeliest first.

    A document whose file has the very name comes before any that only looks like it, whatever folders it is in.

    Args:
        target: what was asked for.
        refs: all that there are.
        names: title or alias, case-folded → refs of the documents called so.
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
    """Give the name of a ref's file without folder, base, ending and case."""
    name = ref.rpartition("/")[2].rpartition("@")[2].casefold()
    return os.path.splitext(name)[0] or name  # noqa: PTH122 - a ref is no path of the system


def _spelling(ref: str, *, based: bool) -> str:
    """Give what of a ref is compared: its ending, and a base that was not asked for, make nothing alike."""
    return os.path.splitext(ref if based else ref.rpartition("@")[2])[0]  # noqa: PTH122 - a ref is no path of the system


def _by_likeness(target: str, refs: Iterable[str]) -> list[str]:
    compare = difflib.SequenceMatcher(b=target, autojunk=False)

    def likeness(ref: str) -> tuple[float, int, str]:
        compare.set_seq1(ref[:PARTS_FROM])
        return -compare.ratio(), len(ref), ref

    return sorted(_likely(target, refs), key=likeness)


def _similar(target: str, names: Iterable[str]) -> list[str]:
    """Give the names most like one, nearest first."""
    return difflib.get_close_matches(target, _likely(target, names), n=NEAR, cutoff=NEAR_ENOUGH)


def _likely(target: str, names: Iterable[str]) -> list[str]:
    parts = {target[at : at + PART] for at in range(len(target) - PART + 1)}
    return heapq.nlargest(NEAR_AMONG, names, key=lambda name: (sum(part in name for part in parts), -len(name)))
