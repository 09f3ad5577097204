"""In-memory columns with one value per chunk, and a compact encoding of ascending numbers.

The position of a chunk is its place among all chunks since the index was last packed, ordered by id. Ids grow and are
never reused, so new chunks are appended and deleted ones only marked. Imports numpy, so import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

MORE = 255
"""Byte value that means the number continues in the next byte."""


@struct
class Columns:
    """Id, document and length of every chunk: 13 bytes each, and 4 more if ids exceed 31 bits."""

    pack: int
    """Number of the packing that positions refer to; changes with each packing and file."""
    packed: int
    """Number of packed chunks, which have the first positions."""
    ids: NDArray[np.signedinteger]
    """Ascending."""
    documents: NDArray[np.int32]
    """Ids of the documents."""
    lengths: NDArray[np.int32]
    """Tokens."""
    alive: NDArray[np.bool_]
    """Whether the chunk still exists."""
    chunks: int
    """Number of existing chunks."""
    tokens: int
    """Tokens in those."""

    @property
    def last_packed(self) -> int:
        """Id of the last packed chunk; -1 if there is none."""
        return int(self.ids[self.packed - 1]) if self.packed else -1

    def goes_on_from(self, other: Columns) -> bool:
        """Return whether all chunks of other columns have the same positions here."""
        size = len(other.ids)
        return self.pack == other.pack and size <= len(self.ids) and np.array_equal(self.ids[:size], other.ids)

    def selected(self, chunks: Sequence[int]) -> NDArray[np.bool_]:
        """Return a mask of the positions of existing chunks, by ascending ids; an `array` is fastest."""
        mask = np.zeros(len(self.ids), np.bool_)
        mask[self.positions(np.asarray(chunks, np.int64))] = True
        return mask

    def positions(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of existing chunks, by ids in any order; an unknown id raises ValueError."""
        wanted = np.asarray(ids, np.int64)
        if not len(wanted):
            return wanted
        if not len(self.ids) or wanted.min() < self.ids[0] or wanted.max() > self.ids[-1]:
            raise ValueError("it names chunks that it does not have")
        if self.ids[-1] - self.ids[0] == len(self.ids) - 1:  # nothing deleted: a third of the time
            return wanted - int(self.ids[0])
        # With another dtype, the whole column would be copied first.
        positions: NDArray[np.int64] = np.searchsorted(self.ids, wanted.astype(self.ids.dtype, copy=False))
        if not np.array_equal(self.ids[positions], wanted):
            raise ValueError("it names chunks that it does not have")
        return positions


def made(
    pack: int,
    packed: int,
    ids: NDArray[np.signedinteger],
    documents: NDArray[np.int32],
    lengths: NDArray[np.int32],
    gone: Sequence[int] = (),
) -> Columns:
    """Return columns of chunks with ascending ids, of which those `gone` do not exist any more; see `Columns`."""
    alive = ~np.isin(ids, np.array(gone, np.int64)) if gone else np.ones(len(ids), np.bool_)
    narrow: NDArray[np.signedinteger] = ids
    if not len(ids) or ids[-1] <= np.iinfo(np.int32).max:
        narrow = ids.astype(np.int32)
    return Columns(pack, packed, narrow, documents, lengths, alive, int(alive.sum()), int(lengths[alive].sum()))


def written(numbers: NDArray[np.signedinteger]) -> bytes:
    """Encode ascending, non-negative numbers, mostly with one byte each."""
    steps = numbers.copy()
    steps[1:] -= numbers[:-1]  # np.diff takes five times as long for a few hundred
    return steps.astype(np.uint8).tobytes() if steps.max(initial=0) < MORE else encoded(steps)[0]


def encoded(steps: NDArray[np.signedinteger]) -> tuple[bytes, NDArray[np.int64]]:
    """Encode non-negative steps between ascending numbers; return the bytes, and the end of each step in them."""
    more = steps // MORE
    ends: NDArray[np.int64] = np.cumsum(more + 1)
    raw = np.full(int(ends[-1]) if len(ends) else 0, MORE, np.uint8)
    raw[ends - 1] = steps % MORE
    return raw.tobytes(), ends


def growing(raw: bytes) -> NDArray[np.int64]:
    """Decode the result of `written`."""
    steps = np.frombuffer(raw, np.uint8)
    numbers: NDArray[np.int64] = np.cumsum(steps, dtype=np.int64)[steps != MORE]
    return numbers


@struct
class Postings:
    """The chunks of one index in which a term occurs."""

    positions: NDArray[np.int64]
    """Positions of the chunks with the term, ascending; see `columns`."""
    counts: NDArray[np.float64]
    """Occurrences in each, weighted by the column they are in."""

    def __len__(self) -> int:
        return len(self.positions)
