"""Model2vec models, loaded without the library, which imports a hub client, and their combined vectors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbhub.errors import EmbedderError
from kbhub.models.lexicon import LEVELS, ROWS, STEPS, WORDS, Lexicon
from kbhub.values import struct

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
"""Files of a model in model2vec's layout; other layouts are left to the library."""

MATRIX, WEIGHT, MAPPING = "embeddings", "weights", "mapping"
"""Names of model2vec's tensors."""

LEXICON = frozenset((WORDS, ROWS, LEVELS, STEPS))
"""Names of the tensors that the packaged model has besides."""

MOST_HEADER_BYTES = 1_000_000
"""Largest header of a safetensors file in bytes; with five tensors it takes 500."""

DTYPES: dict[str, np.dtype[Any]] = {
    "I8": np.dtype("<i1"),
    "U8": np.dtype("<u1"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
}
"""Name in safetensors → type, for those that these tensors have; all are little-endian."""

OWN = Path(__file__).parent
"""Files below this folder are only ever replaced by an installer, never rewritten in place, so mapping them is safe."""

KNOWN_SHARE = 0.5
"""Texts with a smaller share of known tokens get no vector, as it would be noise."""

INFORMATIVE_NORM = 0.1
"""Tokens with vectors shorter than this share of the median carry no meaning (punctuation)."""

CONTINUED = "##"
"""Prefix of a piece that continues a word."""

LETTER = len(f"{CONTINUED}x")
"""Characters of the longest single-letter token."""


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
    lexicon: Lexicon | None = None
    """Whole words of other languages; only the packaged model has one."""


def load_model(source: str) -> StaticModel:
    """Load a model from a folder in a layout that model2vec reads, or by its id on the model hub."""
    try:
        return _read(Path(source)) or _read_with_library(source)
    except Exception as error:  # safetensors and tokenizers raise plain exceptions
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EmbedderError(f"Cannot load the embedding model {source!r}: {reason}") from error


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
    name = tokenizer.model.unk_token
    unknown = None if name is None else tokenizer.token_to_id(name)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return StaticModel(tokenizer, matrix, weights, mapping, unknown, lexicon_of(tensors))


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


def read_tensors(path: Path) -> dict[str, NDArray[Any]] | None:
    """Return name → array of a safetensors file, memory-mapped where that is safe.

    The format is a length in 8 bytes, a JSON header of that length, and the data. None if the file is damaged or has
    others
    than model2vec or kbhub writes.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(MOST_HEADER_BYTES, size - 8):
            return None
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if not set(header) <= {MATRIX, WEIGHT, MAPPING, *LEXICON}:
        return None
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        dtype, shape, (start, end) = DTYPES.get(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        if dtype is None or min(shape, default=0) < 1 or end - start != math.prod(shape) * dtype.itemsize:
            return None
        offset = 8 + length + start
        if start < 0 or offset % dtype.itemsize or 8 + length + end > size:
            return None
        mapped = np.memmap(path, dtype, "r", offset, shape)
        # Rewriting a file while it is mapped would crash the process.
        tensors[name] = mapped.view(np.ndarray) if path.is_relative_to(OWN) else np.array(mapped)
    return tensors


def lexicon_of(tensors: dict[str, NDArray[Any]]) -> Lexicon | None:
    """Return the words of other languages, whose token ids follow those of the matrix, or None if there are none."""
    return Lexicon(tensors, len(tensors[MATRIX])) if tensors.keys() >= LEXICON else None


def speaks_of_something(known: NDArray[np.bool_], meaning: NDArray[np.bool_], words: int = 0) -> bool:
    """Return whether a model knows enough of a text's tokens.

    Args:
        known: for each token of the tokenizer, whether the model knows its meaning.
        meaning: for each of these, whether it has any meaning.
        words: number of tokens of the lexicon, which are all known.
    """
    count = int(np.count_nonzero(known)) + words
    return count > 0 and count >= KNOWN_SHARE * (int(np.count_nonzero(meaning)) + words)


def mean_of(matrix: NDArray[Any], rows: NDArray[np.integer[Any]], weights: NDArray[Any] | None) -> NDArray[np.float32]:
    """Return the weighted sum of some rows, which has the direction of their mean; shape (dimensions,).

    `matrix` has shape (rows, dimensions), int8 or floats; without `weights`, all rows count the same.
    """
    factors = np.ones(len(rows), np.float32) if weights is None else weights.astype(np.float32)
    mean: NDArray[np.float32] = factors @ matrix.take(rows, 0).astype(np.float32)
    return mean


def unit(mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale a vector to length 1; zeros stay as they are."""
    return mean / (float(np.linalg.norm(mean)) or 1.0)


def norms(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return the lengths of rows."""
    floats = vectors.astype(np.float32)
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", floats, floats))
    return lengths


def is_foreign_letter(token: str) -> bool:
    """Return whether a token is a single non-ASCII letter: the tokenizer has no words of its script."""
    if len(token) > LETTER:
        return False
    letters = token.removeprefix(CONTINUED)
    return len(letters) == 1 and not letters.isascii() and letters.isalpha()
