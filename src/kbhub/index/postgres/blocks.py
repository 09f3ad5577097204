"""Postings as a shared base stores them: for each term, blocks of chunks with their weights and places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.index.columns import growing, written
from kbhub.index.query import tokens
from kbhub.index.ranking import FTS_WEIGHTS
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

BLOCK = 512
"""Chunks of a block: `facts/postgres.md` measured a fetch of 9,500 postings at 1.2 ms with it."""

LONGEST_TERM = 500
"""Characters of a term that are stored and looked up: keys have 2,700 bytes at most, and words end long before."""

APART = 4
"""Twice the distance of the last place of a column from the first of the next, so that no phrase spans both."""

CHUNK_SHIFT = 32
"""Bits for places below the chunk in the number that stands for an occurrence."""

_HEAVY = tuple(int(weight) - 1 for weight in FTS_WEIGHTS)


@struct
class Block:
    """Where a term occurs, for some of the chunks.

    `chunks`, `counts` and `places` are steps in the form of `columns.written`: from `first` to each chunk; the weighted
    occurrences of each chunk; the places of each occurrence, which are twice the position in the chunk, plus one where
    an occurrence counts twice.
    """

    first: int
    last: int
    chunks: bytes
    counts: bytes
    places: bytes | None = None

    def ids(self) -> NDArray[np.int64]:
        """Return the chunks, ascending."""
        return self.first + growing(self.chunks)

    def weights(self) -> NDArray[np.float64]:
        """Return the weighted occurrences in each chunk."""
        return np.diff(growing(self.counts), prepend=0).astype(np.float64)

    def occurrences(self) -> NDArray[np.int64]:
        """Return each occurrence as a number: the chunk above `CHUNK_SHIFT` bits of its place; ascending."""
        places = np.diff(growing(self.places or b""), prepend=0)
        reached = np.cumsum(1 + (places & 1))
        at = np.searchsorted(growing(self.counts), reached)
        return (self.ids()[at] << CHUNK_SHIFT) | places


def occurrences(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Return the occurrences in all blocks of a term, ascending; see `Block.occurrences`."""
    return np.concatenate([np.zeros(0, np.int64), *(block.occurrences() for block in blocks)])


def united(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the occurrences of any of several terms, ascending."""
    return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def phrase(parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return where terms stand one after the other.

    Args:
        parts: the occurrences of each term.

    Returns:
        The chunks, ascending, and the weighted occurrences of the phrase in each.
    """
    begins = parts[0]
    for number, part in enumerate(parts[1:], 1):
        begins = np.intersect1d(begins, part - 2 * number, assume_unique=True)
    chunks, inverse = np.unique(begins >> CHUNK_SHIFT, return_inverse=True)
    return chunks, np.bincount(inverse, 1 + (begins & 1), len(chunks)).astype(np.float64)


class Inverter:
    """Collects the terms of chunks, to be written as blocks."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """Term → its number, in the order of appearance."""
        self._terms: list[NDArray[np.int32]] = []
        self._at: list[NDArray[np.int64]] = []
        self.size = 0
        """Number of occurrences."""
        self._split: dict[str, list[str]] = {}
        """Stems of texts that many chunks share: titles, paths and tags."""

    def add(self, chunk: int, searched: Sequence[str]) -> int:
        """Add a chunk; return the number of its tokens.

        Args:
            chunk: its id, larger than those before.
            searched: its texts by column.
        """
        numbers = self._numbers
        terms: list[int] = []
        places: list[NDArray[np.int64]] = []
        start = 0
        for column, text in enumerate(searched):
            stems = self._stems(text, shared=column != len(searched) - 1)
            terms += [numbers.setdefault(stem, len(numbers)) for stem in stems]
            places.append(np.arange(start, start + 2 * len(stems), 2) + _HEAVY[column])
            start += 2 * len(stems) + APART
        self._terms.append(np.array(terms, np.int32))
        self._at.append((np.int64(chunk) << CHUNK_SHIFT) | np.concatenate(places))
        self.size += len(terms)
        return len(terms)

    def _stems(self, text: str, *, shared: bool) -> list[str]:
        if not text:
            return []
        if shared and (known := self._split.get(text)) is not None:
            return known
        stems = [stem[:LONGEST_TERM] for _, _, stem in tokens(text.encode("utf-8", "replace"))]
        if shared:
            if len(self._split) > BLOCK:
                self._split.clear()
            self._split[text] = stems
        return stems

    def terms(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield each term with its occurrences (see `Block.occurrences`)."""
        if not self._terms:
            return
        order_by = np.concatenate(self._terms)
        order = np.argsort(order_by, kind="stable")
        every = np.concatenate(self._at)[order]
        ends = np.cumsum(np.bincount(order_by, minlength=len(self._numbers)))
        start = 0
        for term, end in zip(self._numbers, ends.tolist(), strict=True):
            yield term, every[start:end]
            start = end


def blocks_of(every: NDArray[np.int64]) -> Iterator[tuple[int, int, int, bytes, bytes, bytes]]:
    """Yield (first, last, size, chunks, counts, places) of the blocks of a term's occurrences.

    Args:
        every: see `Block.occurrences`.
    """
    if not len(every):
        return
    chunks, places = every >> CHUNK_SHIFT, every & ((1 << CHUNK_SHIFT) - 1)
    begins = np.flatnonzero(np.diff(chunks, prepend=-1))
    counts = np.add.reduceat(1 + (places & 1), begins)
    ids = chunks[begins]
    for start in range(0, len(begins), BLOCK):
        stop = min(start + BLOCK, len(begins))
        until = begins[stop] if stop < len(begins) else len(every)
        mine = ids[start:stop]
        yield (
            *(int(mine[0]), int(mine[-1]), stop - start),
            written(mine - mine[0]),
            written(np.cumsum(counts[start:stop])),
            written(np.cumsum(places[begins[start] : until])),
        )
