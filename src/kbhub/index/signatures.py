"""Candidate vectors by sign bits in memory; their exact similarity decides.

A chunk takes 64 bytes of bits: the signs of its vector less the mean of all, and of the same after a random rotation,
which makes up for correlated components (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC
2002). Imports numpy, so import it lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import shake_256
from typing import TYPE_CHECKING

import numpy as np

from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Read = Callable[[NDArray[np.int64]], list[tuple[int, bytes]]]

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
    lengths: NDArray[np.int32]
    """Tokens."""
    alive: NDArray[np.bool_]
    chunks: int
    tokens: int

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


LEAST_CANDIDATES, MOST_CANDIDATES, CANDIDATE_SHARE = 1000, 8000, 0.03
"""Vectors whose bits differ least from the query's and that are examined more closely: a share of all, within
bounds."""

LEAST_COMPARED, MOST_COMPARED, COMPARED_SHARE = 250, 600, 0.005
"""Vectors whose exact similarity is computed, over all bases, likewise. Of the 10 nearest (packaged model), .9995 are
among them in 18,823 chunks on the topic of the questions, .997 if these are split into eight bases by topic; for
off-topic questions .985 in 20,000, .977 in 50,000 and .989 in 95,000."""

BITS = 512
"""Bits of the packaged model's vectors; shorter ones carry less information, so proportionally more are compared."""

COMPARED_EACH = 30
"""Fewest vectors compared per base, because bases are told apart by an estimate only."""

ROTATION_SEED = b"kbhub"
"""Arbitrary, but must never change: signatures are packed in indexes."""

BLOCK = 8192
"""Vectors converted to bits at once: some 8 MB of floats."""

DRIFT = 0.2
"""Share of vectors added since the mean was computed above which it is computed again."""

MEANT = 100_000
"""Evenly spread chunks over which the mean is computed."""

SPARE = 16
"""Room for one more chunk per so many: a search after each change would otherwise copy all signatures, 640 MB for 10
million chunks. Memory that is not used is not allocated."""

NARROW = 0.25
"""Share of selected chunks up to which only those are examined, which is slower per chunk."""

_FEW = np.zeros(0, np.float32)

_BITS_OF_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.float32)


