"""A model2vec model as its three files have it, read without the library and the hub client that it brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from kbhub.errors import EmbedderError
from kbhub.tensors import MAPPING, MATRIX, WEIGHT, WEIGHTS, read_tensors
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
"""Files of a model in model2vec's layout, besides its numbers; it knows two more, which it is left to read."""


@struct
class StaticModel:
    """What makes a vector: tokens, and the numbers of each."""

    tokenizer: Tokenizer
    embedding: NDArray[Any]
    """Shape (rows, dimensions), int8 or floats; of the packaged model pages of its file, which processes share."""
    weights: NDArray[Any] | None
    """Of each token; none if all weigh the same."""
    token_mapping: NDArray[Any] | None
    """Token → row; none if they are the same."""
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
    except Exception as error:  # safetensors and tokenizers have no errors of their own to catch
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EmbedderError(f"The embedding model {source!r} cannot be loaded: {reason}") from error


def _read(folder: Path) -> StaticModel | None:
    """Read a model in model2vec's layout; none if the library has to, also to say what is wrong with it."""
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS, TOKENIZER)):
        return None
    if not isinstance(json.loads((folder / CONFIG).read_bytes()), dict):
        return None
    tensors = read_tensors(folder / WEIGHTS)
    if tensors is None or MATRIX not in tensors or tensors[MATRIX].ndim != 2:
        return None
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
    # It brings the client of the model hub, half a second of loading, which only a model from there is worth.
    from model2vec import StaticModel as Loaded  # noqa: PLC0415

    loaded = Loaded.from_pretrained(source, max_length=None, force_download=False)
    return StaticModel(loaded.tokenizer, loaded.embedding, loaded.weights, loaded.token_mapping, loaded.unk_token_id)
