"""An index of a size that would take hours to build: what a search reads of a real one, several times over.

Documents, chunks, texts, vectors and links are copied under other ids and paths, with other numbers added to vectors
and lengths, so that no two chunks tie; what is packed (columns, sign bits, postings of common terms) is made to match.
The full-text index is not copied: a search looks up only rare terms in it, which stay as rare as they are.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from kbhub.index.signatures import MORE, growing, written
from kbhub.index.sqlite.columns import MOST_BYTES, WORD
from kbhub.index.sqlite.schema import NAME, PACKED_SUM, packed_sum

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOISE = 30
"""Most that is added to a component of a vector: the cosine of copies is .9."""

FLIPPED = 4
"""Random words that are combined into a mask of bits to turn over: one bit in 2^4."""

LONGER = 5
"""Most tokens that are added to the length of a chunk."""

BLOCK = 8192
CACHE_KIB = 400_000

ROWS = {
    "document": "id + :documents, :copy || '/' || path, lower(hex(randomblob(8))), size, mtime_ns, hash, title, kind, "
    "tags, aliases, front_matter, dated, committed, problem FROM document WHERE id <= :of_documents",
    "chunk": "id + :chunks, document_id + :documents, headings, start_line, end_line, prose, text "
    "FROM chunk WHERE id <= :of_chunks",
    "property": "document_id + :documents, key, value FROM property WHERE document_id <= :of_documents",
    "link": "document_id + :documents, target, fragment, text, line, kind FROM link WHERE document_id <= :of_documents",
}
"""Table → what a copied row of it is."""


def multiply(source: Path, target: Path, times: int, note: Callable[[str], None]) -> dict[str, Any]:
    """Make an index of several copies of another one.

    Args:
        source: the other one, a first index: its ids have no gaps.
        target: file to make; one that is there is replaced.
        times: how many copies, with the first.
        note: called with what is done.
    """
    began = time.perf_counter()
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    connection = apsw.Connection(str(target))
    connection.execute(f"PRAGMA journal_mode=OFF; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA synchronous=OFF").fetchall()
    connection.execute("UPDATE meta SET value = ? WHERE key = ?", (target.name, NAME))
    full_text = connection.execute("SELECT sum(length(block)) FROM fts_data").get
    counts: list[Any] = connection.execute(
        "SELECT (SELECT max(id) FROM chunk), (SELECT max(id) FROM document)"
    ).fetchall()
    ((chunks, documents),) = counts
    if connection.execute("SELECT count(*) FROM chunk").get != chunks:
        raise SystemExit(f"{source.name} has changed since its first index. Make it anew: `--only index`.")
    for copy in range(1, times):
        values = {"copy": f"{target.stem}-{copy}", "chunks": copy * chunks, "documents": copy * documents}
        with connection:
            for table, rows in ROWS.items():
                connection.execute(
                    f"INSERT INTO {table} SELECT {rows}",
                    {**values, "of_chunks": chunks, "of_documents": documents},
                )
            _vectors(connection, copy, chunks)
        note(f"{(copy + 1) * chunks:,} chunks after {time.perf_counter() - began:.0f} s")
    with connection:
        _packed(connection, times, chunks, documents)
        _postings(connection, times, chunks)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.close()
    size = target.stat().st_size
    return {"chunks": times * chunks, "documents": times * documents, "bytes": size, "full_text": full_text,
            "bytes_with_full_text": size + (times - 1) * full_text}  # fmt: skip


def _vectors(connection: apsw.Connection, copy: int, chunks: int) -> None:
    random = np.random.default_rng(copy)
    for start in range(0, chunks, BLOCK):
        rows: list[Any] = connection.execute(
            "SELECT chunk_id, embedding FROM vector WHERE chunk_id > ? AND chunk_id <= ?",
            (start, min(start + BLOCK, chunks)),
        ).fetchall()
        known = [blob for _, blob in rows if blob is not None]
        if known:
            stored = np.frombuffer(b"".join(known), np.int8).reshape(len(known), -1)
            moved = stored + random.integers(-NOISE, NOISE + 1, stored.shape, np.int16)
            noisy = iter(np.clip(moved, -127, 127).astype(np.int8))
        connection.executemany(
            "INSERT INTO vector VALUES (?, ?, ?)",
            (
                (copy * chunks + chunk, copy * chunks + chunk, None if blob is None else next(noisy).tobytes())
                for chunk, blob in rows
            ),
        )


def _packed(connection: apsw.Connection, times: int, chunks: int, documents: int) -> None:
    stored: list[Any] = connection.execute("SELECT name, data FROM packed").fetchall()
    data: dict[str, bytes] = dict(stored)
    random = np.random.default_rng(0)
    lengths = np.diff(growing(data["lengths"]), prepend=0)
    assert len(lengths) == chunks, "not all of the source is packed"
    more = random.integers(0, LONGER, (times, chunks))
    more[0] = 0
    of_documents = np.frombuffer(data["documents"], np.int32)
    words = [data[name] for name in sorted(data) if name.startswith(WORD)]  # as one value, or each of fewer than ten
    bits = np.frombuffer(b"".join(words), np.uint64).reshape(-1, chunks)
    every = np.empty((len(bits), times * chunks), np.uint64)
    for copy in range(times):
        mask = np.zeros_like(bits)
        if copy:
            mask = ~mask
            for _ in range(FLIPPED):
                mask &= random.integers(0, 2**64, bits.shape, np.uint64)
        every[:, copy * chunks : (copy + 1) * chunks] = bits ^ mask
    signed = np.tile(np.frombuffer(data["signed"], np.bool_), times)
    every[:, ~signed] = 0
    new = {
        "ids": written(np.arange(1, times * chunks + 1)),
        "lengths": written(np.cumsum((lengths + more).ravel())),
        "documents": np.concatenate([of_documents + copy * documents for copy in range(times)]).tobytes(),
        "signed": signed.tobytes(),
        **({f"{WORD}{number}": word.tobytes() for number, word in enumerate(every)}
           if every.nbytes > MOST_BYTES else {"bits": every.tobytes()}),
    }  # fmt: skip
    if every.nbytes > MOST_BYTES:
        connection.execute("DELETE FROM packed WHERE name = 'bits'")
    connection.executemany("INSERT OR REPLACE INTO packed VALUES (?, ?)", new.items())
    connection.execute("UPDATE meta SET value = abs(random() / 2) WHERE key IN ('pack', 'generation')")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'packed_to'", (times * chunks,))


def _postings(connection: apsw.Connection, times: int, chunks: int) -> None:
    """Repeat the places of each term: the first step of a copy leads on from the last place of the one before."""
    terms = [term for (term,) in connection.execute("SELECT term FROM posting")]
    for term in terms:
        found: list[Any] = connection.execute("SELECT places, counts FROM posting WHERE term = ?", (term,)).fetchall()
        ((places, counts),) = found
        at = growing(places)
        first, last = int(at[0]), int(at[-1])
        rest = places[first // MORE + 1 :]
        step = chunks + first - last
        again = bytes([MORE]) * (step // MORE) + bytes([step % MORE]) + rest
        connection.execute(
            "UPDATE posting SET places = ?, counts = ? WHERE term = ?",
            (places + again * (times - 1), counts * times, term),
        )

    def rows(statement: str, *values: apsw.SQLiteValue) -> list[Any]:
        return connection.execute(statement, values).fetchall()

    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (PACKED_SUM, packed_sum(rows)))
