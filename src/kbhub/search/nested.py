"""Nested bases: each file is searched once, in the innermost base that contains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbhub.index.selection import paths_of, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.index.query import ParsedQuery
    from kbhub.index.rows import Selection
    from kbhub.search.hits import Searched


def selections_of(searched: Sequence[Searched], asked: ParsedQuery, now: float) -> list[Selection | None]:
    """Select what a query may find in each base.

    Args:
        searched: the bases, each index within a snapshot.
        asked: the query, with its filters and exclusions.
        now: seconds since the epoch, for `age:`.
    """
    selections: dict[int, Selection | None] = {}
    # Deepest first, so that inner bases are selected before the bases around them.
    for number in sorted(range(len(searched)), key=lambda number: -len(searched[number].base.path.parts)):
        outer = searched[number].base
        elsewhere = [
            (searched[other].base.path.relative_to(outer.path) / path).as_posix()
            for other, selection in selections.items()
            if outer.path in searched[other].base.path.parents
            for path in paths_of(searched[other].index, selection)
        ]
        names = {outer.id, *outer.names}
        selections[number] = select(searched[number].index, names, asked.filters, asked.excluded, now, elsewhere)
    return [selections[number] for number in range(len(searched))]
