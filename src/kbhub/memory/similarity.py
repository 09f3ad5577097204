"""Whether memories have the same wording, and which are near in meaning."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kbhub.documents.chunking import chunk_document
from kbhub.documents.markdown import parse_document
from kbhub.errors import EmbedderError, IndexUnavailable, PathNotContained
from kbhub.index.query.tokens import normalise, stems
from kbhub.index.references import embedded_text
from kbhub.memory.files import MemoryFile, read, with_ids
from kbhub.workspace.memory_folders import MemoryFolder

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.models.embedding import Embedder

NEAR_SIMILARITY = 0.65
"""Cosine from which a memory is reported as near: of the pairs above it finds 19 of 20 with the same meaning, 18 of 20
that contradict each other, and 1 of 16 about another aspect of the same thing (.23 to .57, one .77)."""

NEAR_SHOWN = 3
"""Limit of near memories that are reported."""

ID_CHARACTERS = 8
"""Length of an id: 40 bits, so with 10,000 memories one user in 20,000 has a collision."""

ATTEMPTS = 100
"""Limit of ids tried; the second is needed if another project has the same text, the third hardly ever."""

_SILENT = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "been", "it", "its", "that", "this"})
"""Words without meaning of their own: articles, forms of "be", pronouns."""

_AROUND = "*\"'“”‘’`()"
_AFTER = ".,;:!?"
_LIST_MARK = re.compile(r"^\s*(?:[-*+>]|#{1,6}|\d+[.)])\s+", re.MULTILINE)


COMPARED_CHUNKS = 8
"""Limit of chunks of the text that are compared: its first 4,000 words; few memories are longer."""

NEIGHBOURS = 20
"""Chunks considered in each base; more than `NEAR_SHOWN`, as several may belong to one memory or to documents."""


def wording(text: str) -> str:
    """Return the normalised words of a text; memories with equal wording are the same."""
    plain = normalise(_LIST_MARK.sub("", text)).casefold()
    words = [word for part in plain.split() if (word := _word(part)) and word not in _SILENT]
    return " ".join(words) or plain.strip()


def ids_of(text: str) -> Iterator[str]:
    """Derive the ids that a text may have from its wording, so that two agents that remember the same write one file.

    The first is its id, unless another memory has it.
    """
    words = wording(text)
    for attempt in range(ATTEMPTS):
        digest = hashlib.sha256(f"{words}\0{attempt or ''}".encode("utf-8", "replace")).digest()
        yield base64.b32encode(digest)[:ID_CHARACTERS].decode("ascii").lower()


def filed(shelf: MemoryFolder, text: str) -> MemoryFile | None:
    """Return the memory of a folder with the wording of a text under one of its ids, or None; needs no index."""
    words = wording(text)
    return next((one for one in with_ids(shelf, set(ids_of(text))) if wording(one.content.body) == words), None)


def _word(part: str) -> str:
    word = part.strip(_AROUND).rstrip(_AFTER).strip(_AROUND)
    # Identifiers, paths, numbers and operators must match exactly.
    return " ".join(stems(word)) if word.isalpha() and word.isascii() else word


def nearest(hub: Hub, shelves: Iterable[MemoryFolder], name: str, text: str) -> list[tuple[MemoryFile, float]]:
    """Return the stored memories near to a new file, with cosine similarity, best first and without superseded ones.

    Indexes are used as they are. Of equally near memories, those of the first folder come first.
    """
    document = parse_document(name, text.encode())
    texts = [
        embedded_text(document.title, chunk.headings, chunk.text[chunk.prose :]) for chunk in chunk_document(document)
    ]
    matches: dict[tuple[str, str], tuple[MemoryFile, float]] = {}
    try:
        embedder = hub.embedder()
        if embedder is None or not texts:
            return []
        for shelf in shelves:
            for path, similarity in sorted(_near_paths(hub, shelf, embedder, texts[:COMPARED_CHUNKS]).items()):
                with suppress(PathNotContained):
                    if (stored := read(shelf, path)) and not stored.content.facts.superseded_by:
                        matches[shelf.place, path] = stored, similarity
    except EmbedderError:  # remembering works without a model; searches report what is wrong with it
        return []
    return sorted(matches.values(), key=lambda match: -match[1])


def _near_paths(hub: Hub, shelf: MemoryFolder, embedder: Embedder, texts: list[str]) -> dict[str, float]:
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
