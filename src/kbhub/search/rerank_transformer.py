"""Rerank the best chunks by the vectors of a transformer, which the indexer made ahead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.index.bm25 import Ranking, keys_of
from kbhub.index.rows import Key
from kbhub.index.side_files import TransformerVectors
from kbhub.index.signatures import quantise, similarity
from kbhub.search.scores import Fused, SignalPart, best_first

if TYPE_CHECKING:
    from kbhub.models.embedding import Embedder
    from kbhub.search.hits import OpenBase

SIGNAL = "second_look"
"""Name of the signal in traces and in `Query.without`."""

CANDIDATES = 50
"""Best chunks by each signal that are reranked: 89 % of the answers to questions in whole sentences are among the
first 20, and a perfect order of the best 50 of each would have nearly all."""

MOST_SHARE, LEAST_SHARE = 0.75, 0.1
LOW_COVERAGE, HIGH_COVERAGE = 0.25, 0.65
"""Share of the transformer in a candidate's score: the first where the chunk that has most of the query's terms has up
to the lower share of them by weight, the second from the higher one on, and between them it falls evenly. On a base of
949 documents, nDCG@10 of 85 questions is .591 without and .689 with it; docs/explanation/ranking.md has the table."""

LEAST_KNOWN = 0.5
"""Share of the candidates that must have a vector; with fewer, their order would be a matter of which have one."""


class TransformerRanking:
    """A comparison of chunks with a query by their transformer vectors; `note` gets a sentence if it fails."""

    def __init__(self, embedder: Embedder, note: Callable[[str], None]) -> None:
        self._embedder, self._note = embedder, note

    def __call__(self, text: str, searched: Sequence[OpenBase], chunks: Iterable[Key]) -> dict[Key, float]:
        """Return chunk → cosine to a query and its other wordings, for chunks with a vector.

        The result is empty if too few have one, or if the query is not in the model's language. Each index is within a
        snapshot.
        """
        wanted = list(chunks)
        vectors = self._vectors(searched, wanted)
        if not vectors or len(vectors) < LEAST_KNOWN * len(wanted):
            return {}
        try:
            asked = self._embedder.embed_query(text)
        except EmbedderError as error:
            self._note(f"Not reranked: {error}")
            return {}
        if not asked.any():
            return {}
        return dict(zip(vectors, similarity(list(vectors.values()), quantise(asked)), strict=True))

    def _vectors(self, searched: Sequence[OpenBase], chunks: Iterable[Key]) -> dict[Key, bytes]:
        by_base: dict[int, list[int]] = defaultdict(list)
        for number, chunk in chunks:
            by_base[number].append(chunk)
        size = self._embedder.dimensions
        found: dict[Key, bytes] = {}
        for number, ids in by_base.items():
            index = searched[number].index
            keys = index.text_keys(ids)
            stored = TransformerVectors(index.path, self._embedder.fingerprint).get(keys.values())
            for chunk, key in keys.items():
                # A text that the model cannot read has zeros.
                if len(vector := stored.get(key, b"")) == size and any(vector):
                    found[number, chunk] = vector
        return found


def candidates(rankings: Iterable[Ranking]) -> list[Key]:
    """Return the best chunks of each ranking."""
    return list(dict.fromkeys(key for ranking in rankings for key in keys_of(ranking.chunks[:CANDIDATES])))


def share(coverage: float) -> float:
    """Return the transformer's share in the scores of the candidates, for a coverage as in `fusion.fuse`."""
    missing = (HIGH_COVERAGE - coverage) / (HIGH_COVERAGE - LOW_COVERAGE)
    return LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * min(1.0, max(0.0, missing))


def mix(fused: Sequence[Fused], similarities: Mapping[Key, float], weight: float) -> list[Fused]:
    """Mix cosines into the scores of chunks and return them best first; those with a cosine have an additional part.

    The cosines are stretched to the range of these chunks' scores, and the new score is the mean of both, with `weight`
    for the cosines.
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
            part = SignalPart(SIGNAL, value, weight * (low + stretch * (value - least) - sums[hit.key]))
            # Shown even if it adds nothing.
            mixed.append(Fused(hit.key, hit.document, (*hit.parts, part), hit.factors))
        else:
            mixed.append(hit)
    return best_first(mixed)
