"""How the tokens of a text become its vector: which of them count, and their mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN_SHARE = 0.5
"""A text whose tokens the model knows to a smaller share than this has no vector: it would be noise."""

INFORMATIVE_NORM = 0.1
"""A token whose vector is shorter than this share of the median carries no meaning (punctuation)."""

LETTER = len("##x")
"""Characters of the longest token that is one letter."""


def speaks_of_something(known: NDArray[np.bool_], meaning: NDArray[np.bool_]) -> bool:
    """Say whether a model knows enough of a text's tokens.

    Args:
        known: of each token, whether the model knows what it means.
        meaning: of each token, whether it means anything at all.
    """
    count = int(np.count_nonzero(known))
    return count > 0 and count >= KNOWN_SHARE * int(np.count_nonzero(meaning))


def mean_of(matrix: NDArray[Any], rows: NDArray[np.integer[Any]], weights: NDArray[Any] | None) -> NDArray[np.float32]:
    """Give the direction of the mean of some rows, shape (dimensions,).

    Args:
        matrix: shape (rows, dimensions), int8 or floats.
        rows: which of them, one for each token.
        weights: of each token; none if all weigh the same.
    """
    factors = np.ones(len(rows), np.float32) if weights is None else weights.astype(np.float32)
    mean: NDArray[np.float32] = factors @ matrix.take(rows, 0).astype(np.float32)
    return mean


def unit(mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give a vector its length of 1; that of nothing stays as it is."""
    return mean / (float(np.linalg.norm(mean)) or 1.0)


def norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Give the lengths of some rows."""
    floats = vectors.astype(np.float32)
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    return lengths


def is_foreign_letter(token: str) -> bool:
    """Say whether a token is a lone letter of a script that the model has no words for: as good as unknown."""
    if len(token) > LETTER:
        return False
    letters = token.removeprefix("##")
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()
