"""Rankings as columns, and the order of chunks. Pure arithmetic, with numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from kbhub.ranking import Key, Place

    Places = Callable[[Sequence[Key]], Mapping[Key, Place]]
    """Gives where chunks stand."""

CHUNK_BITS = 44
"""Bits of a number that are a chunk's id; those above are its base. An id is never used again, and 2^44 suffice."""

TIED = 400
"""Chunks that are as good as the last of the best which are kept beside them; what decides is their place."""

NO_CHUNKS = np.zeros(0, np.int64)


@struct
class Ranking:
    """Chunks that a signal found, best first, a column each."""

    chunks: NDArray[np.int64]
    """Each with its base in one number; see `numbered`."""
    documents: NDArray[np.signedinteger]
    """Ids of their documents in the base."""
    values: NDArray[np.float64]
    """The signal's own; larger is better."""

    def __len__(self) -> int:
        return len(self.chunks)

    @classmethod
    def of(cls, rows: Iterable[tuple[Key, int, float]]) -> Self:
        """Make a ranking of (chunk, its document, value), best first."""
        rows = list(rows)
        chunks = np.array([numbered(base) + chunk for (base, chunk), _, _ in rows], np.int64)
        documents = np.array([document for _, document, _ in rows], np.int64)
        return cls(chunks, documents, np.array([value for _, _, value in rows], np.float64))

    @classmethod
    def joined(cls, rankings: Sequence[Ranking]) -> Self:
        """Join what was found in several bases, in no order."""
        if not rankings:
            return cls(NO_CHUNKS, NO_CHUNKS, np.zeros(0))
        columns = zip(*((one.chunks, one.documents, one.values) for one in rankings), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def as_keys(self) -> list[Key]:
        """Give the chunks as (number of the base, id in it)."""
        return keys_of(self.chunks)

    def best(self, limit: int, places: Places) -> Ranking:
        """Order chunks that are in no order, and keep the best.

        Args:
            limit: how many to keep.
            places: where chunks stand; asked of those that are equally good.
        """
        kept = np.arange(len(self))
        if len(self) > limit:
            kept = np.flatnonzero(self.values >= np.partition(self.values, -limit)[-limit])
        order = kept[best_first(self.chunks[kept], self.values[kept], places)[:limit]]
        return Ranking(self.chunks[order], self.documents[order], self.values[order])


def numbered(base: int) -> np.int64:
    """Give what makes the ids of chunks of a base numbers that no chunk of another base has, if it is added."""
    return np.int64(base << CHUNK_BITS)


def keys_of(chunks: NDArray[np.int64]) -> list[Key]:
    """Give numbers of chunks as (number of the base, id in it)."""
    bases, ids = chunks >> CHUNK_BITS, chunks & ((1 << CHUNK_BITS) - 1)
    return list(zip(bases.tolist(), ids.tolist(), strict=True))


def union(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the numbers that either has, ascending, each once; `np.union1d` loads masked arrays for it (20 ms)."""
    both = np.sort(np.concatenate((one, other)))
    first = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]


def spread(
    documents: NDArray[np.signedinteger], values: NDArray[np.float64], limit: int, each: int | None
) -> NDArray[np.int64]:
    """Choose the best chunks of a base, so that a long document does not take the places of all others.

    Args:
        documents: of the chunks.
        values: of the chunks; larger is better.
        limit: how many to choose at least, if there are so many.
        each: how many of one document at most; none for any number.

    Returns:
        Their places in these columns, in no order. All that are better than one of them are among them, but those of
        documents that have theirs and, of many that are equally good, more than `TIED`.
    """
    wanted = limit
    while True:
        kept = _largest(values, wanted)
        if each is not None and len(kept) > each:
            kept = kept[first_of_each(documents[kept], values[kept], each)]
        if len(kept) >= limit or wanted >= len(values):
            return kept
        wanted *= 4


def _largest(values: NDArray[np.float64], wanted: int) -> NDArray[np.int64]:
    if len(values) <= wanted:
        return np.arange(len(values))
    last = np.partition(values, -wanted)[-wanted]
    return np.concatenate([np.flatnonzero(values > last), np.flatnonzero(values == last)[:TIED]])


def first_of_each(documents: NDArray[np.signedinteger], values: NDArray[np.float64], each: int) -> NDArray[np.int64]:
    """Give the places of the best chunks of each document.

    Args:
        documents: of the chunks.
        values: of the chunks; larger is better.
        each: how many of one document.
    """
    order = np.lexsort((-values, documents))
    ordered = documents[order]
    here = np.arange(len(order))
    # How far each is behind the first of its document.
    begins = np.maximum.accumulate(np.where(np.concatenate(([True], ordered[1:] != ordered[:-1])), here, 0))
    return order[here - begins < each]


def best_first(chunks: NDArray[np.int64], values: NDArray[np.float64], places: Places) -> NDArray[np.int64]:
    """Give the order of chunks: best first, equal ones by path, line and base, the same however a corpus is cut.

    Args:
        chunks: their numbers.
        values: larger is better.
        places: where chunks stand; asked of those that are equally good.
    """
    order: NDArray[np.int64] = np.argsort(-values, kind="stable")
    ordered = values[order]
    equal = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(equal):
        among = union(equal, equal + 1)
        keys = keys_of(chunks[order[among]])
        where = places(keys)
        rows = zip(ordered[among].tolist(), keys, order[among].tolist(), strict=True)
        order[among] = [row[2] for row in sorted(rows, key=lambda row: (-row[0], where[row[1]]))]
    return order
