"""Combine the vectors of a text's tokens into its vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KNOWN_SHARE = 0.5
"""Texts with a smaller share of known tokens get no vector, as it would be noise."""

INFORMATIVE_NORM = 0.1
"""Tokens with vectors shorter than this share of the median carry no meaning (punctuation)."""

LETTER = len("##x")
"""Characters of the longest single-letter token."""


def speaks_of_something(known: NDArray[np.bool_], meaning: NDArray[np.bool_]) -> bool:
    """Return whether a model knows enough of a text's tokens.

    Args:
        known: for each token, whether the model knows its meaning.
        meaning: for each token, whether it has any meaning.
    """
    count = int(np.count_nonzero(known))
    return count > 0 and count >= KNOWN_SHARE * int(np.count_nonzero(meaning))


def mean_of(matrix: NDArray[Any], rows: NDArray[np.integer[Any]], weights: NDArray[Any] | None) -> NDArray[np.float32]:
    """Return the weighted sum of some rows, which has the direction of their mean; shape (dimensions,).

    Args:
        matrix: shape (rows, dimensions), int8 or floats.
        rows: row index of each token.
        weights: weight of each token; None if all are equal.
    """
    factors = np.ones(len(rows), np.float32) if weights is None else weights.astype(np.float32)
    mean: NDArray[np.float32] = factors @ matrix.take(rows, 0).astype(np.float32)
    return mean


def unit(mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale a vector to length 1; zeros stay as they are."""
    return mean / (float(np.linalg.norm(mean)) or 1.0)


def norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return the lengths of rows."""
    floats = vectors.astype(np.float32)
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    return lengths


def is_foreign_letter(token: str) -> bool:
    """Return whether a token is a single non-ASCII letter: the model has no words of its script."""
    if len(token) > LETTER:
        return False
    letters = token.removeprefix("##")
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()
