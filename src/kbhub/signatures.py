"""Which vectors may be near: sign bits in memory choose candidates, whose exact similarity decides.

A chunk takes 64 bytes of bits. The bits are the signs of a vector, less the mean of all, and of the
same after a random rotation, which makes up for components that say the same (Charikar, "Similarity Estimation
Techniques from Rounding Algorithms", STOC 2002). Imported when a first vector is wanted, for it imports numpy.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import shake_256
from typing import TYPE_CHECKING

import numpy as np

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Read = Callable[[NDArray[np.int64]], list[tuple[int, bytes]]]

LEAST_CANDIDATES, MOST_CANDIDATES, CANDIDATE_SHARE = 1000, 8000, 0.03
"""Vectors whose bits differ least from those of the query's vector, and are looked at more closely: a share of all,
between two bounds."""

LEAST_COMPARED, MOST_COMPARED, COMPARED_SHARE = 250, 600, 0.005
"""Vectors whose exact similarity is computed, of all bases together, in the same way. Of the 10 nearest (the packaged
model), .9995 are among them in 18,823 chunks of what the questions are about, .997 when these are cut into eight bases
that are each about something else; for questions about something else .985 in 20,000, .977 in 50,000 and .989 in
95,000."""

BITS = 512
"""Bits of the packaged model's vectors; of shorter ones, which tell less, more are compared in proportion."""

COMPARED_EACH = 30
"""Vectors of a base that are compared at least, for bases are told apart by an estimate."""

ROTATION_SEED = b"kbhub"
"""Any bytes, but the same ever after: signatures are packed in indexes."""

BLOCK = 8192
"""Vectors made into bits at a time: some 8 MB of floats."""

DRIFT = 0.2
"""Share of vectors that are new since the mean was taken, above which it is taken anew."""

MEANT = 100_000
"""Chunks, evenly spread, whose vectors the mean is taken over."""

SCANNED = 32_768
"""Chunks that are scanned at a time: what is worked out on the way stays in the processor's cache, which halves the
time of a million chunks."""

NARROW = 0.25
"""Share of chunks up to which only those that may be found are looked at, which takes longer for each."""

_FEW = np.zeros(0, np.float32)

_BITS_OF_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.float32)
"""Shape (8, 256)."""


