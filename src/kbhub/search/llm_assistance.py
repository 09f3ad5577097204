"""Search with optional help of a language model: query expansion before, reranking after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
    expands = settings.expansion.enabled if wanted.expand is None else wanted.expand
    reranks = settings.rerank.enabled if wanted.rerank is None else wanted.rerank
    given = bool(wanted.queries or wanted.passage)
    if not (given or expands or reranks):
        return search(hub, query)
    # They and the client of Ollama take 60 ms to load, and are off by default.
    from kbhub.search import multi_query, rerank_llm  # noqa: PLC0415

    def run(asked: Query) -> SearchResult:
        if given:
            expansion = multi_query.given_expansion(wanted.queries, wanted.passage)
            return multi_query.search_expanded(hub, asked, expansion)
        if expands:
            model = wanted.expand_model or settings.expansion.model
            return multi_query.search_expanding(hub, asked, replace(settings.expansion, model=model))
        return search(hub, asked)

    return rerank_llm.search_reranked(hub, query, settings.rerank, run) if reranks else run(query)
