"""Texts → tokens, with each word looked up once, however often it stands there; nine of ten do so again and again."""

from __future__ import annotations

import re
import string
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

TEXTS = 256
"""Texts whose words are held at a time; some MB."""

JOINED = 128
"""Words that the tokenizer is given in one text: each text costs it as much as some words."""

ENCODED = 64
"""Texts that the tokenizer is given at a time: what it gives back is thirty times as large, and let go then."""

REMEMBERED = 50_000
"""Words whose tokens are remembered; some ten MB, and what a thousand documents in one language have."""

LETTERS = 24
"""Letters of a word that is remembered; what is longer hardly comes again, or is a line of a script without spaces."""

_BAR = "|"
"""What stands between them."""

_MARKS = re.escape(string.punctuation)
_ENDS = rf"[{_MARKS}]|[^ \t\n\r{_MARKS}]+"


class WordTokens:
    """Gives the tokens of texts as a tokenizer itself does, without special ones.

    Args:
        tokenizer: any; where its rules allow, it is asked about each word once.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._words = word_pattern(tokenizer)
        self._known: dict[str, list[int]] = {}

    def blocks(self, texts: Sequence[str]) -> Iterator[list[NDArray[np.int64]]]:
        """Give the tokens of texts.

        Args:
            texts: strings of valid Unicode.

        Yields:
            Block by block, the tokens of each text.
        """
        for start in range(0, len(texts), TEXTS):
            block = texts[start : start + TEXTS]
            if self._words is None or len(texts) == 1:
                yield [np.array(tokens, np.int64) for tokens in _encoded(self._tokenizer, block)]
                continue
            found = [self._words.findall(text) for text in block]
            tokens = self._tokens_of(set(chain.from_iterable(found)))
            yield [np.fromiter(chain.from_iterable(map(tokens.__getitem__, one)), np.int64) for one in found]

    def _tokens_of(self, words: set[str]) -> dict[str, list[int]]:
        """Give word → its tokens; words that come first are remembered, as most of them come again."""
        known = self._known
        # Words are looked up one by one, as another thread may be adding some.
        tokens = {word: known[word] for word in words if word in known}
        new = _tokens_of_words(self._tokenizer, words.difference(tokens))
        if len(known) < REMEMBERED:
            known.update((word, found) for word, found in new.items() if len(word) <= LETTERS)
        return tokens | new


def _tokens_of_words(tokenizer: Tokenizer, words: set[str]) -> dict[str, list[int]]:
    """Give word → its tokens; words of ASCII share a text."""
    alone = [word for word in words if word == _BAR or not word.isascii()]
    tokens = dict(zip(alone, _encoded(tokenizer, alone), strict=True))
    plain = list(words.difference(alone))
    bar = tokenizer.token_to_id(_BAR)
    groups = [plain[start : start + JOINED] for start in range(0, len(plain), JOINED)]
    for group, found in zip(groups, _encoded(tokenizer, [_BAR.join(group) for group in groups]), strict=True):
        ends = [place for place, token in enumerate(found) if token == bar]
        for word, start, end in zip(group, [-1, *ends], [*ends, len(found)], strict=True):
            tokens[word] = found[start + 1 : end]
    return tokens


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    slices = [texts[start : start + ENCODED] for start in range(0, len(texts), ENCODED)]
    return [one.ids for some in slices for one in tokenizer.encode_batch_fast(some, add_special_tokens=False)]


def word_pattern(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Give what cuts a text into parts whose tokens are the same wherever they stand; none if its rules are not BERT's.

    BERT's rules look at one character at a time, or at no more than a word, and end a word at every space and mark of
    ASCII. Only names of special tokens go before these rules, and here each must begin with such a mark.
    """
    normalizer, special = tokenizer.normalizer, tokenizer.get_added_tokens_decoder().values()
    if not (
        isinstance(normalizer, BertNormalizer)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.model, WordPiece)
        and tokenizer.truncation is None
        and tokenizer.token_to_id(_BAR) is not None
    ):
        return None
    if any(one.lstrip or one.rstrip or one.single_word or one.normalized for one in special):
        return None
    names = sorted((one.content for one in special), key=len, reverse=True)
    if not all(name[0] in string.punctuation and _BAR not in name for name in names):
        return None
    return re.compile("|".join([*map(re.escape, names), _ENDS]))
