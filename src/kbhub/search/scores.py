"""Scores of candidates, and the probability that the bases answer a query at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.index.query.parser import ParsedQuery
    from kbhub.index.rows import Key
    from kbhub.types import Correction, Hit, Mode, Verdict

SIGNALS = ("keyword", "semantic")
"""Signals with a ranking of their own."""

RRF_K = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher: SIGIR 2009)."""

RANKED = 100
"""Chunks per signal that are fused; lower ranks do not reach a page that people read."""


class SignalPart(NamedTuple):
    """What one signal adds to a score."""

    signal: str
    value: float
    """The signal's own value: BM25, cosine, or a share from 0 to 1."""
    amount: float
    rank: int | None = None
    """Rank over all bases; None for a signal without a ranking of its own."""
    reason: str = ""
    """Where the value comes from, if its name does not tell."""


class Fused:
    """A chunk with its score and the parts and factors it is made of.

    `document` is the id in its base. `parts` may be a function that computes them on first access. `factors` are
    (name, factor), applied to the sum of the parts.
    """

    __slots__ = ("_parts", "document", "factors", "key", "score")

    def __init__(
        self,
        key: Key,
        document: int,
        parts: tuple[SignalPart, ...] | Callable[[], tuple[SignalPart, ...]],
        factors: tuple[tuple[str, float], ...] = (),
        score: float | None = None,
    ) -> None:
        self.key, self.document, self.factors, self._parts = key, document, factors, parts
        self.score = self._sum() if score is None else score

    @property
    def parts(self) -> tuple[SignalPart, ...]:
        """What each signal adds."""
        if not isinstance(self._parts, tuple):
            self._parts = self._parts()
        return self._parts

    @property
    def document_key(self) -> Key:
        """(number of the base, document id)."""
        return self.key[0], self.document

    def _sum(self) -> float:
        score = 0.0
        for part in self.parts:  # not `sum`, which adds floats differently from Python 3.12 on
            score += part.amount
        for _, factor in self.factors:
            score *= factor
        return score

    def and_parts(self, parts: Iterable[SignalPart]) -> Fused:
        """Return the chunk with additional parts, leaving out zeros."""
        added = tuple(part for part in parts if part.amount)
        return Fused(self.key, self.document, self.parts + added, self.factors) if added else self

    def times(self, name: str, factor: float) -> Fused:
        """Return the chunk with an additional factor."""
        if factor == 1:
            return self
        return Fused(self.key, self.document, self._parts, (*self.factors, (name, factor)), self.score * factor)


def best_first(fused: Iterable[Fused]) -> list[Fused]:
    """Sort chunks by score, stably."""
    return sorted(fused, key=attrgetter("score"), reverse=True)


@struct
class RankedPage:
    """What a query found."""

    hits: tuple[Hit, ...]
    total: int
    mode: Mode
    understood: ParsedQuery
    """The query itself, without other wordings."""
    terms: tuple[str, ...] = ()
    """What was looked for, as typed: terms of the query, of its other wordings, and corrections."""
    unmatched: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = ()
    verdict: Verdict | None = None
    filtered_out: bool = False
    """Whether filters and exclusions leave no document."""
    near_only: bool = False
    """Whether no query term occurs, so that hits are only near in meaning."""
    last: bool = True
    """Whether this is the last page."""
    ends: str = ""
    """A sentence on where the list ends although more documents may match; empty if it is complete."""


STRONG, WEAK = 0.8, 0.13
"""Confidence from which the verdict is `strong`, and below which it is `none`. Chosen so that of
questions with an answer at most 5 in 100 get `none`, and of questions whose answer was removed at most 15 in 100 get
`strong`, in bases of every size; docs/explanation/ranking.md has the table."""

ABSENT_NAME = 0.79
"""Upper limit, below `STRONG`, if a name in the query occurs nowhere."""

MOST_TERMS = 12
"""The number of terms is capped here: still longer queries are not covered any less."""

FEWEST_CHUNKS, MOST_CHUNKS = 10, 8_000
"""A base counts as one of at least and at most so many chunks: the largest base of the fit had 7,400. Fitted freely,
the size has no effect from about 1,000 on; docs/explanation/ranking.md has what the limit gains and costs at 27,000."""

PACKAGED = "packaged"
"""Key of the packaged model in `MODELS`; other models go by their name in the settings."""


class Weights(NamedTuple):
    """Coefficients of a logistic regression for "this chunk belongs to an answer"."""

    similarity: float
    coverage: float
    together: float
    phrase: float
    names: float
    terms: float
    cohesion: float
    size: float
    """For log10 of the number of chunks in the base: among more chunks, high values by chance are likelier."""
    constant: float


WORDS = Weights(0.0, 2.88, 2.37, 1.45, 1.0, 0.06, -3.02, -0.5, -0.75)
"""For keyword signals only."""

MODELS: Mapping[str, Weights] = MappingProxyType(
    {
        PACKAGED: Weights(4.06, 1.43, 2.29, 1.3, 1.0, -0.03, -3.15, -0.8, -0.1),
        "minilm": Weights(5.72, 0.49, 3.57, 2.44, 0.0, -0.07, -4.54, -0.84, 0.2),
    }
)
"""With a model's cosine. Fitted to leave-the-answer-out questions: each question asked of a base with its
answer, of the same base without it, and of an unrelated base (`kbhub eval --without-answers`)."""


@struct
class ChunkSupport:
    """How well one chunk matches the query; shares from 0 to 1."""

    coverage: float
    """Share of the query's terms, weighted by rarity, that a reader of the chunk sees."""
    together: float
    """The same, for terms close to each other."""
    phrase: float
    """Share of the query's adjacent word pairs that are adjacent here."""
    names: float
    """Share of the query's terms, weighted by rarity, that are names and occur here verbatim."""
    similarity: float | None
    """Cosine to the query; None without a calibrated model."""
    size: int
    """Number of chunks in its base."""


def confidence(supports: Iterable[ChunkSupport], terms: int, cohesion: float, model: str | None) -> float:
    """Return the probability that a query has an answer, which is that of its best-supporting chunk.

    Every value belongs to one chunk, its base and the query, so a chunk's probability does not depend on which other
    bases are searched. `cohesion` is that of the query's words. A model without weights of its own, or None, gets the
    keyword weights.
    """
    weights = MODELS.get(model or "", WORDS)
    return max((_confidence(support, terms, cohesion, weights) for support in supports), default=0.0)


def _confidence(support: ChunkSupport, terms: int, cohesion: float, weights: Weights) -> float:
    if support.similarity is None:
        weights = WORDS
    return _logistic(
        weights.similarity * (support.similarity or 0.0)
        + weights.coverage * support.coverage
        + weights.together * support.together
        + weights.phrase * support.phrase
        + weights.names * support.names
        + weights.terms * min(terms, MOST_TERMS)
        + weights.cohesion * cohesion
        + weights.size * math.log10(min(max(support.size, FEWEST_CHUNKS), MOST_CHUNKS))
        + weights.constant
    )


def verdict(confidence: float) -> Verdict:
    """Return the verdict for a confidence."""
    return "strong" if confidence >= STRONG else "weak" if confidence >= WEAK else "none"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
