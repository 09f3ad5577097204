"""Which of very many texts are nearly the same: word shingles, MinHash in bands, then a count of what two share.

A. Broder, "On the resemblance and containment of documents" (1997), has both: minima of permuted hashes, of which as
large a share is equal in two texts as they share shingles, and the smallest hashes of a text as a sample of it.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

SHINGLE_WORDS = 3
"""Words of a shingle: one changed word changes three of them."""

LEAST_WORDS = 30
"""Words from which a text is compared; in a shorter one a date or a name is a tenth."""

MOST_WORDS = 100_000
"""Words of a text that are looked at, from its beginning: a book has as many."""

SAMPLE = 1024
"""Shingles of a text that are kept, those of the smallest hashes: likeness is then known to 0.01 (standard error)."""

BANDED = 256
"""Of these, the smallest, from which the minima are taken: all of them would take four times as long."""

BANDS, ROWS = 16, 6
"""Minima in so many groups of so many: texts are compared if they share a group. At a likeness of 0.9 a pair is missed
once in 180,000, at 0.5 it is compared in one case of five, at 0.3 in one of a hundred."""

LEADERS = 4
"""Texts that each further one of a group is compared with, so that a group of thousands takes no square of that."""

MOST_COMPARED = 100_000
"""Pairs that are compared, each in 30 µs."""

_WORD = re.compile(rb"[a-z0-9_]+|[\xc2-\xf4][\x80-\xbf]+")
"""An ASCII word; every other character stands for itself, for many languages put no blanks between words."""

_SEED = 20_250_101
"""Of the permutations: any will do, and the same one gives the same answer on every machine."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@struct
class _Sketch:
    """What is kept of a text."""

    sample: NDArray[np.uint64]
    """Hashes of its shingles, ascending, the smallest `SAMPLE`."""
    bands: tuple[bytes, ...]


@struct
class Alike:
    """Two texts that are nearly the same."""

    one: int
    """Number of the earlier text."""
    other: int
    likeness: float
    """Share of the shingles of both that both have, 0 to 1."""


def alike(texts: Iterable[str], least: float) -> tuple[list[Alike], bool]:
    """Find texts that are nearly the same.

    Args:
        texts: any number of them; one is in memory at a time.
        least: share of shingles that two must have in common, 0 to 1; pairs well below 0.9 may be missed.

    Returns:
        Every text that is like an earlier one, once, with the first such; and whether all pairs could be compared.
    """
    sketches = [_sketch(text) for text in texts]
    groups: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, sketch in enumerate(sketches):
        for band, key in enumerate(sketch.bands if sketch else ()):
            groups[band, key].append(number)
    found: dict[int, Alike] = {}
    compared: set[tuple[int, int]] = set()
    for one, other in _candidates(groups.values()):
        if (one, other) in compared or (other in found and found[other].one <= one):
            continue
        if len(compared) >= MOST_COMPARED:
            return sorted(found.values(), key=lambda pair: pair.other), False
        compared.add((one, other))
        share = _likeness(sketches[one], sketches[other])
        if share >= least:
            found[other] = Alike(one, other, share)
    return sorted(found.values(), key=lambda pair: pair.other), True


def _candidates(groups: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    for group in groups:
        for place, other in enumerate(group):
            for one in group[: min(place, LEADERS)]:
                yield one, other


def _likeness(one: _Sketch | None, other: _Sketch | None) -> float:
    if one is None or other is None:
        return 0.0
    # The smallest hashes of both together are a fair sample of all that either has.
    union = np.union1d(one.sample, other.sample)[:SAMPLE]
    shared = np.intersect1d(one.sample, other.sample, assume_unique=True)
    return float(np.isin(union, shared, assume_unique=True).sum() / len(union))


def _sketch(text: str) -> _Sketch | None:
    """Give what is kept of a text; none if it is too short to be compared."""
    words = _WORD.findall(text.casefold().encode("utf-8", "replace"))[:MOST_WORDS]
    if len(words) < LEAST_WORDS:
        return None
    hashes = np.fromiter(map(zlib.crc32, words), np.uint64, len(words))
    shingles = hashes[: len(hashes) - SHINGLE_WORDS + 1].copy()
    for offset in range(1, SHINGLE_WORDS):
        shingles = _mixed(shingles) + hashes[offset : len(hashes) - SHINGLE_WORDS + 1 + offset]
    unique = np.unique(_mixed(shingles))
    sample = unique[:SAMPLE]
    # The hashes are scattered already: an exclusive or and a product order them anew, by their upper bits.
    minima = ((sample[:BANDED, None] ^ _SEEDS[0]) * _SEEDS[1]).min(axis=0)
    return _Sketch(sample, tuple(band.tobytes() for band in minima.reshape(BANDS, ROWS)))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter numbers over 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    values = values + _MIX
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_SEEDS = np.random.default_rng(_SEED).integers(0, 1 << 63, (2, BANDS * ROWS), dtype=np.uint64) | np.uint64(1)
"""Two numbers for each permutation, odd, so that multiplying by one is a permutation."""
