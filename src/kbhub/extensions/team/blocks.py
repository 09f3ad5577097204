"""Postings in a shared base: for each term, blocks of chunks with their weights and places."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection

from kbhub.extensions.team.schema import columns
from kbhub.index.engine import FTS_WEIGHTS
from kbhub.index.matches import NO_CHUNKS
from kbhub.index.query.parser import tokens
from kbhub.index.signatures import encoded, growing
from kbhub.values import struct

BLOCK = 512
"""Chunks of a block: `facts/postgres.md` measured a fetch of 9,500 postings at 1.2 ms with it."""

LONGEST_TERM = 500
"""Characters of a term that is stored as it is: keys have 2,700 bytes at most, and words end long before."""

HASH_DIGITS = 64

APART = 4
"""Twice the distance of the last place of a column from the first of the next, so that no phrase spans both."""

CHUNK_SHIFT = 32
"""Bits for places below the chunk in the number that stands for an occurrence."""

MOST_BYTES, MOST_PLACES = 1_000_000, 4_000_000
"""Bytes of a block's chunks or counts, and of its places, that are read; each takes up to 30 in memory. A publisher
writes some hundreds."""

_HEAVY = tuple(int(weight) - 1 for weight in FTS_WEIGHTS)


@struct
class Block:
    """The postings of a term in some of the chunks.

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

    def occurrences(self) -> NDArray[np.int64]:
        """Return each occurrence as a number: the chunk above `CHUNK_SHIFT` bits of its place; ascending."""
        places = np.diff(growing(self.places or b""), prepend=0)
        reached = np.cumsum(1 + (places & 1))
        at = np.searchsorted(growing(self.counts), reached)
        return (self.ids()[at] << CHUNK_SHIFT) | places


