"""Vectors of queries by the packaged model, without waiting for what only an index needs.

Its tokenizer and the classes of all its tokens take 0.1 s to load, and a query has a handful of words. Those of plain
ASCII are put together of a sorted list of its tokens by the rules that it has (BERT's); else it is asked.
Equal to the last bit with what `StaticVectors` gives.
"""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.static_means import INFORMATIVE_NORM, is_foreign_letter, mean_of, norms, speaks_of_something, unit
from kbhub.tensors import MATRIX, WEIGHTS, read_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

PIECES = "pieces.txt"
"""The tokens of ASCII with their numbers, one a line, in the order of their bytes."""

MEDIAN_NORM = 322.79
"""Median length of the rows of the packaged model; tests/test_query_vectors.py holds it against the model."""

UNKNOWN, UNKNOWN_ID = "[UNK]", 1
"""The token of a word that cannot be put together of known pieces."""

CONTINUED = "##"
"""What begins a piece that does not begin a word."""

LONGEST_PIECE = 18
"""Characters of the longest token of ASCII, without `CONTINUED`."""

LOOK_UPS = 2000
"""Look-ups for one text, each 0.01 ms: for more, the tokenizer is worth its loading. A word that is known takes one, a
name of twenty letters some fifty."""

LONGEST_WORD = 100
"""Characters of a word; a longer one is unknown, whatever it is made of."""

WORDS_KEPT = 4096
"""Words whose tokens are remembered; a person or an agent asks with the same ones again and again."""

_WORDS = re.compile(rf"[{re.escape(string.punctuation)}]|[^ {re.escape(string.punctuation)}]+")


class QueryVectors:
    """The packaged model, as far as queries need it. Safe to use from several threads.

    Args:
        folder: with its files.

    Raises:
        EmbedderError: they are not there.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._matrix = (read_tensors(folder / WEIGHTS) or {})[MATRIX]
        except (OSError, KeyError, ValueError) as error:
            raise EmbedderError(f"The embedding model {str(folder)!r} cannot be loaded: {error}") from error
        pieces = folder / PIECES
        self._pieces = pieces.read_bytes() if pieces.is_file() else None
        self._folder = folder
        self._tokenizer: Tokenizer | None = None
        self._kept: dict[str, tuple[int, ...]] = {}

    def embed(self, text: str) -> NDArray[np.float32]:
        """Give the vector of a query; see `Embedder.embed_query`."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        numbers = self.plain_tokens(text)
        foreign: list[bool] | None = None
        if numbers is None:
            tokenizer = self._whole_tokenizer()
            numbers = tokenizer.encode(text, add_special_tokens=False).ids
            foreign = [is_foreign_letter(tokenizer.id_to_token(number) or "") for number in numbers]
        tokens = np.array(numbers, np.int64)
        unknown = tokens == UNKNOWN_ID
        informative = norms(self._matrix.take(tokens, 0)) > INFORMATIVE_NORM * MEDIAN_NORM
        strange = unknown if foreign is None else unknown | np.array(foreign, np.bool_)
        if not speaks_of_something(informative & ~strange, informative | strange):
            return np.zeros(self._matrix.shape[1], np.float32)
        return unit(mean_of(self._matrix, tokens[~unknown], None))

    def longest(self, text: str) -> float | None:
        """Give the length of the longest vector among a text's tokens, in medians; none if it knows none of them.

        Args:
            text: as for `plain_tokens`.
        """
        tokens = self._known_tokens(text)
        return float(norms(self._matrix.take(tokens, 0)).max()) / MEDIAN_NORM if tokens else None

    def cohesion(self, texts: Sequence[str]) -> float:
        """Give the length of the mean of the directions of some texts, those left out that it does not know.

        Args:
            texts: each as for `plain_tokens`.
        """
        known = [tokens for text in texts if (tokens := self._known_tokens(text))]
        directions = [unit(mean_of(self._matrix, np.array(tokens, np.int64), None)) for tokens in known]
        return float(np.linalg.norm(np.mean(directions, 0))) if directions else 0.0

    def _known_tokens(self, text: str) -> list[int]:
        return [token for token in self.plain_tokens(text) or () if token != UNKNOWN_ID]

    def plain_tokens(self, text: str) -> list[int] | None:
        """Give the tokens of a text of plain ASCII; none if the tokenizer is to be asked.

        Args:
            text: any string; lower and upper case are the same.
        """
        if self._pieces is None or not (text.isascii() and text.isprintable()):
            return None
        if "[" in text:  # which begins the names of special tokens
            return None
        found: list[int] = []
        left = LOOK_UPS
        for word in _WORDS.findall(text.lower()):
            if (tokens := self._kept.get(word)) is None:
                tokens, left = _looked_up(self._pieces, word, left)
                if left < 0:
                    return None
                if len(self._kept) >= WORDS_KEPT:
                    self._kept.clear()
                self._kept[word] = tokens
            found += tokens
        return found

    def _whole_tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            # 60 ms, which plain words do without.
            from kbhub.static_model import load_model  # noqa: PLC0415

            self._tokenizer = load_model(str(self._folder)).tokenizer
        return self._tokenizer


def _looked_up(pieces: bytes, word: str, left: int) -> tuple[tuple[int, ...], int]:
    """Put a word together of the longest known pieces, from its beginning.

    Args:
        pieces: as `PIECES` has them.
        word: in lower case.
        left: look-ups that may be made.

    Returns:
        Its tokens, and the look-ups that are left, below 0 if they did not suffice.
    """
    found: list[int] = []
    start = 0
    while start < len(word) and left >= 0:
        mark = CONTINUED if start else ""
        for end in range(min(len(word), start + LONGEST_PIECE), start, -1):
            left -= 1
            if (number := _number(pieces, mark + word[start:end])) is not None:
                break
        else:
            return (UNKNOWN_ID,), left
        found.append(number)
        start = end
    return (UNKNOWN_ID,) if len(word) > LONGEST_WORD else tuple(found), left


def _number(pieces: bytes, token: str) -> int | None:
    """Find the number of a token by halving what is searched."""
    key = f"{token} ".encode()
    low, high = 0, len(pieces)
    while low < high:
        start = pieces.rfind(b"\n", 0, (low + high) // 2) + 1
        end = pieces.index(b"\n", start)
        line = pieces[start:end]
        if line.startswith(key):
            return int(line[len(key) :])
        if line < key:
            low = end + 1
        else:
            high = start
    return None
