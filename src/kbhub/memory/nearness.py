"""Which memories are near a text in meaning, by the vectors of their indexes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import parse_document
from kbhub.errors import EmbedderError, IndexUnavailable, PathNotContained
from kbhub.index.keys import embedded_text
from kbhub.memory.likeness import NEAR_SHOWN, NEAR_SIMILARITY
from kbhub.memory.store import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.hub import Hub
    from kbhub.memory.store import Stored
    from kbhub.models.embedding import Embedder
    from kbhub.workspace.memory_folders import Shelf

COMPARED_CHUNKS = 8
"""Limit of chunks of the text that are compared: its first 4,000 words; few memories are longer."""

NEIGHBOURS = 20
"""Chunks considered in each base; more than `NEAR_SHOWN`, as several may belong to one memory or to documents."""


def nearest(hub: Hub, shelves: Iterable[Shelf], name: str, text: str) -> list[tuple[Stored, float]]:
    """Return the stored memories nearest to a new one, with cosine similarity, best first.

    Args:
        hub: owner of the indexes, which are used as they are.
        shelves: folders to search.
        name: name of the new file.
        text: content of the new file.
    """
    document = parse_document(name, text.encode())
    texts = [
        embedded_text(document.title, chunk.headings, chunk.text[chunk.prose :]) for chunk in chunk_document(document)
    ]
    matches: dict[tuple[str, str], tuple[Stored, float]] = {}
    try:
        embedder = hub.embedder()
        if embedder is None or not texts:
            return []
        for shelf in shelves:
            for path, similarity in _near_paths(hub, shelf, embedder, texts[:COMPARED_CHUNKS]).items():
                with suppress(PathNotContained):
                    if stored := read(shelf, path):
                        matches[shelf.place, path] = stored, similarity
    except EmbedderError:  # remembering works without a model; searches report what is wrong with it
        return []
    return sorted(matches.values(), key=lambda match: (-match[1], match[0].path))[:NEAR_SHOWN]


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
    except IndexUnavailable:  # not indexed yet
        return {}
    return best
