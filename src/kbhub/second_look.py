"""A second look at the best chunks, by a better model than searched for them: lazy, kept, and bounded in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.fusion import Fused, Part, best_first
from kbhub.index.looks import KeptVectors
from kbhub.indexing import chunk_key
from kbhub.onnx_embedding import minilm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kbhub.config import SearchSettings
    from kbhub.embedding import Embedder
    from kbhub.ranking import Key

SIGNAL = "second_look"
"""Its name in traces and in `Query.without`."""

SHARE = 0.4
"""Share of the second look in the score of a chunk. docs/how-to/better-ranking.md has the table."""

FILE = "second-look.db"
"""Where vectors are kept, in the cache directory."""


class SecondLook:
    """Compares texts with a query by a model that is too slow to index everything with.

    Args:
        kept: vectors of earlier looks.
        seconds: how long a look may take, the loading of the model included; one text is always read.
        note: told, in a sentence, what limits a look.
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
        """Give the cosines of texts to a query.

        Args:
            query: what is asked.
            texts: the most promising first, for time may not suffice for all.

        Returns:
            A value for each text for which there was time, and that the model can read; none if the query is not in
            its language.
        """
        end = self._clock() + self._seconds
        # numpy is worth its time only where a vector is wanted.
        from kbhub.vectors import quantise, similarity  # noqa: PLC0415

        try:
            asked = self._embedder.embed_query(query)
            if not asked.any():
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
        found = similarity(list(readable.values()), quantise(asked))
        return dict(zip(readable, found, strict=True))

    def _vectors(self, texts: Mapping[Key, str], end: float) -> dict[Key, bytes]:
        """Give the vectors of texts: those that are kept, and what can be made in time."""
        # As above.
        from kbhub.vectors import quantise  # noqa: PLC0415

        # Another model's vectors have other keys.
        names = {key: chunk_key(f"{self._embedder.fingerprint}\0{text}") for key, text in texts.items()}
        size = self._embedder.dimensions
        known = {name: vector for name, vector in self._kept.get(names.values()).items() if len(vector) == size}
        made: dict[int, bytes] = {}
        for key, text in texts.items():
            if names[key] in known or names[key] in made:
                continue
            if made and self._clock() >= end:  # one at least, or a slow machine would never get on
                break
            made[names[key]] = quantise(self._embedder.embed([text])[0]).tobytes()
        if made:
            self._kept.put(made)
        known |= made
        return {key: known[name] for key, name in names.items() if name in known}


def second_look(settings: SearchSettings, cache: Path, note: Callable[[str], None]) -> SecondLook | None:
    """Give the second look of the settings; none where it is off, and nothing is loaded before it is used.

    Args:
        settings: of searches.
        cache: kbhub's cache directory.
        note: told, in a sentence, what limits a look.
    """
    if not settings.second_look:
        return None
    return SecondLook(KeptVectors(cache / FILE), settings.second_look_seconds, note)


def mix(fused: Sequence[Fused], similarities: Mapping[Key, float], share: float = SHARE) -> list[Fused]:
    """Mix the values of a second look into the scores of the chunks that were looked at.

    The values are stretched over the scores that these chunks have, and the score becomes a mean of both. So a chunk
    loses as much as another gains, whoever was not looked at keeps score and place, and none falls below those.

    Args:
        fused: best first.
        similarities: cosines of those that were looked at.
        share: weight of the second look in that mean.

    Returns:
        The same chunks, best first, with a further part.
    """
    sums = {one.key: sum(part.amount for part in one.parts) for one in fused if one.key in similarities}
    values = [similarities[key] for key in sums]
    if not values or max(values) <= min(values):
        return list(fused)
    low, least = min(sums.values()), min(values)
    stretch = (max(sums.values()) - low) / (max(values) - least)
    mixed = []
    for one in fused:
        if one.key in sums:
            value = similarities[one.key]
            part = Part(SIGNAL, value, share * (low + stretch * (value - least) - sums[one.key]))
            # One that adds nothing is shown, too.
            mixed.append(Fused(one.key, one.document, (*one.parts, part), one.factors))
        else:
            mixed.append(one)
    return best_first(mixed)
