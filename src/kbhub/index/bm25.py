"""BM25 over many chunks at once, rankings as columns, and a naive BM25 by FTS5 to compare with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import apsw
import numpy as np

from kbhub.index.rows import K1, B, Key, Place
from kbhub.index.signatures import Postings
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = Callable[[Sequence[Key]], Mapping[Key, Place]]
    "Returns the positions of chunks."

CHUNK_BITS = 44
"""Low bits of a number that hold the chunk id; the bits above hold the base. Ids are never reused, and 2^44 suffice."""

TIED = 400
"""Most chunks kept beyond the limit because they tie with the last one; their order is by place."""

NO_CHUNKS = np.zeros(0, np.int64)

SPARSE = 8
"""Chunks per posting above which only the chunks with a term are summed."""


@struct
class Ranking:
    """Chunks found by a signal, best first, one array per field."""

    chunks: NDArray[np.int64]
    """Chunk and base in one number: `chunk + (base << CHUNK_BITS)`."""
    documents: NDArray[np.signedinteger]
    """Ids of their documents in the base."""
    values: NDArray[np.float64]
    """The signal's values; larger is better."""

    def __len__(self) -> int:
        return len(self.chunks)

    @classmethod
    def of(cls, rows: Iterable[tuple[Key, int, float]]) -> Self:
        """Create a ranking from (chunk, document, value), best first."""
        rows = list(rows)
        chunks = np.array([(base << CHUNK_BITS) + chunk for (base, chunk), _, _ in rows], np.int64)
        documents = np.array([document for _, document, _ in rows], np.int64)
        return cls(chunks, documents, np.array([value for _, _, value in rows], np.float64))

    @classmethod
    def joined(cls, rankings: Sequence[Ranking]) -> Self:
        """Concatenate the rankings of several bases, unordered."""
        if not rankings:
            return cls(NO_CHUNKS, NO_CHUNKS, np.zeros(0))
        columns = zip(*[(part.chunks, part.documents, part.values) for part in rankings], strict=True)
        return cls(*map(np.concatenate, columns))

    def as_keys(self) -> list[Key]:
        """Return the chunks as (number of the base, chunk id)."""
        return keys_of(self.chunks)

    def best(self, limit: int, places: Places) -> Ranking:
        """Sort unordered chunks, ties by place, and keep the best."""
        kept = np.arange(len(self))
        if len(self) > limit:
            kept = np.flatnonzero(self.values >= np.partition(self.values, -limit)[-limit])
        order = kept[best_first(self.chunks[kept], self.values[kept], places)[:limit]]
        return Ranking(self.chunks[order], self.documents[order], self.values[order])


def keys_of(chunks: NDArray[np.int64]) -> list[Key]:
    """Split chunk numbers into (number of the base, chunk id)."""
    bases, ids = chunks >> CHUNK_BITS, chunks & ((1 << CHUNK_BITS) - 1)
    return list(zip(bases.tolist(), ids.tolist(), strict=True))


def union(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted union of two arrays; `np.union1d` would import masked arrays (20 ms)."""
    both = np.sort(np.concatenate((one, other)))
    first = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]


def spread(
    documents: NDArray[np.signedinteger], values: NDArray[np.float64], limit: int, each: int | None
) -> NDArray[np.int64]:
    """Return the unordered indices of the best chunks of a base, at most `each` of a document (None: any number).

    At least `limit`, if available, and all chunks better than the worst of them, except those over a document's limit
    and, of ties, those beyond `TIED`. Larger values are better.
    """
    count = limit
    while True:
        kept = _largest(values, count)
        if each is not None and len(kept) > each:
            kept = kept[first_of_each(documents[kept], values[kept], each)]
        if len(kept) >= limit or count >= len(values):
            return kept
        count *= 4


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    if len(values) <= count:
        return np.arange(len(values))
    last = np.partition(values, -count)[-count]
    return np.concatenate([np.flatnonzero(values > last), np.flatnonzero(values == last)[:TIED]])


def first_of_each(documents: NDArray[np.signedinteger], values: NDArray[np.float64], each: int) -> NDArray[np.int64]:
    """Return the indices of the `each` best chunks of each document; larger values are better."""
    order = np.lexsort((-values, documents))
    ordered = documents[order]
    index = np.arange(len(order))
    # Distance of each from the first of its document.
    begins = np.maximum.accumulate(np.where(np.concatenate(([True], ordered[1:] != ordered[:-1])), index, 0))
    return order[index - begins < each]


def best_first(chunks: NDArray[np.int64], values: NDArray[np.float64], places: Places) -> NDArray[np.int64]:
    """Return the order of chunks: best first, ties by path, line and base, independent of how a corpus is split.

    Larger values are better.
    """
    order: NDArray[np.int64] = np.argsort(-values, kind="stable")
    ordered = values[order]
    equal = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(equal):
        tied = union(equal, equal + 1)
        keys = keys_of(chunks[order[tied]])
        where = places(keys)
        rows = zip(ordered[tied].tolist(), keys, order[tied].tolist(), strict=True)
        order[tied] = [row[2] for row in sorted(rows, key=lambda row: (-row[0], where[row[1]]))]
    return order


def scores(
    terms: Sequence[tuple[Postings, float]], lengths: NDArray[np.int32], mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Score every chunk that contains any of the terms.

    Args:
        terms: postings of each term in a base, and its weight (inverse document frequency).
        lengths: tokens per chunk of the base, by position.
        mean_length: mean tokens per chunk, over all bases.

    Returns:
        Positions of the chunks, ascending; their scores; the summed weights of the terms that each contains.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    positions = np.concatenate([postings.positions for postings, _ in terms])
    counts = np.concatenate([postings.counts for postings, _ in terms])
    weights = np.repeat([weight for _, weight in terms], [len(postings) for postings, _ in terms])
    norm = K1 * (1 - B + (B / mean_length) * lengths[positions]) if mean_length else K1
    parts = weights * (K1 + 1) * counts / (counts + norm)
    # Both ways add in the order of the terms, so that the sums are bit-identical.
    summed: Any = np.bincount  # declared for integers only
    if len(positions) * SPARSE < len(lengths):
        matching, inverse = np.unique(positions, return_inverse=True)
        return matching, summed(inverse, weights=parts), summed(inverse, weights=weights)
    total = summed(positions, weights=parts)
    matching = np.flatnonzero(total)
    return matching, total[matching], summed(positions, weights=weights)[matching]


_WORD = re.compile(r"\w+")


class NaiveIndex:
    """Texts in memory, stemmed by FTS5's `porter` and otherwise unprocessed."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.execute("CREATE VIRTUAL TABLE naive USING fts5(text, tokenize='porter unicode61')")
        rows = ((number, text.replace("\0", " ")) for number, text in enumerate(texts))
        self._connection.executemany("INSERT INTO naive(rowid, text) VALUES (?, ?)", rows)

    def rank(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Return (number of the text, BM25 score), best first, of the texts with any word of a query."""
        words = dict.fromkeys(_WORD.findall(query))
        if not words:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT rowid, -bm25(naive) FROM naive WHERE naive MATCH ? ORDER BY bm25(naive), rowid LIMIT ?",
            (expression, limit),
        )
        return [(int(number), float(score)) for number, score in rows]

    def close(self) -> None:
        """Release the memory."""
        self._connection.close()
