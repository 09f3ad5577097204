"""Read the tensors of a model2vec model from a safetensors file, memory-mapped where that is safe."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHTS = "model.safetensors"

MATRIX, WEIGHT, MAPPING = "embeddings", "weights", "mapping"
"""Names of the tensors."""

MOST_HEADER_BYTES = 1_000_000
"""Largest header of a safetensors file in bytes; with three tensors it takes 300."""

DTYPES: dict[str, np.dtype[Any]] = {
    "I8": np.dtype("<i1"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}
"""Name in safetensors → type, for those that model2vec writes; all are little-endian."""

OWN = Path(__file__).parent
"""Files below this folder are only ever replaced by an installer, never rewritten in place, so mapping them is safe."""


def read_tensors(path: Path) -> dict[str, NDArray[Any]] | None:
    """Read the tensors of a safetensors file; None if it is damaged or has others than model2vec writes.

    The format is a length in 8 bytes, a JSON header of that length, and the data.

    Args:
        path: the file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(MOST_HEADER_BYTES, size - 8):
            return None
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if not set(header) <= {MATRIX, WEIGHT, MAPPING}:
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
