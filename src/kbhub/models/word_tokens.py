"""Tokenize texts with a cache of words, as nine words of ten are repetitions."""

from __future__ import annotations

import re
import string
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from kbhub.models.lexicon import WORD_OR_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from kbhub.models.lexicon import Lexicon

TEXTS = 256
"""Texts per block, whose words take some MB."""

JOINED = 128
"""Words joined into one text for the tokenizer, whose overhead per text equals several words."""

ENCODED = 64
"""Texts passed to the tokenizer at a time; its result takes thirty times their memory."""

REMEMBERED = 50_000
"""Words in the cache: some ten MB, or the vocabulary of a thousand documents in one language."""

LETTERS = 24
"""Longest cached word; longer ones hardly repeat, or are lines of a script without spaces."""

_BAR = "|"
"""Separator of joined words."""


class WordTokens:
    """Tokenizes texts exactly as a tokenizer does, without special tokens, but for the words of a lexicon.

    Args:
        tokenizer: any tokenizer; if it follows BERT's rules, each word is only looked up once.
        lexicon: words with tokens of their own; only with a tokenizer that follows BERT's rules.
    """

    def __init__(self, tokenizer: Tokenizer, lexicon: Lexicon | None = None) -> None:
        self._tokenizer, self._lexicon = tokenizer, lexicon
        self._words = word_pattern(tokenizer)
        self._known: dict[str, list[int]] = {}

    def blocks(self, texts: Sequence[str]) -> Iterator[list[NDArray[np.int64]]]:
        """Tokenize texts.

        Args:
            texts: strings of valid Unicode.

        Yields:
            Block by block, the token ids of each text.
        """
        for start in range(0, len(texts), TEXTS):
            block = texts[start : start + TEXTS]
            if self._words is None or (self._lexicon is None and len(texts) == 1):
                yield [np.array(tokens, np.int64) for tokens in _encoded(self._tokenizer, block)]
                continue
            words = [self._words.findall(text) for text in block]
            tokens = self._tokens_of(set(chain.from_iterable(words)))
            yield [np.fromiter(chain.from_iterable(map(tokens.__getitem__, line)), np.int64) for line in words]

    def _tokens_of(self, words: set[str]) -> dict[str, list[int]]:
        """Word → its tokens, from the cache if possible; new words are cached until it is full."""
        cache = self._known
        # One lookup per word, as another thread may be adding some.
        tokens = {word: cache[word] for word in words if word in cache}
        new = self._looked_up(words.difference(tokens))
        if len(cache) < REMEMBERED:
            cache.update((word, ids) for word, ids in new.items() if len(word) <= LETTERS)
        return tokens | new

    def _looked_up(self, words: set[str]) -> dict[str, list[int]]:
        found = self._lexicon.tokens(words) if self._lexicon else {}
        new = _tokens_of_words(self._tokenizer, words.difference(found).union(rest for _, rest in found.values()))
        return new | {word: [*tokens, *new[rest]] for word, (tokens, rest) in found.items()}


def _tokens_of_words(tokenizer: Tokenizer, words: set[str]) -> dict[str, list[int]]:
    """Word → its tokens; ASCII words are tokenized in batches, joined by bars."""
    alone = [word for word in words if word == _BAR or not word.isascii()]
    tokens = dict(zip(alone, _encoded(tokenizer, alone), strict=True))
    plain = list(words.difference(alone))
    bar = tokenizer.token_to_id(_BAR)
    groups = [plain[start : start + JOINED] for start in range(0, len(plain), JOINED)]
    for group, ids in zip(groups, _encoded(tokenizer, [_BAR.join(group) for group in groups]), strict=True):
        ends = [index for index, token in enumerate(ids) if token == bar]
        for word, start, end in zip(group, [-1, *ends], [*ends, len(ids)], strict=True):
            tokens[word] = ids[start + 1 : end]
    return tokens


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    batches = [texts[start : start + ENCODED] for start in range(0, len(texts), ENCODED)]
    return [
        encoding.ids for batch in batches for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False)
    ]


def word_pattern(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Return a pattern of words whose tokens do not depend on context, or None if the rules are not BERT's.

    BERT's rules look at single characters or words, and end a word at every space and ASCII punctuation mark. Only the
    names of special tokens take precedence, and here each must begin with such a mark.
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
    if any(token.lstrip or token.rstrip or token.single_word or token.normalized for token in special):
        return None
    names = sorted((token.content for token in special), key=len, reverse=True)
    if not all(name[0] in string.punctuation and _BAR not in name for name in names):
        return None
    return re.compile("|".join([*map(re.escape, names), WORD_OR_MARK]))
