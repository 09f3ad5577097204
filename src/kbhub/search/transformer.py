"""Rerank the best chunks by the vectors of a transformer, which the indexer made ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbhub.errors import EmbedderError
from kbhub.index.engine import Key
from kbhub.index.side_files import TransformerVectors
from kbhub.index.signatures import quantise, similarity
from kbhub.models.embedding import minilm
from kbhub.search.names import is_name
from kbhub.search.plan import Candidate, OpenBases, Plan, RankingSignal, SignalPart, by_base

SECOND_LOOK = "second_look"

CANDIDATES = 50
"""Best chunks by each signal that are reranked: 89 % of the answers to questions in whole sentences are among the
first 20, and a perfect order of the best 50 of each would have nearly all."""

MOST_SHARE, LEAST_SHARE = 0.75, 0.1
LOW_COVERAGE, HIGH_COVERAGE = 0.25, 0.65
"""Share of the transformer in a candidate's score: MOST_SHARE up to LOW_COVERAGE (the share of query terms, by weight,
in the best chunk), LEAST_SHARE from HIGH_COVERAGE, linear between. On a base of 949 documents, nDCG@10 of
85 questions is .591 without and .689 with it; docs/explanation/ranking.md has the table."""

LEAST_KNOWN = 0.5
"""Share of the candidates that must have a vector; with fewer, their order would be a matter of which have one."""


def _add(plan: Plan, bases: OpenBases, hits: list[Candidate]) -> None:
    """Mix in cosines to the query and its other wordings, unless too few chunks have a vector.

    The model does not know names of programs, so a query with one is left alone.
    """
    if not bases.hub.reranks() or any(is_name(term.text) for term in plan.parsed.terms):
        return
    model = minilm()
    wanted = [hit.key for hit in hits if any(part.rank and part.rank <= CANDIDATES for part in hit.parts)]
    vectors: dict[Key, bytes] = {}
    for number, chunks in by_base(wanted).items():
        index = bases.open[number].index
        keys = index.text_keys(chunks)
        stored = TransformerVectors(index.path, model.fingerprint).get(keys.values())
        for chunk, key in keys.items():
            # A text that the model cannot read has zeros.
            if len(vector := stored.get(key, b"")) == model.dimensions and any(vector):
                vectors[number, chunk] = vector
    if not vectors or len(vectors) < LEAST_KNOWN * len(wanted):
        return
    try:
        asked = model.embed_query(plan.text)
    except EmbedderError as error:
        bases.notes.append(f"Not reranked: {error}")
        return
    if asked.any():  # zeros for a query in another language than the model's
        cosines = similarity(list(vectors.values()), quantise(asked))
        mix(hits, dict(zip(vectors, cosines, strict=True)), share(plan.coverage))


def share(coverage: float) -> float:
    """Return the transformer's share in the scores of the candidates, for a coverage as in `retrieval.fuse`."""
    missing = (HIGH_COVERAGE - coverage) / (HIGH_COVERAGE - LOW_COVERAGE)
    return LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * min(1.0, max(0.0, missing))


def mix(hits: Sequence[Candidate], similarities: Mapping[Key, float], weight: float) -> None:
    """Mix cosines into the scores of candidates; those with a cosine have an additional part.

    The cosines are stretched to the range of these candidates' scores, and the new score is the mean of both, with
    `weight` for the cosines.
    """
    sums = {hit.key: sum(part.amount for part in hit.parts) for hit in hits if hit.key in similarities}
    values = [similarities[key] for key in sums]
    if not values or max(values) <= min(values):
        return
    low, least = min(sums.values()), min(values)
    stretch = (max(sums.values()) - low) / (max(values) - least)
    for hit in hits:
        if hit.key in sums:
            value = similarities[hit.key]
            amount = weight * (low + stretch * (value - least) - sums[hit.key])
            hit.add([SignalPart(SECOND_LOOK, value, amount)], zeros=True)


SIGNAL = RankingSignal((SECOND_LOOK,), lambda plan: plan.both and plan.asks_for(SECOND_LOOK), _add)
