"""Documents with the same content or nearly the same text, within and across bases.

Near-duplicates among very many texts are found by word shingles, MinHash bands and a sampled comparison, both from
A. Broder, "On the resemblance and containment of documents" (1997): of the minima of permuted hashes, two texts share
the same proportion as of their shingles, and the smallest hashes of a text are a fair sample of it. Imports numpy.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kbhub.editing.findings import AuditRun, Found, Material
from kbhub.index.catalogue import bodies
from kbhub.index.references import are_versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHINGLE_WORDS = 3
"""Words of a shingle: one changed word changes three shingles."""

LEAST_WORDS = 30
"""Minimum words of a text; in a shorter one, a date or a name is a tenth."""

MOST_WORDS = 100_000
"""Limit of words per text, from its beginning: the length of a book."""

SAMPLE = 1024
"""Shingles kept per text, those with the smallest hashes: the standard error of likeness is then 0.01."""

BANDED = 256
"""The smallest of the sample, from which minima are taken; using all would take four times as long."""

BANDS, ROWS = 16, 6
"""Number of bands and minima per band: texts are compared if they share a band. At a likeness of 0.9 a pair is missed
once in 180,000, at 0.5 it is compared in one case of five, at 0.3 in one of a hundred.
"""

LEADERS = 4
"""Earlier texts of a group that each text is compared with, which avoids quadratic time."""

MOST_COMPARED = 100_000
"""Limit of pairs that are compared, at 30 µs each."""

_WORD = re.compile(rb"[a-z0-9_]+|[\xc2-\xf4][\x80-\xbf]+")
"""An ASCII word; every other character counts as a word, as many languages have no spaces between words."""

_SEED = 20_250_101
"""Seed of the permutations: arbitrary, but fixed, so that results are reproducible."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


def alike(texts: Iterable[str], least: float) -> tuple[dict[int, tuple[int, float]], bool]:
    """Pair each text that resembles an earlier one with the first such; return also if all pairs could be compared.

    The texts are consumed one at a time. `least` is the minimum share of common shingles, 0 to 1; pairs well below 0.9
    may be missed. Returns index of a text → index of the earlier one, and the share of all their shingles that both
    have, in order.
    """
    samples: dict[int, NDArray[np.uint64]] = {}
    groups: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        if (sketch := _sketch(text)) is not None:
            samples[number], bands = sketch
            for band, key in enumerate(bands):
                groups[band, key].append(number)
    candidates = (
        (first, second)
        for group in groups.values()
        for place, second in enumerate(group)
        for first in group[: min(place, LEADERS)]
    )
    pairs: dict[int, tuple[int, float]] = {}
    compared: set[tuple[int, int]] = set()
    complete = True
    for first, second in candidates:
        if (first, second) in compared or (second in pairs and pairs[second][0] <= first):
            continue
        if len(compared) >= MOST_COMPARED:
            complete = False
            break
        compared.add((first, second))
        # The smallest hashes of the union are a fair sample of the union.
        one, other = samples[first], samples[second]
        union = np.union1d(one, other)[:SAMPLE]
        shared = np.intersect1d(one, other, assume_unique=True)
        share = float(np.isin(union, shared, assume_unique=True).sum() / len(union))
        if share >= least:
            pairs[second] = first, share
    return dict(sorted(pairs.items())), complete


def _sketch(text: str) -> tuple[NDArray[np.uint64], list[bytes]] | None:
    """Return the `SAMPLE` smallest hashes of a text's shingles, ascending, and its bands; None if it is too short."""
    words = _WORD.findall(text.casefold().encode("utf-8", "replace"))[:MOST_WORDS]
    if len(words) < LEAST_WORDS:
        return None
    hashes = np.fromiter(map(zlib.crc32, words), np.uint64, len(words))
    shingles = hashes[: len(hashes) - SHINGLE_WORDS + 1].copy()
    for offset in range(1, SHINGLE_WORDS):
        shingles = _mixed(shingles) + hashes[offset : len(hashes) - SHINGLE_WORDS + 1 + offset]
    unique = np.unique(_mixed(shingles))
    sample = unique[:SAMPLE]
    # The hashes are well mixed, so an XOR and a product are enough to permute them.
    minima = ((sample[:BANDED, None] ^ _SEEDS[0]) * _SEEDS[1]).min(axis=0)
    return sample, [band.tobytes() for band in minima.reshape(BANDS, ROWS)]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter numbers over 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    values = values + _MIX
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_SEEDS = np.random.default_rng(_SEED).integers(0, 1 << 63, (2, BANDS * ROWS), dtype=np.uint64) | np.uint64(1)
"""An XOR mask and a factor for each permutation; odd factors make the product a permutation."""

NEARLY = 0.9
"""Share of common word shingles from which two documents count as nearly the same."""

_REMEDY = "Keep one of them: merge the differences, and update the links to the other."


def resembling(run: AuditRun) -> Iterator[Found]:
    """Yield the documents that resemble an earlier one, and note whether not all were compared.

    The order of the bases matters: of two equal documents, the first is the one to keep.
    """
    first: dict[bytes, tuple[Material, str]] = {}
    distinct: list[tuple[Material, str]] = []
    seen: set[str] = set()
    for material in run.audited:
        for path in material.written():
            real = os.path.join(material.base.path, path)  # noqa: PTH118 - thousands of them
            row = material.documents[path]
            if real in seen:  # one base is inside the other
                continue
            seen.add(real)
            if row.hash not in first:
                first[row.hash] = material, path
                distinct.append((material, path))
            elif row.size:
                of, other = first[row.hash]
                if of is material and are_versions(path, other):
                    continue
                if os.path.realpath(real) != os.path.realpath(of.base.path / other):  # a link to it is no copy
                    yield _found(material, path, (of, other), "The content is")
    pairs, complete = alike(_texts(distinct), NEARLY)
    for at, (earlier, likeness) in pairs.items():
        (of, one), (material, path) = distinct[earlier], distinct[at]
        if of is not material or not are_versions(one, path):
            yield _found(material, path, (of, one), f"The text is {likeness:.0%}")
    if not complete:
        run.notes.append("Too many documents are similar to each other; not all of them were compared.")


def _texts(documents: Sequence[tuple[Material, str]]) -> Iterator[str]:
    """Yield the text of documents, base by base, without front matter."""
    for _, group in groupby(documents, key=lambda one: id(one[0])):
        (material, *_), paths = zip(*group, strict=True)
        with material.hub.index(material.base).snapshot() as index:
            yield from (text for _, text in bodies(index, paths))


def _found(material: Material, path: str, other: tuple[Material, str], how: str) -> Found:
    ref = other[0].ref(other[1])
    return Found(material, path, f"{how} the same as in {ref!r}.", _REMEDY, others=(ref,))
