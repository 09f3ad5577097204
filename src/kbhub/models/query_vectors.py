"""Query vectors of the packaged model without its tokenizer, which takes 0.1 s to load.

A query has a handful of words. Those of the lexicon are looked up there, and plain ASCII is split by BERT's rules, with
lookups in a sorted list of tokens; any other text is left to the tokenizer. The vectors equal those of `StaticVectors`
to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.models.static_model import (
    CONTINUED,
    INFORMATIVE_NORM,
    MATRIX,
    WEIGHTS,
    WORD_OR_MARK,
    lexicon_of,
    norms,
    read_tensors,
    speaks_of_something,
    unit,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECES = "pieces.txt"
"""File with the ASCII tokens and their ids, one per line, sorted by bytes."""

MEDIAN_NORM = 322.79
"""Median length of the packaged model's rows; checked by tests/models/test_query_vectors.py."""

UNKNOWN, UNKNOWN_ID = "[UNK]", 1
"""Token of a word that cannot be split into known pieces."""

LONGEST_PIECE = 18
"""Characters of the longest ASCII token, without `CONTINUED`."""

LOOK_UPS = 2000
"""Lookups per text, at 0.01 ms each; beyond it, loading the tokenizer is faster. A known word takes one, a name of
twenty letters some fifty."""

LONGEST_WORD = 100
"""Characters of the longest word that is split; longer ones are unknown (BERT's rule)."""

WORDS_KEPT = 4096
"""Words whose tokens are cached, as queries repeat words."""

_WORDS = re.compile(WORD_OR_MARK)


class QueryVectors:
    """The part of the packaged model that queries need, read from its folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        try:
            tensors = read_tensors(folder / WEIGHTS) or {}
            self._matrix, self._lexicon = tensors[MATRIX], lexicon_of(tensors)
        except (OSError, KeyError, ValueError) as error:
            raise EmbedderError(f"Cannot load the embedding model {str(folder)!r}: {error}") from error
        pieces = folder / PIECES
        self._pieces = pieces.read_bytes() if pieces.is_file() else None
        self._kept: dict[str, tuple[int, ...]] = {}

    def embed(self, text: str) -> NDArray[np.float32] | None:
        """Return the vector of a query, or None if it needs the tokenizer; see `Embedder.embed_query`."""
        plain = self.plain_tokens(text)
        if plain is None:
            return None
        every = np.array(plain, np.int64)
        tokens, words = self._lexicon.apart(every) if self._lexicon else (every, every[:0])
        unknown = tokens == UNKNOWN_ID
        informative = norms(self._matrix.take(tokens, 0)) > INFORMATIVE_NORM * MEDIAN_NORM
        if not speaks_of_something(informative & ~unknown, informative | unknown, len(words)):
            return np.zeros(self._matrix.shape[1], np.float32)
        return unit(self._rows(np.append(tokens[~unknown], words)).sum(0))

    def _rows(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of tokens, those of the lexicon last."""
        if self._lexicon is None:
            return self._matrix.take(tokens, 0).astype(np.float32)
        tokens, words = self._lexicon.apart(tokens)
        return np.concatenate([self._matrix.take(tokens, 0).astype(np.float32), self._lexicon.vectors(words)])

    def longest(self, text: str) -> float | None:
        """Return the length of the longest token vector of a text, relative to the median, or None if none is known."""
        tokens = self._known_tokens(text)
        return float(norms(self._rows(np.array(tokens, np.int64))).max()) / MEDIAN_NORM if tokens else None

    def cohesion(self, texts: Sequence[str]) -> float:
        """Return the length of the mean of some texts' unit vectors, ignoring unknown texts."""
        known = [tokens for text in texts if (tokens := self._known_tokens(text))]
        directions = [unit(self._rows(np.array(tokens, np.int64)).sum(0)) for tokens in known]
        return float(np.linalg.norm(np.mean(directions, 0))) if directions else 0.0

    def _known_tokens(self, text: str) -> list[int]:
        return [token for token in self.plain_tokens(text) or () if token != UNKNOWN_ID]

    def plain_tokens(self, text: str) -> list[int] | None:
        """Return the token ids of ASCII and words of the lexicon, ignoring case, or None if it needs the tokenizer."""
        if self._pieces is None or not text.isprintable():
            return None
        if "[" in text:  # which special tokens start with
            return None
        numbers: list[int] = []
        left = LOOK_UPS
        for word in _WORDS.findall(text):
            if (tokens := self._kept.get(word)) is None:
                own, rest = self._lexicon.tokens([word]).get(word, ([], word)) if self._lexicon else ([], word)
                if not rest.isascii():
                    return None
                tokens = tuple(own)
                for part in _WORDS.findall(rest):
                    pieces, left = _looked_up(self._pieces, part.lower(), left)
                    tokens += pieces
                if left < 0:
                    return None
                if len(self._kept) >= WORDS_KEPT:
                    self._kept.clear()
                self._kept[word] = tokens
            numbers += tokens
        return numbers


def _looked_up(pieces: bytes, word: str, left: int) -> tuple[tuple[int, ...], int]:
    """Split a lower-case word into the longest known pieces; return them and the lookups left (below 0: too few)."""
    numbers: list[int] = []
    start = 0
    while start < len(word) and left >= 0:
        mark = CONTINUED if start else ""
        for end in range(min(len(word), start + LONGEST_PIECE), start, -1):
            left -= 1
            if (number := _number(pieces, mark + word[start:end])) is not None:
                break
        else:
            return (UNKNOWN_ID,), left
        numbers.append(number)
        start = end
    return (UNKNOWN_ID,) if len(word) > LONGEST_WORD else tuple(numbers), left


def _number(pieces: bytes, token: str) -> int | None:
    """Look up a token's id by binary search."""
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
