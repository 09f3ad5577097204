"""Entry point of search; the ranking code and numpy are imported on the first query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.search.retrieval import WeightedTerm
    from kbhub.types import Query, SearchResult


def search(hub: Hub, query: Query | str) -> SearchResult:
    """Search all selected bases as last indexed (see `sync` to index them first).

    A base that fails is listed in `skipped`; the others still answer. A string is searched with the mode and limit of
    the settings. Raises `BaseNotFound` if the query names a base that is not active.
    """
    # numpy costs 15 MB and 60 ms, and many servers never get a query.
    from kbhub.search.answer import answer  # noqa: PLC0415

    return answer(hub, query)


def term_weights(hub: Hub, names: Iterable[str], text: str) -> Sequence[WeightedTerm]:
    """Return the query's terms weighted over the given bases; with equal weights if an index is damaged."""
    from kbhub.search.answer import weighted_terms  # noqa: PLC0415 - as above

    return weighted_terms(hub, names, text)
