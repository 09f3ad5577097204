"""Which vectors may be near: sign bits in memory choose candidates, whose exact similarity decides.

A chunk takes 64 bytes of bits. The bits are the signs of a vector, less the mean of all, and of the
same after a random rotation, which makes up for components that say the same (Charikar, "Similarity Estimation
Techniques from Rounding Algorithms", STOC 2002). Imported when a first vector is wanted, for it imports numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Read = Callable[[NDArray[np.int64]], list[tuple[int, bytes]]]

LEAST_CANDIDATES, MOST_CANDIDATES = 1000, 2000
"""Vectors whose bits differ least from those of the query's vector, and are compared with that itself."""

CANDIDATE_SHARE = 0.1
"""Share of all vectors that are candidates, between the two bounds."""

COMPARED = 600
"""Vectors whose exact similarity is computed. Of the 10 nearest of 18,823 chunks of real text (400 questions, the
packaged model), the likeliest 400 have .9985, 600 and 1,000 have .9992; the 400 nearest by bits alone .9907."""

ROTATION_SEED = 7
"""Any number, but the same ever after: signatures are packed in indexes."""

BLOCK = 8192
"""Vectors made into bits at a time: some 8 MB of floats."""

DRIFT = 0.2
"""Share of vectors that are new since the mean was taken, above which it is taken anew."""

MEANT = 100_000
"""Chunks, evenly spread, whose vectors the mean is taken over."""

NARROW = 0.25
"""Share of chunks up to which only those that may be found are looked at, which takes longer for each."""

NEVER = np.uint16(65_535)
"""A difference that no vector has."""


