"""The result of a query before it becomes a `SearchResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.index.query import ParsedQuery
    from kbhub.types import Correction, Hit, Mode, Verdict


@struct
class Found:
    """What a query found."""

    hits: tuple[Hit, ...]
    total: int
    mode: Mode
    understood: ParsedQuery
    """The query itself, without other wordings."""
    terms: tuple[str, ...] = ()
    """What was looked for, as typed: terms of the query, of its other wordings, and corrections."""
    unmatched: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = ()
    verdict: Verdict | None = None
    filtered_out: bool = False
    """Whether filters and exclusions leave no document."""
    near_only: bool = False
    """Whether no query term occurs, so that hits are only near in meaning."""
    last: bool = True
    """Whether this is the last page."""
    ends: str = ""
    """A sentence on where the list ends although more documents may match; empty if it is complete."""
