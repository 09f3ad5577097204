"""An index of any size in a fraction of the time that indexing would take: a real one, again and again in other words.

Documents are read, parsed and embedded once. Copies of them are written by the same code as any document, with two in
three long words renamed, another vector near the real one, and a path of their own, so tables, full-text index and
packing are those of a base of that size. There are no files, so nothing of reading and comparing can be measured.
"""

from __future__ import annotations

import dataclasses
import json
import re
import resource
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.data import _letters
from kbhub.index.references import document_id
from kbhub.index.sqlite import packing, writer
from kbhub.sync.comparing import scan_base
from kbhub.sync.deleted_texts import Keeping
from kbhub.sync.indexing import DocumentReader, Embedding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.api import Hub
    from kbhub.index.new_documents import NewDocument

LONG = re.compile(r"[A-Za-z]{9,}")

FAMILIES = 6
"""Other forms of a renamed word: six times the vocabulary in 5 million chunks, as Heaps' law with the exponent of real
text has it."""

NOISE = 30
"""Most that is added to a component of a vector: the cosine of copies is .9."""

BATCH = 256
"""Documents per transaction, as in a sync."""

MIX = 0x9E3779B97F4A7C15


def multiply(hub: Hub, source: str, target: str, chunks: int) -> dict[str, Any]:
    """Write copies of the documents of a base to the index of another, until it has so many chunks.

    Args:
        hub: in which both are active.
        source: base that is read.
        target: base whose index is written, or written to.
        chunks: that it has at the end, at least.
    """
    documents, vectors = _read(hub, source)
    (base,) = hub.select([target])
    path = hub.index(base).path
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    started = time.perf_counter()

    def note(what: str) -> None:
        rows.append({
            "what": what, "wall": time.perf_counter() - started, "cpu": time.process_time(),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "bytes": path.stat().st_size,
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)

    pack = packing.pack

    def packed(connection: Any) -> None:
        note("merged")
        pack(connection)
        note("packed")

    writer.pack = packed
    with writer.IndexWriter(path) as index:
        index.set_meta({"embedder": hub.embedder().fingerprint, "dimensions": hub.embedder().dimensions})
        each = sum(len(document.chunks) for document in documents)
        have = index.counts()[1]
        written = 0
        for copy in range(have // each, -(-chunks // each)):
            _write(index, base, documents, vectors, copy)
            written += each
            note(f"{have + written} chunks")
        index.tidy(written)
        note("end")
        return {"documents": index.counts()[0], "chunks": index.counts()[1], "rows": rows}


def _read(hub: Hub, name: str) -> tuple[list[NewDocument], dict[int, bytes | None]]:
    (base,) = hub.select([name])
    limits = hub.limits()
    keeping = Keeping(limits.kept, base)
    scan = scan_base(base, keeping, limits)
    with DocumentReader(base, keeping, limits) as files:
        read = files.read_all([scan.entry(path) for path in sorted(scan.files)], Embedding(hub.embedder()))
    return list(read.documents), dict(read.vectors)


def _write(
    index: writer.IndexWriter, base: Any, documents: Sequence[NewDocument], vectors: dict[int, bytes | None], copy: int
) -> None:
    known: dict[str, str] = {}

    def other(found: re.Match[str]) -> str:
        word = found[0]
        if (new := known.get(word)) is None:
            number = sum(map(ord, word.lower()))
            new = known[word] = f"{word}{_letters(1 + (number + copy) % FAMILIES)}" if number % 3 and copy else word
        return new

    random = np.random.default_rng(copy)
    noise, places = random.integers(-NOISE, NOISE + 1, 1 << 20, np.int16), random.integers(0, 1 << 19, 1 << 20).tolist()
    for start in range(0, len(documents), BATCH):
        some = documents[start : start + BATCH]
        noisy: dict[int, bytes | None] = {}
        batch = []
        for document in some:
            parts = []
            for chunk in document.chunks:
                key = chunk.key
                if copy:
                    key = ((chunk.key + copy * MIX + 2**63) % 2**64) - 2**63
                    if (blob := vectors[chunk.key]) is not None:
                        at = places[len(noisy) + start]
                        moved = np.frombuffer(blob, np.int8) + noise[at : at + len(blob)]
                        blob = np.minimum(np.maximum(moved, -127), 127).astype(np.int8).tobytes()
                    noisy[key] = blob
                else:
                    noisy[key] = vectors[chunk.key]
                parts.append(dataclasses.replace(chunk, key=key, text=LONG.sub(other, chunk.text)))
            path = f"{copy}/{document.path}"
            batch.append(dataclasses.replace(document, path=path, docid=document_id(base, path), chunks=tuple(parts)))
        with index.transaction():
            for document in batch:
                index.put(document, noisy)
