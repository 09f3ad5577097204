"""Which memories are near to a text in meaning: from the vectors of their indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.chunking import chunk_document
from kbhub.errors import EmbedderError, IndexUnavailable, PathNotContained
from kbhub.indexing import embedded_text
from kbhub.markdown import parse_document
from kbhub.memory.likeness import NEAR_SHOWN, NEAR_SIMILARITY
from kbhub.memory.store import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.embedding import Embedder
    from kbhub.hub import Hub
    from kbhub.memory.folders import Shelf
    from kbhub.memory.store import Stored

COMPARED_CHUNKS = 8
"""Chunks of a text that are compared: the first 4,000 words of it, which a memory rarely has."""

NEIGHBOURS = 20
"""Chunks that are looked at in each base; more than `NEAR_SHOWN`, for several may be of one memory, or of documents."""


def nearest(hub: Hub, shelves: Iterable[Shelf], name: str, text: str) -> list[tuple[Stored, float]]:
    """Give the memories nearest to one that is to be written, as they are now, with cosine similarity, best first.

    Args:
        hub: what owns the indexes; they are taken as they are.
        shelves: where to look.
        name: of its file.
        text: of its file.
    """
    document = parse_document(name, text.encode())
    texts = [
        embedded_text(document.title, chunk.headings, chunk.text[chunk.prose :]) for chunk in chunk_document(document)
    ]
    found: dict[tuple[str, str], tuple[Stored, float]] = {}
    try:
        embedder = hub.embedder()
        if embedder is None or not texts:
            return []
        for shelf in shelves:
            for path, similarity in _near_paths(hub, shelf, embedder, texts[:COMPARED_CHUNKS]).items():
                stored = _still_there(shelf, path)
                if stored:
                    found[shelf.place, path] = stored, similarity
    except EmbedderError:  # it is remembered without; searches say what is wrong with the model
        return []
    return sorted(found.values(), key=lambda one: (-one[1], one[0].path))[:NEAR_SHOWN]


def _near_paths(hub: Hub, shelf: Shelf, embedder: Embedder, texts: list[str]) -> dict[str, float]:
    index = hub.index(shelf.base)
    best: dict[str, float] = {}
    try:
        with index.snapshot():
            if index.meta("embedder") != embedder.fingerprint:
                return {}
            for vector in embedder.embed(texts):
                near = {
                    chunk: similarity
                    for chunk, similarity in index.semantic(vector, NEIGHBOURS)
                    if vector.any() and similarity >= NEAR_SIMILARITY
                }
                rows = index.chunks(list(near))
                documents = index.documents([row.document_id for row in rows.values()])
                for chunk, row in rows.items():
                    path = documents[row.document_id].path
                    if path.startswith(shelf.prefix):
                        best[path] = max(best.get(path, 0.0), near[chunk])
    except IndexUnavailable:  # nothing was indexed yet
        return {}
    return best


def _still_there(shelf: Shelf, path: str) -> Stored | None:
    try:
        return read(shelf, path)
    except PathNotContained:
        return None
