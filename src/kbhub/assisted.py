"""A search with the help of a model, where it is wanted: other words for the query before, another order after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.later import expanded_search, judging
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Query, SearchResult


@struct
class Help:
    """What help is wanted; none leaves it to the settings."""

    expand: bool | None = None
    """Whether a model gives other words for the query."""
    rerank: bool | None = None
    """Whether a model looks at the best passages."""
    expand_model: str | None = None
    """Another model than the settings name."""
    queries: tuple[str, ...] = ()
    """Other queries that the client gives by itself."""
    passage: str = ""
    """A text such as an answer might contain, of the client's."""


NO_HELP = Help()


def search_assisted(hub: Hub, query: Query, wanted: Help = NO_HELP) -> SearchResult:
    """Search as `Hub.search` does, with the help that is wanted or that the settings switch on.

    Args:
        hub: what to search.
        query: what is asked.
        wanted: what help.

    Raises:
        BaseNotFound: the query names a base that is not active.
        UsageError: the client gives too many queries.
    """
    settings = hub.config().settings
    expansion = settings.expansion
    if wanted.expand_model:
        expansion = replace(expansion, model=wanted.expand_model)

    def found(asked: Query) -> SearchResult:
        if wanted.queries or wanted.passage:
            return expanded_search.search_expanded(
                hub, asked, expanded_search.given_expansion(wanted.queries, wanted.passage)
            )
        if expansion.enabled if wanted.expand is None else wanted.expand:
            return expanded_search.search_expanding(hub, asked, expansion)
        return hub.search(asked)

    if settings.rerank.enabled if wanted.rerank is None else wanted.rerank:
        return judging.search_reranked(hub, query, settings.rerank, found)
    return found(query)
