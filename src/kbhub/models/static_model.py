"""Load a model2vec model from its files, avoiding the library, which imports a hub client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbhub.errors import EmbedderError
from kbhub.models.tensors import MAPPING, MATRIX, WEIGHT, WEIGHTS, read_tensors
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
"""Files of a model in model2vec's layout, besides its tensors; other layouts are left to the library."""


@struct
class StaticModel:
    """A tokenizer and the vectors of its tokens."""

    tokenizer: Tokenizer
    embedding: NDArray[Any]
    """Shape (rows, dimensions), int8 or floats; memory-mapped for the packaged model, so that processes share it."""
    weights: NDArray[Any] | None
    """Weight of each token; None if all are equal."""
    token_mapping: NDArray[Any] | None
    """Token → row; None if they are the same."""
    unk_token_id: int | None


def load_model(source: str) -> StaticModel:
    """Load a model.

    Args:
        source: folder of a model in a layout that model2vec reads, or its id on the model hub.

    Raises:
        EmbedderError: it cannot be loaded.
    """
    try:
        return _read(Path(source)) or _read_with_library(source)
    except Exception as error:  # safetensors and tokenizers raise plain exceptions
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EmbedderError(f"The embedding model {source!r} cannot be loaded: {reason}") from error


def _read(folder: Path) -> StaticModel | None:
    """Read a model in model2vec's layout; None if the library must read it, or report what is wrong with it."""
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER)):
        return None
    if not isinstance(json.loads((folder / CONFIG).read_bytes()), dict):
        return None
    tensors = read_tensors(folder / WEIGHTS)
    if tensors is None or MATRIX not in tensors or tensors[MATRIX].ndim != 2:
        return None
    # Takes 15 ms, and a query of plain words needs none.
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    matrix, weights, mapping = tensors[MATRIX], tensors.get(WEIGHT), tensors.get(MAPPING)
    if not hasattr(tokenizer.model, "unk_token") or not _fits(tokenizer.get_vocab_size(), matrix, weights, mapping):
        return None
    unknown = tokenizer.model.unk_token
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return StaticModel(tokenizer, matrix, weights, mapping, None if unknown is None else tokenizer.token_to_id(unknown))


def _fits(count: int, matrix: NDArray[Any], weights: NDArray[Any] | None, mapping: NDArray[Any] | None) -> bool:
    if weights is not None and weights.shape != (count,):
        return False
    if mapping is None:
        return len(matrix) == count
    return mapping.shape == (count,) and mapping.dtype.kind == "i" and 0 <= mapping.min() <= mapping.max() < len(matrix)


def _read_with_library(source: str) -> StaticModel:
    # Imports the client of the model hub, which takes 0.5 s.
    from model2vec import StaticModel as LibraryModel  # noqa: PLC0415

    loaded = LibraryModel.from_pretrained(source, max_length=None, force_download=False)
    return StaticModel(loaded.tokenizer, loaded.embedding, loaded.weights, loaded.token_mapping, loaded.unk_token_id)
