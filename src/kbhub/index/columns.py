"""What is kept in memory of every chunk, a column each, and how columns are written down.

A chunk has a position: its place among all chunks that the index has had since it was last packed, in order of id. Ids
grow and are never used again, so that what is new follows what is there, and what is gone is only marked. Imported
when something is first ranked, for it imports numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbhub.signatures import Signatures, sign
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from kbhub.signatures import Read

    Rows = Callable[..., list[Any]]
    """Runs a statement with its values and gives all rows."""

MORE = 255
"""A byte that says that the number goes on in the next one."""


@struct
class Columns:
    """Id, document and length of every chunk: 13 bytes each, and 4 more where ids have outgrown 31 bits."""

    pack: int
    """Number of the packing that the positions are of, another after each and in each file."""
    packed: int
    """Chunks that were there then: the first so many positions."""
    ids: NDArray[np.signedinteger]
    """Ascending."""
    documents: NDArray[np.int32]
    """Ids of the documents."""
    lengths: NDArray[np.int32]
    """Tokens."""
    alive: NDArray[np.bool_]
    """Whether the chunk is still there."""
    chunks: int
    """Those that are still there."""
    tokens: int
    """In those."""

    @property
    def last_packed(self) -> int:
        """Id of the last chunk that was packed; -1 if none is."""
        return int(self.ids[self.packed - 1]) if self.packed else -1

    def goes_on_from(self, other: Columns) -> bool:
        """Whether all chunks of other columns stand at the same positions here."""
        size = len(other.ids)
        return self.pack == other.pack and size <= len(self.ids) and np.array_equal(self.ids[:size], other.ids)

    def selected(self, chunks: Sequence[int]) -> NDArray[np.bool_]:
        """Say of each position whether its chunk is one of some.

        Args:
            chunks: ids of chunks that are there, ascending; an `array` of them is fastest.
        """
        found = np.zeros(len(self.ids), np.bool_)
        found[self.positions(np.asarray(chunks, np.int64))] = True
        return found

    def positions(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the positions of chunks that are there.

        Args:
            ids: of chunks that the index has, in any order.
        """
        # Of another width, all of the column would be copied first.
        found: NDArray[np.int64] = np.searchsorted(self.ids, np.asarray(ids, self.ids.dtype))
        return found


def columns(before: Columns | None, rows: Rows) -> Columns:
    """Bring columns in step with the index.

    Args:
        before: those of an earlier state of the same file; none if there is none.
        rows: reads within one snapshot of the index.

    Raises:
        ValueError: what was packed is damaged.
    """
    ((pack,),) = rows("SELECT value FROM meta WHERE key = 'pack'")
    if before is None or before.pack != pack:
        before = _packed(pack, rows)
    last = int(before.ids[-1]) if len(before.ids) else -1
    new = rows("SELECT id, sz FROM fts_docsize WHERE id > ? ORDER BY id", last)
    ids = np.array([chunk for chunk, _ in new], np.int64)
    documents = np.concatenate([before.documents, _documents(ids, last, rows)])
    lengths = np.concatenate([before.lengths, totals([sizes for _, sizes in new])])
    gone = [chunk for (chunk,) in rows("SELECT chunk_id FROM gone")]
    return _columns(pack, before.packed, np.concatenate([before.ids, ids]), documents, lengths, gone)


def _documents(ids: NDArray[np.int64], last: int, rows: Rows) -> NDArray[np.int32]:
    """Give the documents of all chunks after one."""
    # Of all chunks, from the index on documents, which is read in one piece; texts lie between those of the table.
    which = "WHERE id > ?" if last >= 0 else "INDEXED BY chunk_document WHERE id > ?"
    found = np.array(rows(f"SELECT id, document_id FROM chunk {which}", last), np.int64).reshape(-1, 2)
    found = found[np.argsort(found[:, 0])]
    if not np.array_equal(found[:, 0], ids):
        raise ValueError("chunks and what is searched of them differ")
    return found[:, 1].astype(np.int32)


