"""Bases that lie in the folder of another: each file is searched once, in the innermost base that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.index.selection import paths_of, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.hits import Searched
    from kbhub.index.selection import Selection
    from kbhub.query import ParsedQuery


def selections_of(searched: Sequence[Searched], asked: ParsedQuery, now: float) -> list[Selection | None]:
    """Find what a query may find in each base.

    Args:
        searched: the bases, each index within a snapshot.
        asked: the query, with its filters and exclusions.
        now: seconds since the epoch, for `age:`.
    """
    found: dict[int, Selection | None] = {}
    # The deepest first, so that what lies in it is known before those around it are looked at.
    for number in sorted(range(len(searched)), key=lambda number: -len(searched[number].base.path.parts)):
        outer = searched[number].base
        elsewhere = [
            (searched[other].base.path.relative_to(outer.path) / path).as_posix()
            for other, selection in found.items()
            if outer.path in searched[other].base.path.parents
            for path in paths_of(searched[other].index, selection)
        ]
        names = {outer.id, *outer.names}
        found[number] = select(searched[number].index, names, asked.filters, asked.excluded, now, elsewhere)
    return [found[number] for number in range(len(searched))]
