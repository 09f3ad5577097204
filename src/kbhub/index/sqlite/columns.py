"""The columns, signatures and common postings of an index file in packed form.

Imports numpy, so import it lazily. `rows` always reads within one snapshot; damaged data raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.index.engine import FTS_COLUMNS, FTS_WEIGHTS, K1, B, inverse_document_frequency
from kbhub.index.query.parser import Term
from kbhub.index.signatures import Columns, Postings, Signatures, growing, made, roomy, written
from kbhub.index.signatures import sign as sign  # of `packing`, and of the reader
from kbhub.models.static_model import similarity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = Callable[..., list[Any]]
    """Runs a statement with its values and returns all rows."""

COMMON = 128
"""A term is common if more than one chunk in so many has it; three of four postings are of such terms."""

AT_ONCE = 100_000
"""Chunks or documents whose rows are read at once: as Python objects, a million chunks would take 250 MB."""

MOST_BYTES = 1 << 28
"""Bytes of signatures above which each word of them is a value of its own: SQLite allows 1 GB, and a process that reads
one holds it twice."""

WORD = "bits"
"""Beginning of the names of such values; the number of the word follows."""

MOST_ASKED = 400
"""Chunks that have a term above which it counts as common in any case: FTS5 takes a microsecond for each."""


def columns(before: Columns | None, rows: Rows, *, packed: bool = True) -> Columns:
    """Update columns of an earlier state of the same file, or None, or else what is `packed`, to the current state."""
    ((pack,),) = rows("SELECT value FROM meta WHERE key = 'pack'")
    if before is None or before.pack != pack:
        some = rows("SELECT name, data FROM packed WHERE name IN ('ids', 'documents', 'lengths')") if packed else ()
        stored = dict(some)
        ids = growing(stored["ids"]) if stored else np.zeros(0, np.int64)
        ends = growing(stored["lengths"]) if stored else ids
        documents = np.frombuffer(stored["documents"] if stored else b"", np.int32)
        if not len(ids) == len(ends) == len(documents):
            raise ValueError("its packed columns differ in length")
        before = made(pack, len(ids), ids, documents, np.diff(ends, prepend=0).astype(np.int32))
    last = end = int(before.ids[-1]) if len(before.ids) else -1
    new, lengths = [np.zeros(0, np.int64)], [before.lengths]
    while len(new) == 1 or len(new[-1]) == AT_ONCE:
        some = rows("SELECT id, sz FROM fts_docsize WHERE id > ? ORDER BY id LIMIT ?", end, AT_ONCE)
        new.append(np.array([chunk for chunk, _ in some], np.int64))
        lengths.append(totals([sizes for _, sizes in some]))
        end = some[-1][0] if some else end
    ids = np.concatenate(new)
    if last >= 0:
        by_chunk = np.array(rows("SELECT id, document_id FROM chunk WHERE id > ?", last), np.int64).reshape(-1, 2)
    else:
        # For all chunks, read the index on documents, which is contiguous; the table is interleaved with texts.
        ((most,),) = rows("SELECT coalesce(max(document_id), 0) FROM chunk")
        each = "SELECT id, document_id FROM chunk INDEXED BY chunk_document WHERE document_id BETWEEN ? AND ?"
        starts = range(0, most + 1, AT_ONCE)
        parts = [np.array(rows(each, start, start + AT_ONCE - 1), np.int64).reshape(-1, 2) for start in starts]
        by_chunk = np.concatenate(parts)
    by_chunk = by_chunk[np.argsort(by_chunk[:, 0])]
    if not np.array_equal(by_chunk[:, 0], ids):
        raise ValueError("chunks and what is searched of them differ")
    documents = np.concatenate([before.documents, by_chunk[:, 1].astype(np.int32)])
    gone = [chunk for (chunk,) in rows("SELECT chunk_id FROM gone")]
    return made(pack, before.packed, np.concatenate([before.ids, ids]), documents, np.concatenate(lengths), gone)


def packed_signatures(columns: Columns, rows: Rows) -> Signatures | None:
    """Read packed signatures; None if there are none of the current embedder."""
    stored = dict(rows("SELECT name, data FROM packed WHERE name IN ('bits', 'signed', 'mean', 'embedder')"))
    ((embedder,),) = rows("SELECT (SELECT value FROM meta WHERE key = 'embedder')")
    if not stored or embedder is None or bytes(stored["embedder"]).decode() != embedder:
        return None
    if "bits" in stored:
        bits = np.frombuffer(stored["bits"], np.uint64).reshape(-1, columns.packed)
    else:
        ((words,),) = rows("SELECT count(*) FROM packed WHERE name GLOB ?", f"{WORD}[0-9]*")
        bits = roomy(words, columns.packed)
        for word in range(words):
            ((data,),) = rows("SELECT data FROM packed WHERE name = ?", f"{WORD}{word}")
            bits[word] = np.frombuffer(data, np.uint64)
    signed = np.frombuffer(stored["signed"], np.bool_)
    mean = np.frombuffer(stored["mean"], np.float32)
    if len(signed) != columns.packed:
        raise ValueError("its packed signatures are not those of its chunks")
    return Signatures(bits, signed, mean, int(signed.sum()))


def packed(known: Columns, made: Signatures | None, embedder: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield columns, without deleted chunks, and signatures of the same chunks in storage format: (name, bytes)."""
    yield "documents", known.documents.tobytes()
    yield "ids", written(known.ids)
    yield "lengths", written(np.cumsum(known.lengths, dtype=np.int64))
    if made is not None and embedder is not None:
        if made.bits.nbytes > MOST_BYTES:
            yield from ((f"{WORD}{number}", word.tobytes()) for number, word in enumerate(made.bits))
        else:
            yield "bits", made.bits.tobytes()
        yield "signed", made.signed.tobytes()
        yield "mean", made.mean.tobytes()
        yield "embedder", embedder.encode()