def _packed(pack: int, rows: Rows) -> Columns:
    stored = dict(rows("SELECT name, data FROM packed WHERE name IN ('ids', 'documents', 'lengths')"))
    if not stored:
        return _columns(pack, 0, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
    ids, lengths = growing(stored["ids"]), np.diff(growing(stored["lengths"]), prepend=0).astype(np.int32)
    documents = np.frombuffer(stored["documents"], np.int32)
    if not len(ids) == len(lengths) == len(documents):
        raise ValueError("its packed columns differ in length")
    return _columns(pack, len(ids), ids, documents, lengths)


def _columns(
    pack: int,
    packed: int,
    ids: NDArray[np.signedinteger],
    documents: NDArray[np.int32],
    lengths: NDArray[np.int32],
    gone: Sequence[int] = (),
) -> Columns:
    alive = ~np.isin(ids, np.array(gone, np.int64)) if gone else np.ones(len(ids), np.bool_)
    narrow: NDArray[np.signedinteger] = ids
    if not len(ids) or ids[-1] <= np.iinfo(np.int32).max:
        narrow = ids.astype(np.int32)
    return Columns(pack, packed, narrow, documents, lengths, alive, int(alive.sum()), int(lengths[alive].sum()))


def signatures(before: Signatures | None, known: Columns, rows: Rows, read: Read) -> Signatures:
    """Bring signatures in step with the index.

    Args:
        before: those of the same embedder, of columns that these go on from; none if there are none.
        known: of the index, in this snapshot.
        rows: reads within the snapshot.
        read: gives (id, int8 vector) of those of some chunks that have one.

    Raises:
        ValueError: what was packed is damaged.
    """
    return sign(before or _packed_signatures(known, rows), known.ids, read)


def _packed_signatures(known: Columns, rows: Rows) -> Signatures | None:
    """Read what was packed; none if nothing was, or if it was of another embedder."""
    stored = dict(rows("SELECT name, data FROM packed WHERE name IN ('bits', 'signed', 'mean', 'embedder')"))
    ((embedder,),) = rows("SELECT (SELECT value FROM meta WHERE key = 'embedder')")
    if not stored or embedder is None or bytes(stored["embedder"]).decode() != embedder:
        return None
    bits = np.frombuffer(stored["bits"], np.uint64).reshape(-1, known.packed)
    signed = np.frombuffer(stored["signed"], np.bool_)
    mean = np.frombuffer(stored["mean"], np.float32)
    if len(signed) != known.packed:
        raise ValueError("its packed signatures are not those of its chunks")
    return Signatures(bits, signed, mean, int(signed.sum()))


def packed(known: Columns, made: Signatures | None, embedder: str | None) -> dict[str, bytes]:
    """Give what is stored of columns and signatures: name → bytes.

    Args:
        known: of chunks that are all there.
        made: of the same chunks; none without vectors.
        embedder: fingerprint of what made the vectors.
    """
    data = {"documents": known.documents.tobytes()}
    data |= {"ids": written(known.ids), "lengths": written(np.cumsum(known.lengths, dtype=np.int64))}
    if made is not None and embedder is not None:
        data |= {"bits": made.bits.tobytes(), "signed": made.signed.tobytes(), "mean": made.mean.tobytes()}
        data["embedder"] = embedder.encode()
    return data


def written(numbers: NDArray[np.signedinteger]) -> bytes:
    """Write down numbers that never fall, the first not below 0: mostly a byte each.

    Args:
        numbers: shape (n,).
    """
    steps = np.diff(numbers, prepend=0)
    more = steps // MORE
    ends = np.cumsum(more + 1) - 1
    raw = np.full(int(ends[-1]) + 1 if len(ends) else 0, MORE, np.uint8)
    raw[ends] = steps % MORE
    return raw.tobytes()


def growing(raw: bytes) -> NDArray[np.int64]:
    """Read what `written` wrote."""
    steps = np.frombuffer(raw, np.uint8)
    numbers: NDArray[np.int64] = np.cumsum(steps, dtype=np.int64)[steps != MORE]
    return numbers


def totals(sizes: Sequence[bytes]) -> NDArray[np.int32]:
    """Add up the tokens in all columns of chunks.

    Args:
        sizes: per chunk, one SQLite variable-length integer per column, as FTS5 keeps them.
    """
    if not sizes:
        return np.zeros(0, np.int32)
    raw = np.frombuffer(b"".join(sizes), np.uint8)
    going_on = raw >= 0x80
    value = (raw & 0x7F).astype(np.int64)
    shifted = going_on.copy()
    while shifted.any():  # once per byte of the longest number: a byte counts 128 times for each that follows it
        value[shifted] <<= 7
        following = np.zeros_like(shifted)
        following[:-1] = shifted[1:]
        shifted = going_on & following
    starts = np.cumsum([0, *map(len, sizes[:-1])])
    return np.add.reduceat(value, starts).astype(np.int32)
