"""Rarity of a word in general language, as learned by the packaged model.

Document frequencies cannot tell that in a base of ten documents, and they change with the other bases searched. A
static model's vectors are as long as their tokens are informative (its training weighs tokens by smooth inverse
frequency: Arora, Liang, Ma: "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError
from kbhub.models.embedding import PACKAGED_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.models.query_vectors import QueryVectors

UNKNOWN = 1.5
"""Rarity of a word that the model does not know: a name, a number, another script. The median token has 1."""

COMMONEST = 0.3
"""Rarity of the commonest words, so that a query of only those has some weight."""

WORDS = 4096
"""Words whose rarity is cached."""

_MARKS = ".,;:!?()'\""


@lru_cache(maxsize=WORDS)
def rarity(word: str) -> float:
    """Return the rarity of a word, from `COMMONEST` to some 1.7.

    Args:
        word: a word or a phrase; its rarest part counts.
    """
    model = _model()
    length = model.longest(word.strip(_MARKS)) if model else None
    return UNKNOWN if length is None else max(COMMONEST, length)


def cohesion(words: Iterable[str]) -> float:
    """Return how related words are, from 0 to 1; 1 for a single word, 0 if the model knows none.

    A question of closely related words is near every text of that field, so its cosines mean less.

    Args:
        words: of a query.
    """
    model = _model()
    return model.cohesion([word.strip(_MARKS) for word in words]) if model else 0.0


@cache
def _model() -> QueryVectors | None:
    # numpy, which a command that only lists documents does without.
    from kbhub.models.query_vectors import QueryVectors  # noqa: PLC0415

    try:
        return QueryVectors(PACKAGED_MODEL)
    except EmbedderError:
        return None
