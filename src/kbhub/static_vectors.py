"""Vectors of a model2vec model; imported when a first vector is wanted, for it imports numpy and model2vec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from model2vec import StaticModel

from kbhub.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

KNOWN_SHARE = 0.5
"""A text whose tokens the model knows to a smaller share than this has no vector: it would be noise."""

INFORMATIVE_NORM = 0.1
"""A token whose vector is shorter than this share of the median carries no meaning (punctuation)."""


class StaticVectors:
    """A loaded model.

    Args:
        source: folder of a model in model2vec's layout, or its id on the model hub.

    Raises:
        EmbedderError: it cannot be loaded.
    """

    def __init__(self, source: str) -> None:
        try:
            self.model = StaticModel.from_pretrained(source, max_length=None, force_download=False)
        except Exception as error:  # safetensors and tokenizers have no errors of their own to catch
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise EmbedderError(f"The embedding model {source!r} cannot be loaded: {reason}") from error
        self.dimensions = int(self.model.dim)
        self._meaning, self._known = _classify_tokens(self.model)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text; see `Embedder.embed`."""
        model = self.model
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # lone surrogates are no UTF-8
        encodings = model.tokenizer.encode_batch_fast(valid, add_special_tokens=False)
        for row, encoding in enumerate(encodings):
            tokens = np.asarray(encoding.ids, np.int64)
            meaningful, known = int(self._meaning[tokens].sum()), int(self._known[tokens].sum())
            if not known or known < KNOWN_SHARE * meaningful:
                continue
            if model.unk_token_id is not None:
                tokens = tokens[tokens != model.unk_token_id]
            rows = tokens if model.token_mapping is None else model.token_mapping[tokens]
            weights = np.ones(len(tokens)) if model.weights is None else model.weights[tokens]
            mean = weights.astype(np.float32) @ model.embedding[rows].astype(np.float32)
            vectors[row] = mean / (float(np.linalg.norm(mean)) or 1.0)
        return vectors


def _classify_tokens(model: StaticModel) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Work out which tokens speak of a meaning at all, and which of those the model knows."""
    vectors = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
    norms = np.linalg.norm(vectors.astype(np.float32), axis=1)
    # A lone letter of a script that the model has no words for is as good as unknown.
    unknown = np.array([_is_foreign_letter(token) for token in model.tokens])
    if model.unk_token_id is not None:
        unknown[model.unk_token_id] = True
    informative = norms > INFORMATIVE_NORM * float(np.median(norms))
    return informative | unknown, informative & ~unknown


def _is_foreign_letter(token: str) -> bool:
    letters = token.removeprefix("##")
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()