@struct
class Signatures:
    """The sign bits of the vectors of a base, at the positions of their chunks."""

    bits: NDArray[np.uint64]
    """Shape (words, chunks): scanned a word of all chunks at a time."""
    signed: NDArray[np.bool_]
    """Which chunks have a vector; the bits of others are 0."""
    mean: NDArray[np.float32]
    meant: int
    """Vectors that the mean stands for."""

    def differing(
        self, asked: NDArray[np.uint64], reachable: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.uint16]]:
        """Count the bits of some chunks that differ from those of a query.

        Args:
            asked: the query's, shape (words,).
            reachable: which chunks.

        Returns:
            Positions, none for all, and the bits of each that differ: one more than there are where it is none of
            those chunks.
        """
        size = int(np.count_nonzero(reachable))
        if size < NARROW * len(reachable):
            positions = np.flatnonzero(reachable)
            return positions, _differing(self.bits.take(positions, axis=1), asked)
        found = _differing(self.bits, asked)
        if size < len(reachable):
            found[~reachable] = 64 * len(asked) + 1
        return None, found

    def estimated(self, vector: NDArray[np.float32], positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Estimate the similarity of some chunks to a vector, by its numbers and their bits.

        A bit counts as much as the number is far from 0, which tells more than how many bits differ (Gordo, Perronnin,
        Gong, Lazebnik: "Asymmetric Distances for Binary Embeddings", TPAMI 2014). What a chunk's vector has beyond the
        mean is taken for as long in each direction as numbers of a normal distribution are on average.

        Args:
            vector: shape (dimensions,), of length 1.
            positions: of the chunks.
        """
        size = len(vector)
        numbers = np.zeros(64 * len(self.bits), np.float32)
        numbers[: 2 * size] = np.concatenate([vector, vector @ _rotation(size)])
        # What each byte can add, so that a byte is a look-up.
        adds = (numbers.reshape(-1, 8) @ _BITS_OF_BYTES).ravel()
        raw = np.ascontiguousarray(self.bits.take(positions, axis=1).T).view(np.uint8)
        agreeing = adds.take(raw + np.arange(0, len(adds), 256)) @ np.ones(raw.shape[1], np.float32)
        beyond = np.sqrt(max(0.0, 1 - float(self.mean @ self.mean)) * 2 / (np.pi * size))
        # The signs add up to twice what those above 0 have, less all; there are two for each number.
        signed: NDArray[np.float32] = (agreeing - numbers.sum() / 2) * np.float32(beyond)
        return signed + vector @ self.mean


def likely(
    asked: Sequence[tuple[Signatures, NDArray[np.bool_]]], vector: NDArray[np.float32], least: int
) -> list[NDArray[np.int64]]:
    """Give the positions of the chunks that are likely nearest to a vector, over all bases, those of each in order.

    Args:
        asked: the signatures of each base, and which of its chunks may be found.
        vector: shape (dimensions,), of length 1.
        least: how many at least, if there are as many.
    """
    reachable = [signatures.signed & allowed for signatures, allowed in asked]
    total = sum(int(np.count_nonzero(there)) for there in reachable)
    more = max(1.0, BITS / (2 * len(vector)))
    limit = max(least, int(more * min(MOST_COMPARED, max(LEAST_COMPARED, COMPARED_SHARE * total))))
    if total <= limit:
        return [np.flatnonzero(there) for there in reachable]
    wanted = max(limit, int(more * min(MOST_CANDIDATES, max(LEAST_CANDIDATES, CANDIDATE_SHARE * total))))
    if total > wanted:
        # Without the mean: what is common to all chunks of a base tells them from those of another.
        bits = _bits(vector[None], np.zeros_like(vector))[:, 0]
        differing = [one.differing(bits, there) for (one, _), there in zip(asked, reachable, strict=True)]
        most = _within([counts for _, counts in differing], wanted)
        each = [_within([counts], COMPARED_EACH) if len(asked) > 1 else 0 for _, counts in differing]
        # A base with fewer chunks than that would take those, too, that are none of its.
        least_near = [min(max(most, own), 64 * len(bits)) for own in each]
        nearest = [np.flatnonzero(counts <= own) for (_, counts), own in zip(differing, least_near, strict=True)]
        inside = [near if at is None else at[near] for (at, _), near in zip(differing, nearest, strict=True)]
    else:
        inside = [np.flatnonzero(there) for there in reachable]
    estimated = [one.estimated(vector, at) if len(at) else _FEW for (one, _), at in zip(asked, inside, strict=True)]
    lowest = _largest(np.concatenate(estimated), limit)
    return [
        at[values >= min(lowest, _largest(values, COMPARED_EACH))] for at, values in zip(inside, estimated, strict=True)
    ]


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


def _differing(bits: NDArray[np.uint64], asked: NDArray[np.uint64]) -> NDArray[np.uint16]:
    found = np.zeros(bits.shape[1], np.uint16)
    for start in range(0, len(found), SCANNED):
        block, part = bits[:, start : start + SCANNED], found[start : start + SCANNED]
        for words, word in zip(block, asked, strict=True):
            part += np.bitwise_count(words ^ word)
    return found


def _within(differing: Sequence[NDArray[np.uint16]], wanted: int) -> int:
    """Give the number of bits in which at least so many differ at most, if there are as many."""
    size = 1 + max(int(one.max(initial=0)) for one in differing)
    counted = np.sum([np.bincount(one, minlength=size) for one in differing], axis=0)
    return int(np.searchsorted(np.cumsum(counted), wanted))


def _largest(values: NDArray[np.float32], wanted: int) -> np.float32:
    """Give the value that so many reach, if there are as many."""
    if len(values) <= wanted:
        return np.float32(-np.inf)
    found: np.float32 = np.partition(values, len(values) - wanted)[len(values) - wanted]
    return found


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
    """Give a rotation: twice signs chosen by chance, then a cosine transform.

    It mixes as well as a matrix of random numbers, and takes 5 ms in place of 36 (Ailon, Chazelle: "The Fast
    Johnson-Lindenstrauss Transform", SIAM J. Comput. 39, 2009).
    """
    size = -(-dimensions // 8)
    chance = np.frombuffer(shake_256(ROTATION_SEED).digest(2 * size), np.uint8).reshape(2, size)
    at = np.arange(dimensions)
    cosines = np.cos(np.pi / dimensions * np.outer(at + 0.5, at)) * np.sqrt(2 / dimensions)
    cosines[:, 0] /= np.sqrt(2)
    first, second = (signs[:dimensions, None] * cosines for signs in np.unpackbits(chance, axis=1) * 2.0 - 1)
    rotation: NDArray[np.float32] = (first @ second).astype(np.float32)
    return rotation
