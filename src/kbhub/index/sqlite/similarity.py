"""Similarities of vectors that are in no file, computed like those of stored ones. Imports numpy: import it lazily."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import apsw

from kbhub.index.sqlite.arrays import paired, similarity
from kbhub.index.sqlite.schema import has_vector_functions, open_scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_local = threading.local()


def similarities_of(
    vectors: Sequence[tuple[int, bytes]], vector: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return ids and cosine similarities of (chunk id, int8 vector), like `Index.similarities` for stored ones."""
    if not hasattr(_local, "connection"):
        _local.connection = open_scratch()
        _local.compares = has_vector_functions(_local.connection)
    if not vectors or not _local.compares:
        alike = similarity([blob for _, blob in vectors], vector)
        return paired([(chunk, value) for (chunk, _), value in zip(vectors, alike, strict=True)])
    values = _local.connection.execute(
        "SELECT 1 - vec_distance_cosine(vec_int8(value), vec_int8(?)) FROM carray(?)",
        (vector.tobytes(), apsw.carray(tuple(blob for _, blob in vectors))),
    )
    return paired([(chunk, value) for (chunk, _), (value,) in zip(vectors, values, strict=True)])