def listed(blocks: Sequence[Block]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the chunks in all blocks of a term, ascending, and their weights; ValueError if blocks disagree."""
    chunks = np.concatenate([NO_CHUNKS, *(block.ids() for block in blocks)])
    counts = np.concatenate([np.zeros(0), *(np.diff(growing(block.counts), prepend=0) for block in blocks)])
    if len(chunks) != len(counts) or (chunks[1:] <= chunks[:-1]).any() or counts.min(initial=1) < 1:
        raise ValueError("the postings of a term contradict each other")
    return chunks, counts


def occurrences(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Return the occurrences in all blocks of a term, ascending; see `Block.occurrences`."""
    return np.concatenate([NO_CHUNKS, *(block.occurrences() for block in blocks)])


def phrase(parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the chunks, ascending, where terms follow each other, and the phrase's weighted occurrences in each."""
    begins = parts[0]
    for number, part in enumerate(parts[1:], 1):
        begins = np.intersect1d(begins, part - 2 * number, assume_unique=True)
    chunks, inverse = np.unique(begins >> CHUNK_SHIFT, return_inverse=True)
    return chunks, np.bincount(inverse, 1 + (begins & 1), len(chunks)).astype(np.float64)


def stored(stem: str) -> str:
    """Return the stored form of a stem: the end of an endless one is a hash. Idempotent."""
    if len(stem) <= LONGEST_TERM or len(stem) == LONGEST_TERM + HASH_DIGITS:
        return stem
    return stem[:LONGEST_TERM] + hashlib.sha256(stem.encode("utf-8", "surrogatepass")).hexdigest()


class Inverter:
    """A collection of the terms of chunks, to be written as blocks."""

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
        """Add a chunk's texts by column, in ascending order of ids; return the number of its tokens."""
        numbers = self._numbers
        terms: list[int] = []
        places: list[NDArray[np.int64]] = []
        start = 0
        for column, text in enumerate(searched):
            shared = column != len(searched) - 1
            stems = self._split.get(text) if shared else None
            if stems is None:
                stems = [stored(stem) for _, _, stem in tokens(text.encode("utf-8", "replace"))] if text else []
                if shared:
                    if len(self._split) > BLOCK:
                        self._split.clear()
                    self._split[text] = stems
            terms += [numbers.setdefault(stem, len(numbers)) for stem in stems]
            places.append(np.arange(start, start + 2 * len(stems), 2) + _HEAVY[column])
            start += 2 * len(stems) + APART
        self._terms.append(np.array(terms, np.int32))
        self._at.append((np.int64(chunk) << CHUNK_SHIFT) | np.concatenate(places))
        self.size += len(terms)
        return len(terms)

    def sorted(self) -> Occurrences:
        """Return all occurrences by term."""
        if not self._terms:
            return Occurrences((), NO_CHUNKS, NO_CHUNKS)
        numbers = np.concatenate(self._terms)
        every = np.concatenate(self._at)[np.argsort(numbers, kind="stable")]
        return Occurrences(tuple(self._numbers), np.cumsum(np.bincount(numbers, minlength=len(self._numbers))), every)


@struct
class Occurrences:
    """The places where terms occur."""

    terms: tuple[str, ...]
    ends: NDArray[np.int64]
    """End of each term's occurrences in `every`."""
    every: NDArray[np.int64]
    """See `Block.occurrences`."""

    def by_term(self) -> dict[str, NDArray[np.int64]]:
        """Return the occurrences of each term."""
        return dict(zip(self.terms, np.split(self.every, self.ends[:-1]), strict=True)) if self.terms else {}

    def sizes(self) -> dict[str, int]:
        """Return in how many chunks each term occurs."""
        return dict(zip(self.terms, np.bincount(self._pairs()[1], minlength=len(self.terms)).tolist(), strict=True))

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where each pair of a term and a chunk begins in `every`, and the number of its term."""
        terms = np.repeat(np.arange(len(self.terms)), np.diff(self.ends, prepend=0))
        chunks = self.every >> CHUNK_SHIFT
        begins = np.flatnonzero((np.diff(chunks, prepend=-1) != 0) | (np.diff(terms, prepend=-1) != 0))
        return begins, terms[begins]

    def blocks(self) -> Iterator[tuple[str, int, int, int, bytes, bytes, bytes]]:
        """Yield (term, first, last, size, chunks, counts, places) of blocks; see `Block`.

        All are encoded at once and cut: one by one they would take 40 µs each, and a base has a hundred thousand.
        """
        if not len(self.every):
            return
        places = self.every & ((1 << CHUNK_SHIFT) - 1)
        begins, owners = self._pairs()
        ids = self.every[begins] >> CHUNK_SHIFT
        starts_of_terms = np.flatnonzero(np.diff(owners, prepend=-1))
        within = np.arange(len(begins)) - np.repeat(starts_of_terms, np.diff(starts_of_terms, append=len(begins)))
        starts = np.flatnonzero(within % BLOCK == 0)
        stops = np.append(starts[1:], len(begins))
        steps = np.diff(ids, prepend=0)
        steps[starts] = 0
        raw_chunks, chunk_ends = encoded(steps)
        raw_counts, count_ends = encoded(np.add.reduceat(1 + (places & 1), begins))
        raw_places, place_ends = encoded(places)
        cuts = [
            np.stack([np.append(0, ends)[starts], np.append(0, ends)[stops]], axis=1).tolist()
            for ends in (chunk_ends, count_ends, np.append(place_ends[begins[1:] - 1], place_ends[-1]))
        ]
        heads = zip(owners[starts].tolist(), ids[starts].tolist(), ids[stops - 1].tolist(), strict=True)
        sizes = (stops - starts).tolist()
        for (owner, first, last), size, of_chunks, of_counts, of_places in zip(heads, sizes, *cuts, strict=True):
            yield (
                *(self.terms[owner], first, last, size, raw_chunks[slice(*of_chunks)]),
                *(raw_counts[slice(*of_counts)], raw_places[slice(*of_places)]),
            )


TERMS_AT_ONCE = 5_000

BLOCKS_AT_ONCE = 20_000
"""Blocks that one statement writes: 30 MB at most."""


def put(connection: Connection[Any], number: int, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows of a base into a table of `WRITTEN`, as one array per column, in a transaction that holds the base."""
    if rows:
        arrays = ", ".join(f"%b::{kind}[]" for _, kind in columns(table))
        values = map(list, zip(*rows, strict=True))
        connection.execute(f"SELECT kbhub.put_{table}(%s, {arrays})", (number, *values))


def write_postings(connection: Connection[Any], number: int, added: Inverter, removed: Inverter) -> None:
    """Write postings, added chunks with the largest ids, and count terms, in a transaction that holds the base."""
    new = added.sorted()
    gone = {term: np.unique(every >> CHUNK_SHIFT) for term, every in removed.sorted().by_term().items()}
    first = not gone and connection.execute("SELECT FROM kbhub.term_rows(%s) LIMIT 1", (number,)).fetchone() is None
    fresh_by_term = {} if first else new.by_term()
    terms = sorted({*fresh_by_term, *gone})
    if first:
        _insert(connection, number, new.blocks())
    for start in range(0, len(terms), TERMS_AT_ONCE):
        some = terms[start : start + TERMS_AT_ONCE]
        losing = [term for term in some if term in gone]
        lowest = min((int(gone[term][0]) for term in losing), default=0)
        highest = max((int(gone[term][-1]) for term in losing), default=-1)
        # The blocks of terms that lose chunks or have room for more, each with whether it is the term's last.
        taken = "SELECT * FROM kbhub.take_postings(%s, %s::text[], %s, %s::text[], %s, %s)"
        rows = connection.execute(taken, (number, some, BLOCK, losing, lowest, highest), binary=True).fetchall()
        blocks: dict[str, list[tuple[Block, bool]]] = defaultdict(list)
        for term, *block, is_last in sorted(rows, key=lambda row: row[:2]):
            blocks[term].append((Block(*block), is_last))
        parts: list[tuple[str, NDArray[np.int64]]] = []
        for term in some:
            lost = gone.get(term, NO_CHUNKS)
            fresh = _without(fresh_by_term.get(term, NO_CHUNKS), lost)
            for block, is_last in blocks.get(term, ()):
                kept = _without(block.occurrences(), lost)
                if is_last:
                    kept, fresh = np.concatenate([kept, fresh]), NO_CHUNKS
                parts.append((term, kept))
            parts.append((term, fresh))
        parts = [(term, every) for term, every in parts if len(every)]
        if parts:
            ends = np.cumsum([len(every) for _, every in parts])
            every = np.concatenate([every for _, every in parts])
            _insert(connection, number, Occurrences(tuple(term for term, _ in parts), ends, every).blocks())
    counts = Counter(new.sizes())
    counts.subtract({term: len(chunks) for term, chunks in gone.items()})
    put(connection, number, "term", [(term, change) for term, change in counts.items() if change])


def _without(every: NDArray[np.int64], gone: NDArray[np.int64]) -> NDArray[np.int64]:
    return every[~np.isin(every >> CHUNK_SHIFT, gone)] if len(gone) else every


def _insert(connection: Connection[Any], number: int, blocks: Iterable[tuple[Any, ...]]) -> None:
    waiting = iter(blocks)
    while some := list(islice(waiting, BLOCKS_AT_ONCE)):
        put(connection, number, "posting", some)
