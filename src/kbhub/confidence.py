"""How far an answer can be trusted: a probability from the best evidence, and a verdict in a word."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.types import Verdict

STRONG, WEAK = 0.7, 0.2
"""Confidence from which an answer is called strong, and below which nothing covers the query. Of the questions of
one collection asked of another, 2 of 100 are called strong; of those that have an answer, 4 of 100 none."""

MOST_TERMS = 12
"""Terms above which a longer query is no longer expected to be covered less."""

_HYBRID = (16.83, 9.59, 0.44, -15.85)
_SEMANTIC = (21.06, -10.36)
_KEYWORD = (12.12, 8.26, 0.71, -11.73)
"""Logistic regressions of "the query has an answer here" on five collections, each weighing the same, against the
questions of the other four. With a collection left out of the fit, the area under the curve over all is .985 with
both signals, .974 for the semantic alone, .970 for keywords. docs/explanation/ranking.md says how to repeat it."""


def hybrid_confidence(similarity: float, coverage: float, terms: int) -> float:
    """Give the probability that a query has an answer, from both signals.

    Args:
        similarity: largest cosine of any chunk, by the packaged model.
        coverage: largest share of the query's terms by weight, those that occur nowhere included, in one chunk.
        terms: number of terms.
    """
    a, b, c, d = _HYBRID
    return _logistic(a * similarity + b * coverage + c * min(terms, MOST_TERMS) + d)


def semantic_confidence(similarity: float) -> float:
    """Give the same from the largest cosine alone."""
    a, b = _SEMANTIC
    return _logistic(a * similarity + b)


def keyword_confidence(coverage: float, phrase: float, terms: int) -> float:
    """Give the same from words alone.

    Args:
        coverage: as for `hybrid_confidence`.
        phrase: largest share of the query's neighbouring words that are neighbours in one chunk.
        terms: number of terms.
    """
    a, b, c, d = _KEYWORD
    return _logistic(a * coverage + b * phrase + c * min(terms, MOST_TERMS) + d)


def verdict(confidence: float) -> Verdict:
    """Give the word for a confidence."""
    return "strong" if confidence >= STRONG else "weak" if confidence >= WEAK else "none"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
