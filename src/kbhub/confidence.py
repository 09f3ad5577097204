"""How far an answer can be trusted: a probability from the chunk that supports it best, and a verdict in a word."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.types import Verdict

STRONG, WEAK = 0.8, 0.13
"""Confidence from which an answer is called strong, and below which nothing covers the query. Chosen so that of
questions with an answer at most 5 in 100 are told `none`, and of questions whose answer was taken out at most 15 in 100
`strong`, in bases of every size; docs/explanation/ranking.md has the table."""

ABSENT_NAME = 0.79
"""Largest confidence where a name of the query occurs nowhere: below `STRONG`."""

MOST_TERMS = 12
"""Terms above which a longer query is no longer expected to be covered less."""

FEWEST_CHUNKS = 10
"""Chunks below which a base counts as no smaller."""

PACKAGED = "packaged"
"""The packaged model, among those whose cosines are calibrated; others go by the name that the setting has."""


class Weights(NamedTuple):
    """A logistic regression of "this chunk belongs to an answer": what each value is multiplied by."""

    similarity: float
    coverage: float
    together: float
    phrase: float
    terms: float
    cohesion: float
    size: float
    """Of the decimal logarithm of the chunks in its base: among more of them, one is as near by chance."""
    constant: float


WORDS = Weights(0.0, 2.88, 2.37, 1.45, 0.06, -3.02, -0.5, -0.75)
"""Of words alone."""

MODELS: Mapping[str, Weights] = MappingProxyType(
    {
        PACKAGED: Weights(4.06, 1.43, 2.29, 1.3, -0.03, -3.15, -0.8, -0.1),
        "minilm": Weights(5.72, 0.49, 3.57, 2.44, -0.07, -4.54, -0.84, 0.2),
    }
)
"""Of words and the cosine of a model. Fitted to leave-the-answer-out questions: each question asked of a base with its
answer, of the same base without it, and of a base of something else (`kbhub eval --without-answers`)."""


@struct
class Support:
    """What one chunk has of what was asked for; each from 0 to 1."""

    coverage: float
    """Share of the query's terms by rarity, those that occur nowhere included, that a reader of the chunk sees."""
    together: float
    """The same of those that stand together."""
    phrase: float
    """Share of the query's neighbouring words that are neighbours."""
    similarity: float | None
    """Cosine to the query; none where no calibrated model compared them."""
    size: int
    """Chunks in its base."""


def confidence(supports: Iterable[Support], terms: int, cohesion: float, model: str | None) -> float:
    """Give the probability that a query has an answer: that of the chunk that supports it best.

    What is looked at belongs to one chunk, its base and the query: so a chunk is worth the same whatever is searched
    beside it.

    Args:
        supports: of the chunks that were looked at.
        terms: number of terms of the query.
        cohesion: as `rarity.cohesion` gives it.
        model: whose cosines these are; none, or one without weights of its own, for words alone.
    """
    weights = MODELS.get(model or "", WORDS)
    return max((_confidence(one, terms, cohesion, weights) for one in supports), default=0.0)


def _confidence(one: Support, terms: int, cohesion: float, weights: Weights) -> float:
    if one.similarity is None:
        weights = WORDS
    return _logistic(
        weights.similarity * (one.similarity or 0.0)
        + weights.coverage * one.coverage
        + weights.together * one.together
        + weights.phrase * one.phrase
        + weights.terms * min(terms, MOST_TERMS)
        + weights.cohesion * cohesion
        + weights.size * math.log10(max(one.size, FEWEST_CHUNKS))
        + weights.constant
    )


def verdict(confidence: float) -> Verdict:
    """Give the word for a confidence."""
    return "strong" if confidence >= STRONG else "weak" if confidence >= WEAK else "none"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
