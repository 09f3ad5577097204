"""What a search needs to know besides the indexes, as a hub has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.confidence import PACKAGED
from kbhub.errors import EmbedderError
from kbhub.keeping import Keeping
from kbhub.later import outside
from kbhub.later import standing as standings
from kbhub.query import parsed
from kbhub.search import Surroundings
from kbhub.second_look import second_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.embedding import Embedder
    from kbhub.hits import Searched
    from kbhub.hub import Hub
    from kbhub.types import Base, Verdict


def surroundings_of(hub: Hub, embedder: Embedder | None, notes: list[str]) -> Surroundings:
    """Give the surroundings of one search.

    Args:
        hub: what searches.
        embedder: gives the query's vector; none for a search by words alone.
        notes: what limits the answer; is added to while the search runs.
    """

    def embed(text: str) -> NDArray[np.float32] | None:
        if embedder is None:
            return None
        try:
            vector = embedder.embed_query(text)
        except EmbedderError as error:
            notes.append(f"Keyword search only: {error}")
            return None
        if not vector.any():
            if parsed(text).terms:  # a query without words has a note of its own
                notes.append("Keyword search only: the embedding model does not know the words of this query.")
            return None
        return vector

    settings, now = hub.config().settings, hub.options.clock()

    def standing(one: Searched, paths: Sequence[str]) -> dict[str, float]:
        found = standings.standings(one.index, one.base, standings.uses_of(hub), paths, now)
        return {path: one.factor for path, one in found.items()}

    look = second_look(settings.search, hub.cache, notes.append)
    bases = hub.discovery().bases

    def gone_since(base: Base, path: str) -> float | None:
        return Keeping(hub.limits()["kept"], base).gone_since(path)

    model = settings.embedder.model or PACKAGED
    return Surroundings(now, embed, bases, model, settings.contexts, standing, gone_since, look)


def elsewhere(hub: Hub, verdict: Verdict | None) -> list[str]:
    """Say where else an answer may be: in bases that cannot be used and, where there is none, in no base at all.

    Args:
        hub: of the workspace.
        verdict: on what was found.
    """
    broken = [f"{one.subject}: {one.message}" for one in hub.missing()]
    return [*broken, *(outside.outside(hub) if verdict == "none" else ())]
