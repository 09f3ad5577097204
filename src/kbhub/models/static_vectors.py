"""Vectors of a model2vec model; imported on first use, as it imports numpy and a tokenizer."""

from __future__ import annotations

import re
import string
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from kbhub.models import static_model

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

TEXTS = 256
"""Texts per block, whose words take some MB."""

JOINED = 128
"""Words joined into one text for the tokenizer, whose overhead per text equals several words."""

ENCODED = 64
"""Texts passed to the tokenizer at a time; its result takes thirty times their memory."""

REMEMBERED = 50_000
"""Words that are remembered: some eight MB, or the vocabulary of a thousand documents in one language."""

LETTERS = 24
"""Longest word that is remembered; longer ones hardly repeat, or are lines of a script without spaces."""

_BAR = "|"


class WordTokens:
    """Tokenizes exactly as a tokenizer does, without special tokens, but for the words of a lexicon.

    If the tokenizer follows BERT's rules, each word is looked up only once; a lexicon needs one that does.
    """

    def __init__(self, tokenizer: Tokenizer, lexicon: static_model.Lexicon | None = None) -> None:
        self._tokenizer, self._lexicon = tokenizer, lexicon
        self._words = word_pattern(tokenizer)
        self._remembered: dict[str, bytes] = {}
        """Word → its tokens, as numpy has them. Threads add words, or begin anew; none takes some out."""

    def blocks(self, texts: Sequence[str]) -> Iterator[list[NDArray[np.int64]]]:
        """Yield, block by block, the token ids of each text; texts are valid Unicode."""
        for start in range(0, len(texts), TEXTS):
            block = texts[start : start + TEXTS]
            if self._words is None or (self._lexicon is None and len(texts) == 1):
                yield [np.array(tokens, np.int64) for tokens in _encoded(self._tokenizer, block)]
            else:
                yield self._tokens_of([self._words.findall(text) for text in block])

    def _tokens_of(self, texts: Sequence[Sequence[str]]) -> list[NDArray[np.int64]]:
        """Return the tokens of texts, given their words."""
        if len(self._remembered) > REMEMBERED:
            self._remembered = {}
        remembered, words = self._remembered, set(chain.from_iterable(texts))
        found = self._looked_up(words.difference(remembered))
        new = {word: array("q", tokens).tobytes() for word, tokens in found.items()}
        known = new | {word: remembered[word] for word in words.difference(found)}
        remembered.update((word, tokens) for word, tokens in new.items() if len(word) <= LETTERS)
        return [np.frombuffer(b"".join(map(known.__getitem__, text)), np.int64) for text in texts]

    def _looked_up(self, words: set[str]) -> dict[str, list[int]]:
        """Return word → its tokens; ASCII words are tokenized in batches, joined by bars."""
        found = self._lexicon.tokens(words) if self._lexicon else {}
        unknown = words.difference(found).union(rest for _, rest in found.values())
        alone = [word for word in unknown if word == _BAR or not word.isascii()]
        new = dict(zip(alone, _encoded(self._tokenizer, alone), strict=True))
        plain = list(unknown.difference(alone))
        bar = self._tokenizer.token_to_id(_BAR)
        groups = [plain[start : start + JOINED] for start in range(0, len(plain), JOINED)]
        for group, ids in zip(groups, _encoded(self._tokenizer, [_BAR.join(group) for group in groups]), strict=True):
            ends = [index for index, token in enumerate(ids) if token == bar]
            for word, start, end in zip(group, [-1, *ends], [*ends, len(ids)], strict=True):
                new[word] = ids[start + 1 : end]
        return new | {word: [*tokens, *new[rest]] for word, (tokens, rest) in found.items()}


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
    normalizer, special = tokenizer.normalizer, list(tokenizer.get_added_tokens_decoder().values())
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
    return re.compile("|".join([*map(re.escape, names), static_model.WORD_OR_MARK]))


BLOCK = 2048
"""Rows of the model converted to floats at a time: 2 MB."""


class StaticVectors:
    """A loaded model, from a folder in model2vec's layout or by its id on the model hub."""

    def __init__(self, source: str) -> None:
        self.model = model = static_model.load_model(source)
        self._tokens = WordTokens(model.tokenizer, model.lexicon)
        self.dimensions = int(model.embedding.shape[1])
        lengths = _all_norms(model.embedding)
        if model.token_mapping is not None:
            lengths = lengths[model.token_mapping]
        vocabulary, mark = model.tokenizer.get_vocab(), static_model.CONTINUED
        # A single letter of a script without words in the vocabulary is as good as unknown.
        foreign = {token: number for token, number in vocabulary.items() if static_model.is_foreign_letter(token)}
        unknown = np.zeros(len(vocabulary), np.bool_)
        unknown[list(foreign.values())] = True
        if model.unk_token_id is not None:
            unknown[model.unk_token_id] = True
        informative = lengths > static_model.INFORMATIVE_NORM * float(np.median(lengths))
        self._meaning, self._known = informative | unknown, informative & ~unknown
        # Letters and vowel signs after the first of a word that the tokenizer can only spell.
        continued = {token.removeprefix(mark): token for token in vocabulary if token.startswith(mark)}
        signs = [token for sign, token in continued.items() if len(sign) == 1 and category(sign) in {"Mc", "Mn"}]
        letters = [token for token in continued.values() if token in foreign]
        self._later = np.zeros(len(vocabulary), np.bool_)
        self._later[[vocabulary[token] for token in (*signs, *letters)]] = True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; see `Embedder.embed`."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # lone surrogates are no UTF-8
        if self.model.lexicon:
            valid = list(map(static_model.known_marks, valid))
        for row, tokens in enumerate(chain.from_iterable(self._tokens.blocks(valid))):
            if (mean := self._mean(tokens)) is not None:
                vectors[row] = static_model.unit(mean)
        return vectors

    def _mean(self, tokens: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Return the unscaled mean of a text's token vectors; None if the model knows too few of them."""
        model, words = self.model, np.zeros(0, np.float32)
        if model.lexicon:
            tokens, words = model.lexicon.apart(tokens)
            later = self._later[tokens]
            # The letters of a word that neither tokenizer nor lexicon has become one unknown token.
            if model.unk_token_id is not None and np.count_nonzero(later):  # any() takes five times as long
                tokens = np.where(np.append(later[1:], False), model.unk_token_id, tokens)[~later]
        if not static_model.speaks_of_something(self._known[tokens], self._meaning[tokens], len(words)):
            return None
        if model.unk_token_id is not None:
            tokens = tokens[tokens != model.unk_token_id]
        rows = tokens if model.token_mapping is None else model.token_mapping[tokens]
        factors = np.ones(len(rows), np.float32) if model.weights is None else model.weights[tokens].astype(np.float32)
        mean: NDArray[np.float32] = factors @ model.embedding.take(rows, 0).astype(np.float32)
        return mean + words.sum(0) if len(words) else mean


def _all_norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return np.concatenate(
        [static_model.norms(vectors[start : start + BLOCK]) for start in range(0, len(vectors), BLOCK)]
    )
