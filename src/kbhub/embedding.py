"""Texts → vectors. The packaged model works offline; others are a setting."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbhub.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model2vec import StaticModel
    from numpy.typing import NDArray

PACKAGED_MODEL = Path(__file__).parent / "model"
PACKAGED_NAME = "kbhub-static-256"
PACKAGED_SHA256 = "3a42436f6209741a68f805583940a6b340b0661f0aa5efa7d8758a25d5a97707"
"""Of the packaged model.safetensors, so that the model need not be read to know which one it is."""

NO_EMBEDDER = "none"
"""The value of the setting `embedder.model` that switches the semantic side off."""

KNOWN_SHARE = 0.5
"""A text whose tokens the model knows to a smaller share than this has no vector: it would be noise."""

INFORMATIVE_NORM = 0.1
"""A token whose vector is shorter than this share of the median carries no meaning (punctuation)."""

HASH_CHUNK = 1 << 20
"""Bytes read at a time when a model file is hashed."""


class Embedder(Protocol):
    """What turns texts into vectors."""

    name: str
    fingerprint: str

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text.

        Args:
            texts: any strings.

        Returns:
            Shape (len(texts), dimensions); each row of length 1, or all zero where the model does not know
            the text's language and its vector would be noise.

        Raises:
            EmbedderError: the model cannot be loaded or does not answer.
        """
        ...


class StaticEmbedder:
    """A model2vec model: the mean of its tokens' vectors, loaded at first use.

    Args:
        source: folder of a model in model2vec's layout, or its id on the model hub.
        name: how it is called in the index and in `status`.
        fingerprint: changes whenever the vectors would.
    """

    def __init__(self, source: str, name: str, fingerprint: str) -> None:
        self.source, self.name, self.fingerprint = source, name, fingerprint
        self._model: StaticModel | None = None
        self._loading = threading.Lock()

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self._load().dim)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give one vector per text; see `Embedder.embed`."""
        model = self._load()
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # lone surrogates are no UTF-8
        encodings = model.tokenizer.encode_batch_fast(valid, add_special_tokens=False)
        for row, encoding in enumerate(encodings):
            tokens = np.asarray(encoding.ids, np.int64)
            meaningful, known = int(self._meaning[tokens].sum()), int(self._known[tokens].sum())
            if not known or known < KNOWN_SHARE * meaningful:
                continue
            if model.unk_token_id is not None:
                tokens = tokens[tokens != model.unk_token_id]
            rows = tokens if model.token_mapping is None else model.token_mapping[tokens]
            weights = np.ones(len(tokens)) if model.weights is None else model.weights[tokens]
            mean = weights.astype(np.float32) @ model.embedding[rows].astype(np.float32)
            vectors[row] = mean / (float(np.linalg.norm(mean)) or 1.0)
        return vectors

    def _load(self) -> StaticModel:
        with self._loading:
            if self._model is None:
                model = _load_model(self.source)
                self._classify_tokens(model)
                self._model = model
            return self._model

    def _classify_tokens(self, model: StaticModel) -> None:
        """Work out which tokens speak of a meaning at all, and which of those the model knows."""
        vectors = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1)
        unknown = np.zeros(len(model.tokens), bool)
        if model.unk_token_id is not None:
            unknown[model.unk_token_id] = True
        # A lone letter of a script that the model has no words for is as good as unknown.
        unknown |= np.array([_is_foreign_letter(token) for token in model.tokens])
        informative = norms > INFORMATIVE_NORM * float(np.median(norms))
        self._meaning = informative | unknown
        self._known = informative & ~unknown


def packaged_embedder() -> StaticEmbedder:
    """Make the embedder of the model that comes with kbhub."""
    return StaticEmbedder(str(PACKAGED_MODEL), PACKAGED_NAME, PACKAGED_SHA256)


def open_embedder(model: str | None) -> Embedder | None:
    """Make the embedder that the setting `embedder.model` names.

    Args:
        model: none for the packaged model, `"none"` for no embedder, an existing folder with a model2vec model,
            or a model's id on the model hub (the only way that kbhub asks the network for a model).

    Returns:
        The embedder, not loaded yet; none if the user wants none.

    Raises:
        EmbedderError: a folder was named that holds no model.
    """
    if model is None:
        return packaged_embedder()
    if model == NO_EMBEDDER:
        return None
    folder = Path(model).expanduser()
    if folder.is_dir():
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise EmbedderError(f"embedder.model: {folder} holds no model.safetensors; name a model2vec model.")
        return StaticEmbedder(str(folder), folder.name, _sha256(weights))
    if folder.is_absolute() or model.startswith((".", "~")):
        raise EmbedderError(f"embedder.model: the folder {folder} does not exist.")
    return StaticEmbedder(model, model, f"hub:{model}")


def _load_model(source: str) -> StaticModel:
    # model2vec brings the hub client with it (0.2 s), so it is imported when a vector is first wanted.
    from model2vec import StaticModel  # noqa: PLC0415

    try:
        return StaticModel.from_pretrained(source, max_length=None, force_download=False)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EmbedderError(f"The embedding model {source!r} cannot be loaded: {reason}") from error


def _is_foreign_letter(token: str) -> bool:
    letters = token.removeprefix("##")
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(HASH_CHUNK):
            digest.update(block)
    return digest.hexdigest()
