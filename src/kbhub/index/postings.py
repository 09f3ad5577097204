"""The occurrences of a term. Imports numpy, so import it lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@struct
class Postings:
    """The chunks of one index in which a term occurs."""

    positions: NDArray[np.int64]
    """Positions of the chunks with the term, ascending; see `columns`."""
    counts: NDArray[np.float64]
    """Occurrences in each, weighted by the column they are in."""

    def __len__(self) -> int:
        return len(self.positions)
