"""How much a word says by itself, whatever the documents: the packaged model learned it from language at large.

Document frequencies cannot tell that in a base of ten documents, and they change with every base that is searched
beside it. A static model's vectors are as long as their tokens are informative (its training weighs tokens by smooth
inverse frequency: Arora, Liang, Ma: "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", ICLR 2017).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbhub.query_vectors import QueryVectors

UNKNOWN = 1.5
"""Rarity of a word that the model does not know: a name, a number, another script. The median token has 1."""

COMMONEST = 0.3
"""Rarity of the commonest words, so that a query of nothing else has a weight."""

WORDS = 4096
"""Words whose rarity is remembered."""

_MARKS = ".,;:!?()'\""


@lru_cache(maxsize=WORDS)
def rarity(word: str) -> float:
    """Give how much a word says, from `COMMONEST` to some 1.7.

    Args:
        word: a word or a phrase, of which the rarest part counts.
    """
    model = _model()
    found = model.longest(word.strip(_MARKS)) if model else None
    return UNKNOWN if found is None else max(COMMONEST, found)


def cohesion(words: Iterable[str]) -> float:
    """Give how near some words are to each other, from 0 to 1; 1 for a single one, 0 if the model knows none.

    A question whose words belong together is near every text about that field, so the same cosine says less.

    Args:
        words: of a query.
    """
    model = _model()
    return model.cohesion([word.strip(_MARKS) for word in words]) if model else 0.0


@cache
def _model() -> QueryVectors | None:
    # numpy, which a command that only lists documents does without.
    from kbhub.embedding import PACKAGED_MODEL  # noqa: PLC0415
    from kbhub.query_vectors import QueryVectors  # noqa: PLC0415

    try:
        return QueryVectors(PACKAGED_MODEL)
    except EmbedderError:
        return None
