"""Rerank the best chunks with a better embedding model: loaded lazily, cached, and limited in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.index.references import chunk_key
from kbhub.index.transformer_cache import KeptVectors
from kbhub.models.onnx_embedding import minilm
from kbhub.models.vectors import quantise, similarity
from kbhub.search.scores import Fused, Part, best_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kbhub.index.ranking import Key
    from kbhub.models.embedding import Embedder
    from kbhub.workspace.settings import SearchSettings

SIGNAL = "second_look"
"""Name of the signal in traces and in `Query.without`."""

SHARE = 0.4
"""Share of the second look in a chunk's score; docs/how-to/better-ranking.md has the table."""

FILE = "second-look.db"
"""Cached vectors, in the cache directory."""


class SecondLook:
    """Compare texts with a query by a model too slow for indexing.

    Args:
        kept: cached vectors.
        seconds: time limit of a look, including loading the model; at least one text is always read.
        note: called with a sentence if a look is limited.
        embedder: the model; all-MiniLM-L6-v2 if none.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        kept: KeptVectors,
        seconds: float,
        note: Callable[[str], None],
        embedder: Embedder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kept, self._seconds, self._note, self._clock = kept, seconds, note, clock
        self._embedder = embedder or minilm()

    def __call__(self, query: str, texts: Mapping[Key, str]) -> dict[Key, float]:
        """Return the cosines of texts to a query.

        Args:
            query: the query.
            texts: the most promising first, since time may not suffice for all.

        Returns:
            A value for each text the model can read and had time for; empty if the query is not in the model's
            language.
        """
        end = self._clock() + self._seconds
        try:
            vector = self._embedder.embed_query(query)
            if not vector.any():
                return {}
            vectors = self._vectors(texts, end)
        except EmbedderError as error:
            self._note(f"No second look: {error}")
            return {}
        if len(vectors) < len(texts):
            self._note(
                f"The second look had time for {len(vectors)} of the {len(texts)} best chunks; asked again, for more."
            )
        readable = {key: vector for key, vector in vectors.items() if any(vector)}
        cosines = similarity(list(readable.values()), quantise(vector))
        return dict(zip(readable, cosines, strict=True))

    def _vectors(self, texts: Mapping[Key, str], end: float) -> dict[Key, bytes]:
        """Give the vectors of texts: those that are kept, and what can be made in time."""
        # Another model's vectors have other keys.
        names = {key: chunk_key(f"{self._embedder.fingerprint}\0{text}") for key, text in texts.items()}
        size = self._embedder.dimensions
        cached = {name: vector for name, vector in self._kept.get(names.values()).items() if len(vector) == size}
        new: dict[int, bytes] = {}
        for key, text in texts.items():
            if names[key] in cached or names[key] in new:
                continue
            if new and self._clock() >= end:  # at least one, or a slow machine would make no progress
                break
            new[names[key]] = quantise(self._embedder.embed([text])[0]).tobytes()
        if new:
            self._kept.put(new)
        cached |= new
        return {key: cached[name] for key, name in names.items() if name in cached}


def second_look(settings: SearchSettings, cache: Path, note: Callable[[str], None]) -> SecondLook | None:
    """Return the second look, or None if it is off; its model is loaded on first use.

    Args:
        settings: the search settings.
        cache: kbhub's cache directory.
        note: called with a sentence if a look is limited.
    """
    if not settings.second_look:
        return None
    return SecondLook(KeptVectors(cache / FILE), settings.second_look_seconds, note)


def mix(fused: Sequence[Fused], similarities: Mapping[Key, float], share: float = SHARE) -> list[Fused]:
    """Mix the values of a second look into the scores of the examined chunks.

    The values are stretched to the range of these chunks' scores, and the new score is a weighted mean of both. So
    unexamined chunks keep score and place, and no examined chunk falls below them.

    Args:
        fused: best first.
        similarities: cosines of the examined chunks.
        share: weight of the second look in that mean.

    Returns:
        The same chunks, best first, with an additional part.
    """
    sums = {hit.key: sum(part.amount for part in hit.parts) for hit in fused if hit.key in similarities}
    values = [similarities[key] for key in sums]
    if not values or max(values) <= min(values):
        return list(fused)
    low, least = min(sums.values()), min(values)
    stretch = (max(sums.values()) - low) / (max(values) - least)
    mixed = []
    for hit in fused:
        if hit.key in sums:
            value = similarities[hit.key]
            part = Part(SIGNAL, value, share * (low + stretch * (value - least) - sums[hit.key]))
            # Shown even if it adds nothing.
            mixed.append(Fused(hit.key, hit.document, (*hit.parts, part), hit.factors))
        else:
            mixed.append(hit)
    return best_first(mixed)