_BITS_OF_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.float32)
"""Shape (8, 256)."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """The sign bits of the vectors of a base, at the positions of their chunks."""

    bits: NDArray[np.uint64]
    """Shape (words, chunks): scanned a word of all chunks at a time."""
    signed: NDArray[np.bool_]
    """Which chunks have a vector; the bits of others are 0."""
    mean: NDArray[np.float32]
    meant: int
    """Vectors that the mean stands for."""

    def nearest(self, vector: NDArray[np.float32], least: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Give the positions of the chunks that are likely nearest to a vector, in order.

        Args:
            vector: shape (dimensions,), of length 1.
            least: how many at least, if there are as many.
            allowed: which chunks may be found.
        """
        open_to = self.signed & allowed
        inside: NDArray[np.int64] = np.flatnonzero(open_to)
        wanted = max(least, min(MOST_CANDIDATES, max(LEAST_CANDIDATES, int(CANDIDATE_SHARE * len(inside)))))
        if wanted >= len(inside):
            return inside
        mine = _bits(vector[None], self.mean)[:, 0]
        likely = max(least, COMPARED)
        few = len(inside) < NARROW * len(open_to)
        differing = np.zeros(len(inside) if few else len(open_to), np.uint16)
        for words, word in zip(self.bits, mine, strict=True):
            differing += np.bitwise_count((words[inside] if few else words) ^ word)
        if few or len(inside) == len(open_to):
            return self._likeliest(inside[_smallest(differing, wanted)], vector, likely)
        differing[~open_to] = NEVER
        return self._likeliest(_smallest(differing, wanted), vector, likely)

    def _likeliest(self, positions: NDArray[np.int64], vector: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
        """Give the positions whose bits agree most with the numbers that the bits of a vector are made of.

        A bit counts as much as the number is far from 0, which tells more than how many bits differ (Gordo, Perronnin,
        Gong, Lazebnik: "Asymmetric Distances for Binary Embeddings", TPAMI 2014).
        """
        if len(positions) <= limit:
            return positions
        numbers = np.zeros(64 * len(self.bits), np.float32)
        centred = vector - self.mean
        numbers[: 2 * len(centred)] = np.concatenate([centred, centred @ _rotation(len(centred))])
        # What each byte can add, so that a byte is a look-up.
        adds = (numbers.reshape(-1, 8) @ _BITS_OF_BYTES).ravel()
        raw = np.ascontiguousarray(self.bits[:, positions].T).view(np.uint8)
        agreeing = adds.take(raw + np.arange(0, len(adds), 256)) @ np.ones(raw.shape[1], np.float32)
        chosen: NDArray[np.int64] = np.sort(positions[np.argpartition(-agreeing, limit)[:limit]])
        return chosen


def sign(before: Signatures | None, ids: NDArray[np.int64], read: Read) -> Signatures:
    """Bring signatures in step with the vectors of a base.

    Args:
        before: those of an earlier state, of vectors of the same embedder and with the same positions; none if there
            is none.
        ids: of the chunks at each position, ascending.
        read: gives (id, int8 vector) of those of some chunks that have one; a chunk's vector never changes.
    """
    if before is not None:
        there = len(before.signed)
        signed = np.zeros(len(ids), np.bool_)
        signed[:there] = before.signed
        found = read(ids[~signed])
        if not found and there == len(ids):
            return before
        if int(before.signed.sum()) + len(found) <= (1 + DRIFT) * before.meant:
            bits = np.zeros((len(before.bits), len(ids)), np.uint64)
            bits[:, :there] = before.bits
            _fill(bits, signed, ids, found, before.mean)
            return Signatures(bits, signed, before.mean, before.meant)
    step = max(1, len(ids) // MEANT)
    mean = _mean([blob for _, blob in read(ids[::step].copy()) or read(ids)])
    bits, signed = np.zeros((_words(len(mean)), len(ids)), np.uint64), np.zeros(len(ids), np.bool_)
    for start in range(0, len(ids), BLOCK):
        _fill(bits, signed, ids, read(ids[start : start + BLOCK]), mean)
    return Signatures(bits, signed, mean, int(signed.sum()))


def _fill(
    bits: NDArray[np.uint64],
    signed: NDArray[np.bool_],
    ids: NDArray[np.int64],
    found: Sequence[tuple[int, bytes]],
    mean: NDArray[np.float32],
) -> None:
    if not found:
        return
    positions = np.searchsorted(ids, np.array([chunk for chunk, _ in found], np.int64))
    bits[:, positions] = _blocks([blob for _, blob in found], mean)
    signed[positions] = True


def _smallest(differing: NDArray[np.uint16], wanted: int) -> NDArray[np.int64]:
    """Give where the smallest numbers are, as many as wanted and all that are equal to the last of them."""
    within = np.cumsum(np.bincount(differing))
    chosen: NDArray[np.int64] = np.flatnonzero(differing <= int(np.searchsorted(within, wanted)))
    return chosen


def _mean(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    if not blobs:
        return np.zeros(1, np.float32)
    total = np.zeros(len(blobs[0]), np.float64)
    for start in range(0, len(blobs), BLOCK):
        total += _unit(blobs[start : start + BLOCK]).sum(axis=0, dtype=np.float64)
    mean: NDArray[np.float32] = (total / len(blobs)).astype(np.float32)
    return mean


def _blocks(blobs: Sequence[bytes], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
    if not blobs:
        return np.zeros((_words(len(mean)), 0), np.uint64)
    parts = [_bits(_unit(blobs[start : start + BLOCK]), mean) for start in range(0, len(blobs), BLOCK)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _unit(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    stored = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    length = np.linalg.norm(stored, axis=1, keepdims=True).astype(np.float32)
    unit: NDArray[np.float32] = (stored / np.where(length, length, 1)).astype(np.float32, copy=False)
    return unit


def _bits(vectors: NDArray[np.float32], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Give the signs of unit vectors, shape (n, dimensions), as (words, n)."""
    centred = vectors - mean
    signs = np.concatenate([centred > 0, centred @ _rotation(len(mean)) > 0], axis=1)
    packed = np.packbits(signs, axis=1)
    padded = np.zeros((len(vectors), 8 * _words(len(mean))), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64).T


def _words(dimensions: int) -> int:
    return -(-2 * dimensions // 64)


@lru_cache(maxsize=2)
def _rotation(dimensions: int) -> NDArray[np.float32]:
    random = np.random.default_rng(ROTATION_SEED)
    rotation: NDArray[np.float32] = np.linalg.qr(random.normal(size=(dimensions, dimensions)))[0].astype(np.float32)
    return rotation
