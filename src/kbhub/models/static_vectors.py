"""Vectors of a model2vec model; imported on first use, as it imports numpy and a tokenizer."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.models.static_model import (
    CONTINUED,
    INFORMATIVE_NORM,
    is_foreign_letter,
    load_model,
    mean_of,
    norms,
    speaks_of_something,
    unit,
)
from kbhub.models.word_tokens import WordTokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbhub.models.static_model import StaticModel

BLOCK = 2048
"""Rows of the model converted to floats at a time: 2 MB."""


class StaticVectors:
    """A loaded model, from a folder in model2vec's layout or by its id on the model hub."""

    def __init__(self, source: str) -> None:
        self.model = load_model(source)
        self._tokens = WordTokens(self.model.tokenizer, self.model.lexicon)
        self.dimensions = int(self.model.embedding.shape[1])
        self._meaning, self._known = _classify_tokens(self.model)
        self._later = _later_letters(self.model)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; see `Embedder.embed`."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # lone surrogates are no UTF-8
        for row, tokens in enumerate(chain.from_iterable(self._tokens.blocks(valid))):
            if (mean := self._mean(tokens)) is not None:
                vectors[row] = unit(mean)
        return vectors

    def _spelled_as_unknown(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace the letters of a word that neither tokenizer nor lexicon has by one unknown token."""
        later = self._later[tokens]
        if self.model.unk_token_id is None or not np.count_nonzero(later):  # any() takes five times as long
            return tokens
        first = np.append(later[1:], False)
        return np.where(first, self.model.unk_token_id, tokens)[~later]

    def _mean(self, tokens: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Return the unscaled mean of a text's token vectors; None if the model knows too few of them."""
        model, words = self.model, tokens[:0]
        if model.lexicon:
            tokens, words = model.lexicon.apart(tokens)
            tokens = self._spelled_as_unknown(tokens)
        if not speaks_of_something(self._known[tokens], self._meaning[tokens], len(words)):
            return None
        if model.unk_token_id is not None:
            tokens = tokens[tokens != model.unk_token_id]
        rows = tokens if model.token_mapping is None else model.token_mapping[tokens]
        mean = mean_of(model.embedding, rows, None if model.weights is None else model.weights[tokens])
        return mean + model.lexicon.vectors(words).sum(0) if model.lexicon and len(words) else mean


def _classify_tokens(model: StaticModel) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which tokens carry meaning, and which of those the model knows."""
    lengths = _all_norms(model.embedding)
    if model.token_mapping is not None:
        lengths = lengths[model.token_mapping]
    # A single letter of a script without words in the vocabulary is as good as unknown.
    vocabulary = model.tokenizer.get_vocab()
    unknown = np.zeros(len(vocabulary), np.bool_)
    unknown[[number for token, number in vocabulary.items() if is_foreign_letter(token)]] = True
    if model.unk_token_id is not None:
        unknown[model.unk_token_id] = True
    informative = lengths > INFORMATIVE_NORM * _median(lengths)
    return informative | unknown, informative & ~unknown


def _later_letters(model: StaticModel) -> NDArray[np.bool_]:
    """Return which tokens are letters after the first of a word that the tokenizer can only spell."""
    vocabulary = model.tokenizer.get_vocab()
    later = np.zeros(len(vocabulary), np.bool_)
    later[[number for name, number in vocabulary.items() if name.startswith(CONTINUED) and is_foreign_letter(name)]] = (
        True
    )
    return later


def _all_norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return np.concatenate([norms(vectors[start : start + BLOCK]) for start in range(0, len(vectors), BLOCK)])


def _median(numbers: NDArray[np.float32]) -> float:
    # np.median imports numpy.ma first, which takes longer than loading the model.
    ordered = np.sort(numbers)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
