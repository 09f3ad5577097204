"""Search with optional help of a language model: query expansion before, reranking after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.search.multi_query import given_expansion, search_expanded, search_expanding
from kbhub.search.rerank_llm import search_reranked
from kbhub.search.search import search
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Query, SearchResult


@struct
class Help:
    """Which help to use; None leaves it to the settings."""

    expand: bool | None = None
    """Whether a model expands the query."""
    rerank: bool | None = None
    """Whether a model grades the best passages."""
    expand_model: str | None = None
    """Overrides the model of the settings."""
    queries: tuple[str, ...] = ()
    """Alternative queries from the client."""
    passage: str = ""
    """A hypothetical answer from the client."""


NO_HELP = Help()


def search_assisted(hub: Hub, query: Query, wanted: Help = NO_HELP) -> SearchResult:
    """Search with the requested help, or what the settings enable.

    Args:
        hub: what to search.
        query: the query.
        wanted: the help to use.

    Raises:
        BaseNotFound: the query names a base that is not active.
        UsageError: the client gives too many queries.
    """
    settings = hub.config().settings
    expansion = settings.expansion
    if wanted.expand_model:
        expansion = replace(expansion, model=wanted.expand_model)

    def run(asked: Query) -> SearchResult:
        if wanted.queries or wanted.passage:
            return search_expanded(hub, asked, given_expansion(wanted.queries, wanted.passage))
        if expansion.enabled if wanted.expand is None else wanted.expand:
            return search_expanding(hub, asked, expansion)
        return search(hub, asked)

    if settings.rerank.enabled if wanted.rerank is None else wanted.rerank:
        return search_reranked(hub, query, settings.rerank, run)
    return run(query)
