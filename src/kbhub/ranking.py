"""Rank arithmetic, pure: pooled BM25 and the order of candidates. No storage, no clock, no model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

K1, B = 1.2, 0.75
"""BM25's saturation and length normalisation; the values that FTS5 has built in."""

IDF_FLOOR = 1e-6
"""Inverse document frequency of a term in more than half of the chunks, as FTS5 sets it."""

Key = tuple[int, int]
"""A chunk among several bases: (number of the base, id of the chunk in it)."""


@dataclass(slots=True)
class Candidate:
    """A chunk that a signal found."""

    key: Key
    value: float
    """The signal's own score; larger is better."""
    order: tuple[str, int, str]
    """(path, line, base id): decides between equal values, the same however a corpus is cut into bases."""
    document: int = 0
    """Id of its document in its base."""


def inverse_document_frequency(rows: int, containing: int) -> float:
    """Give a term's weight in BM25.

    Args:
        rows: chunks in all bases.
        containing: chunks that contain the term.
    """
    return max(IDF_FLOOR, math.log((rows - containing + 0.5) / (containing + 0.5)))


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Order candidates: best first, equal ones by path, line and base."""
    return sorted(candidates, key=lambda candidate: (-candidate.value, candidate.order))
