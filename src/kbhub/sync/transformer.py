"""Compute the transformer vectors of chunks ahead, for reranking (`search.rerank_transformer`), while nothing waits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from kbhub.errors import IndexUnavailable
from kbhub.index.references import embedded_text
from kbhub.index.rows import title_above
from kbhub.index.transformer_vectors import TransformerVectors
from kbhub.models.onnx import MINILM, installed_model, minilm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kbhub.hub import Hub
    from kbhub.index import Index
    from kbhub.models.embedding import Embedder
    from kbhub.sync.sync import Progress
    from kbhub.types import Base

BATCH = 16
"""Texts between two writes, half a second to two: what a killed process loses."""

POWER = Path("/sys/class/power_supply")
"""On Linux, the power supplies (kernel ABI, `sysfs-class-power`)."""


def is_used(hub: Hub) -> bool:
    """Return whether searches are reranked by the transformer: it is installed, not off, and not the embedder."""
    settings = hub.config().settings
    return settings.search.second_look and settings.embedder.model != MINILM and installed_model() is not None


def machine_is_free(power: Path = POWER) -> bool:
    """Return whether the machine has capacity for work that nobody waits for.

    It has none on battery, as far as the system says (Linux does), or with more other processes ready to run than
    processors.
    """
    try:
        states = [(supply / "status").read_text("utf-8").strip() for supply in power.glob("BAT*")]
    except OSError:
        states = []
    if "Discharging" in states:
        return False
    return not hasattr(os, "getloadavg") or os.getloadavg()[0] < (os.cpu_count() or 1) + 1


def embed_ahead(
    hub: Hub,
    bases: Sequence[Base],
    go_on: Callable[[], bool],
    progress: Progress | None = None,
    embedder: Embedder | None = None,
) -> bool:
    """Compute the vectors that chunks lack and drop those of vanished texts; return whether nothing is left to do.

    One process at a time works on a base. `go_on` is asked before each batch; what was computed before is kept.
    `progress` is called with the base, the number of finished chunks and their total. The default model is
    all-MiniLM-L6-v2.

    Raises:
        EmbedderError: the model cannot be loaded.
    """
    embedder = embedder or minilm()
    for base in bases:
        index = hub.index(base)
        vectors = TransformerVectors(index.path, embedder.fingerprint)
        try:
            with filelock.FileLock(f"{vectors.path}.lock", timeout=0, mode=0o600):
                if not _embed(base, index, vectors, embedder, go_on, progress):
                    return False
        except (filelock.Timeout, IndexUnavailable, OSError):
            continue  # another process does it; there is no index yet; the folder cannot be written
    return True


def _embed(
    base: Base,
    index: Index,
    vectors: TransformerVectors,
    embedder: Embedder,
    go_on: Callable[[], bool],
    progress: Progress | None,
) -> bool:
    with index.snapshot():
        texts = index.text_keys()
    known = vectors.keys()
    vectors.drop(known.difference(texts.values()))
    missing = {key: chunk for chunk, key in texts.items() if key not in known}
    chunks, total = list(missing.items()), len(set(texts.values()))
    for start in range(0, len(chunks), BATCH):
        if not go_on():
            return False
        batch = dict(chunks[start : start + BATCH])
        if not vectors.put(_vectors(index, batch, embedder)):
            return True  # the folder is full or read-only: no use trying on
        if progress:
            progress(base.id, total - len(chunks) + start + len(batch), total)
    return True


def _vectors(index: Index, batch: Mapping[int, int], embedder: Embedder) -> dict[int, bytes]:
    """Return the vectors of texts, by key; without those that vanished meanwhile."""
    # Imports numpy, which a server loads with its first search.
    from kbhub.models.vectors import quantise  # noqa: PLC0415

    with index.snapshot():
        rows = index.chunks(list(batch.values()))
        documents = index.documents([row.document_id for row in rows.values()])
    found = {}
    for key, chunk in batch.items():
        if (row := rows.get(chunk)) and (document := documents.get(row.document_id)):
            title = title_above(document.title, document.kind, row.start_line)
            text = embedded_text(title, row.headings, row.text[row.prose :])
            found[key] = quantise(embedder.embed([text])[0]).tobytes()
    return found


def embedded(hub: Hub, base: Base) -> int:
    """Return how many of a base's texts have a transformer vector."""
    return TransformerVectors(hub.index(base).path, minilm().fingerprint).count()