def totals(sizes: Sequence[bytes]) -> NDArray[np.int32]:
    """Sum the tokens of each chunk over its FTS columns: one SQLite varint per column, as FTS5 stores them."""
    if not sizes:
        return np.zeros(0, np.int32)
    raw = np.frombuffer(b"".join(sizes), np.uint8)
    going_on = raw >= 0x80
    value = (raw & 0x7F).astype(np.int64)
    shifted = going_on.copy()
    while shifted.any():  # once per byte of the longest varint: each following byte multiplies by 128
        value[shifted] <<= 7
        following = np.zeros_like(shifted)
        following[:-1] = shifted[1:]
        shifted = going_on & following
    starts = np.cumsum([0, *map(len, sizes[:-1])])
    return np.add.reduceat(value, starts).astype(np.int32)


def postings_of(terms: Sequence[str], known: Columns, rows: Rows) -> list[tuple[str, bytes, bytes]]:
    """Return the packed postings of terms: (term, positions, summed counts)."""
    # An id stands once for each occurrence, or as often as its column weighs. Made into one text, they come out of
    # SQLite four times as fast as row by row.
    repeated = {
        column: "||','||".join(["doc"] * int(weight)) for column, weight in zip(FTS_COLUMNS, FTS_WEIGHTS, strict=True)
    }
    # Backwards, as nine of ten occurrences are in the last column.
    weighed = " ".join(f"WHEN '{column}' THEN {doc}" for column, doc in reversed(repeated.items()))
    listed = f"SELECT group_concat(CASE col {weighed} END) FROM occurrence WHERE term = ?"
    found = []
    for term in terms:
        ((ids,),) = rows(listed, term)
        # FTS5 lists them in the order of chunks, so where one ends is how often it and those before it occur.
        chunks = np.fromstring(ids, np.int64, sep=",")
        ends = np.append(np.flatnonzero(chunks[1:] != chunks[:-1]) + 1, len(chunks))
        found.append((term, written(known.positions(chunks[ends - 1])), written(ends)))
    return found


FEW = 200
"""Chunks up to which occurrences are counted per chunk, at 5 µs each; for more they are computed from FTS5's bm25(), at
0.5 µs per chunk and as much again per 10 chunks that have the term anywhere."""

_WEIGHTS = ", ".join(map(str, FTS_WEIGHTS))


def postings(term: Term, columns: Columns, rows: Rows) -> Postings:
    """Look up a term of a query in one snapshot; damaged packed data raises ValueError."""
    if not columns.packed or not term.plain:
        return _of_fts5(term.match, columns, rows)
    stored = rows("SELECT places, counts FROM posting WHERE term = ?", term.tokens[0])
    if not stored:
        return _of_fts5(term.match, columns, rows)
    positions, counts = growing(stored[0][0]), np.diff(growing(stored[0][1]), prepend=0).astype(np.float64)
    if len(positions) != len(counts) or (len(positions) and positions[-1] >= columns.packed):
        raise ValueError("the packed places of a word make no sense")
    if columns.chunks < len(columns.ids):
        alive = columns.alive[positions]
        positions, counts = positions[alive], counts[alive]
    if columns.packed == len(columns.ids):
        return Postings(positions, counts)
    newer = _of_fts5(term.match, columns, rows, len(positions))
    return Postings(np.concatenate([positions, newer.positions]), np.concatenate([counts, newer.counts]))


def _of_fts5(match: str, columns: Columns, rows: Rows, packed: int = 0) -> Postings:
    """Look up a term in FTS5, leaving out `packed` packed chunks, or in all chunks if that is 0."""
    after = int(columns.ids[columns.packed - 1]) if packed else -1
    likely = packed * (len(columns.ids) - columns.packed) / max(columns.packed, 1)
    if packed and likely <= FEW:
        matches = rows("SELECT rowid, occurrences(fts) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
        ids, counts = paired(matches)
        return Postings(columns.positions(ids), counts)
    matches = rows(f"SELECT rowid, -bm25(fts, {_WEIGHTS}) FROM fts WHERE fts MATCH ? AND rowid > ?", match, after)
    ids, scores = paired(matches)
    positions = columns.positions(ids)
    # BM25 of a single term, solved for the number of occurrences.
    weight = inverse_document_frequency(columns.chunks, packed + len(ids)) * (K1 + 1)
    mean = columns.tokens / max(columns.chunks, 1)
    norm = K1 * (1 - B + B * columns.lengths[positions] / mean)
    return Postings(positions, np.rint(scores * norm / (weight - scores)))


def paired(rows: Sequence[tuple[int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (chunk, value) pairs as two arrays."""
    both = np.array(rows, np.float64).reshape(-1, 2)
    return both[:, 0].astype(np.int64), np.ascontiguousarray(both[:, 1])


def compared(
    vectors: Sequence[tuple[int, bytes]], vector: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (chunk id, vector) pairs as ids and cosine similarities, without sqlite-vec."""
    return np.array([chunk for chunk, _ in vectors], np.int64), similarity([blob for _, blob in vectors], vector)