@struct
class Signatures:
    """The sign bits of the vectors of a base, by chunk position."""

    bits: NDArray[np.uint64]
    """Shape (words, chunks): scanned one word of all chunks at a time."""
    signed: NDArray[np.bool_]
    """Which chunks have a vector; the bits of others are 0."""
    mean: NDArray[np.float32]
    meant: int

    def differing(
        self, asked: NDArray[np.uint64], reachable: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.uint16]]:
        """Count the bits in which chunks differ from a query's: positions (None for all), and counts.

        Chunks outside the mask have one more than possible.
        """
        size = int(np.count_nonzero(reachable))
        if size < NARROW * len(reachable):
            positions = np.flatnonzero(reachable)
            return positions, _differing(_at(self.bits, positions), asked)
        counts = _differing(self.bits, asked)
        if size < len(reachable):
            counts[~reachable] = 64 * len(asked) + 1
        return None, counts

    def estimated(self, vector: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Estimate the similarity of the chunks at some positions to a unit vector, from its components and their bits.

        Bits are weighted by the distance of the component from 0 (Gordo, Perronnin, Gong, Lazebnik: "Asymmetric
        Distances for Binary Embeddings", TPAMI 2014). A chunk's deviation from the mean is assumed to have the average
        length of a normal distribution in each dimension.
        """
        size = len(vector)
        numbers = np.zeros(64 * len(self.bits), np.float32)
        numbers[: 2 * size] = np.concatenate([vector, vector @ _rotation(size)])
        # What each byte value adds, so that each byte is a lookup.
        adds = (numbers.reshape(-1, 8) @ _BITS_OF_BYTES).ravel()
        raw = np.ascontiguousarray(_at(self.bits, positions).T).view(np.uint8)
        agreeing = adds.take(raw + np.arange(0, len(adds), 256)) @ np.ones(raw.shape[1], np.float32)
        beyond = np.sqrt(max(0.0, 1 - float(self.mean @ self.mean)) * 2 / (np.pi * size))
        # The signed sum is twice the sum of the positive signs, minus all; there are two signs per component.
        signed: NDArray[np.float32] = (agreeing - numbers.sum() / 2) * np.float32(beyond)
        return signed + vector @ self.mean


def likely(
    asked: Sequence[tuple[Signatures, NDArray[np.bool_]]], vector: NDArray[np.float32], least: int
) -> list[NDArray[np.int64]]:
    """Return the positions of the chunks likely nearest to a unit vector, in order per base; at least so many in all.

    Each base comes with its signatures and a mask of the chunks that may be found.
    """
    reachable = [signatures.signed & allowed for signatures, allowed in asked]
    total = sum(map(np.count_nonzero, reachable))
    more = max(1.0, BITS / (2 * len(vector)))
    limit = max(least, int(more * min(MOST_COMPARED, max(LEAST_COMPARED, COMPARED_SHARE * total))))
    if total <= limit:
        return [np.flatnonzero(mask) for mask in reachable]
    candidates = max(limit, int(more * min(MOST_CANDIDATES, max(LEAST_CANDIDATES, CANDIDATE_SHARE * total))))
    if total > candidates:
        # Not centred: what all chunks of a base share distinguishes them from other bases.
        bits = _bits(vector[None], np.zeros_like(vector))[:, 0]
        differing = [signatures.differing(bits, mask) for (signatures, _), mask in zip(asked, reachable, strict=True)]
        most = _within([counts for _, counts in differing], candidates)
        each = [_within([counts], COMPARED_EACH) if len(asked) > 1 else 0 for _, counts in differing]
        # The limit keeps a base with fewer chunks from including unreachable ones.
        least_near = [min(max(most, own), 64 * len(bits)) for own in each]
        nearest = [np.flatnonzero(counts <= own) for (_, counts), own in zip(differing, least_near, strict=True)]
        inside = [near if at is None else at[near] for (at, _), near in zip(differing, nearest, strict=True)]
    else:
        inside = [np.flatnonzero(mask) for mask in reachable]
    estimated = [
        signatures.estimated(vector, at) if len(at) else _FEW for (signatures, _), at in zip(asked, inside, strict=True)
    ]
    lowest = _largest(np.concatenate(estimated), limit)
    return [
        at[values >= min(lowest, _largest(values, COMPARED_EACH))] for at, values in zip(inside, estimated, strict=True)
    ]


def sign(before: Signatures | None, ids: NDArray[np.int64], read: Read) -> Signatures:
    """Update signatures of an earlier state, with the same embedder and positions, to the vectors of a base.

    `read` returns (id, int8 vector) of those chunks that have one; a chunk's vector never changes.
    """
    signed, new = np.zeros(len(ids), np.bool_), list[tuple[int, bytes]]()
    if before is not None:
        signed[: len(before.signed)] = before.signed
        new = read(ids[~signed])
        if not new and len(before.signed) == len(ids):
            return before
    if before is not None and int(before.signed.sum()) + len(new) <= (1 + DRIFT) * before.meant:
        bits, mean, parts = enlarged(before.bits, len(ids)), before.mean, iter([new])
    else:
        before = None
        step = max(1, len(ids) // MEANT)
        some = [blob for _, blob in read(ids[::step].copy()) or read(ids)]
        total = np.zeros(len(some[0]) if some else 1, np.float64)
        for start in range(0, len(some), BLOCK):
            total += _unit(some[start : start + BLOCK]).sum(axis=0, dtype=np.float64)
        mean = (total / max(len(some), 1)).astype(np.float32)
        bits, signed = np.zeros((-(-2 * len(mean) // 64), len(ids)), np.uint64), np.zeros(len(ids), np.bool_)
        parts = (read(ids[start : start + BLOCK]) for start in range(0, len(ids), BLOCK))
    for vectors in filter(None, parts):
        positions = np.searchsorted(ids, np.array([chunk for chunk, _ in vectors], np.int64))
        bits[:, positions] = bits_of([blob for _, blob in vectors], mean)
        signed[positions] = True
    return Signatures(bits, signed, mean, before.meant if before else int(signed.sum()))


def roomy(words: int, size: int) -> NDArray[np.uint64]:
    """Return zeroed signatures of shape (words, chunks) that `enlarged` can enlarge without copying them."""
    return np.zeros((words, size + size // SPARE), np.uint64)[:, :size]


def enlarged(bits: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Return signatures, shape (words, chunks), followed by zeros up to a size; in the same memory if there is room."""
    whole = bits.base
    if isinstance(whole, np.ndarray) and whole.ndim == 2 and whole.shape[1] >= size:
        return whole[:, :size]
    more = roomy(len(bits), size)
    more[:, : bits.shape[1]] = bits
    return more


def _at(bits: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    # Word by word, as numpy would first copy all of an array with room at the end of its rows.
    return np.stack([word.take(positions) for word in bits])


def _differing(bits: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.uint16]:
    counts = np.zeros(bits.shape[1], np.uint16)
    for words, word in zip(bits, query, strict=False):  # without any vector, there are fewer words
        counts += np.bitwise_count(words ^ word)
    return counts


def _within(differing: Sequence[NDArray[np.uint16]], wanted: int) -> int:
    """Return the number of differing bits within which at least `wanted` chunks lie, if there are as many."""
    size = 1 + max(int(counts.max(initial=0)) for counts in differing)
    counted = np.sum([np.bincount(counts, minlength=size) for counts in differing], axis=0)
    return int(np.searchsorted(np.cumsum(counted), wanted))


def _largest(values: NDArray[np.float32], wanted: int) -> np.float32:
    """Return the value that `wanted` values reach, if there are as many."""
    if len(values) <= wanted:
        return np.float32(-np.inf)
    least: np.float32 = np.partition(values, len(values) - wanted)[len(values) - wanted]
    return least


def bits_of(blobs: Sequence[bytes], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return the signatures of int8 vectors, shape (words, vectors), given the mean of all vectors of the base."""
    parts = [_bits(_unit(blobs[start : start + BLOCK]), mean) for start in range(0, len(blobs), BLOCK)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _unit(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    stored = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    length = np.linalg.norm(stored, axis=1, keepdims=True).astype(np.float32)
    return (stored / np.where(length, length, 1)).astype(np.float32, copy=False)


def _bits(vectors: NDArray[np.float32], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return the signs of unit vectors of shape (n, dimensions) as (words, n)."""
    centred = vectors - mean
    signs = np.concatenate([centred > 0, centred @ _rotation(len(mean)) > 0], axis=1)
    packed = np.packbits(signs, axis=1)
    padded = np.zeros((len(vectors), 8 * -(-packed.shape[1] // 8)), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64).T


@lru_cache(maxsize=2)
def _rotation(dimensions: int) -> NDArray[np.float32]:
    """Return random signs applied twice, then a cosine transform, made in 5 ms instead of the 36 of a random matrix.

    Ailon, Chazelle: "The Fast Johnson-Lindenstrauss Transform", SIAM J. Comput. 39, 2009.
    """
    size = -(-dimensions // 8)
    chance = np.frombuffer(shake_256(ROTATION_SEED).digest(2 * size), np.uint8).reshape(2, size)
    at = np.arange(dimensions)
    cosines = np.cos(np.pi / dimensions * np.outer(at + 0.5, at)) * np.sqrt(2 / dimensions)
    cosines[:, 0] /= np.sqrt(2)
    first, second = (signs[:dimensions, None] * cosines for signs in np.unpackbits(chance, axis=1) * 2.0 - 1)
    rotation: NDArray[np.float32] = (first @ second).astype(np.float32)
    return rotation
