"""Entry points of search; the ranking code and numpy are imported on the first query."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.types import MOST_HITS, Query, SearchResult
from kbhub.values import struct
from kbhub.workspace.extensions import extensions, load

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.search.plan import TermWeights

MOST_QUERIES, MOST_CHARACTERS = 5, 2000
"""Limits on other wordings, and on the characters of each and of the passage."""

CUT = "Only the first {:,} characters of each other wording are used."
"""Note on an answer if a wording was longer."""

NO_LLM_INSTALLED = "No language model was asked: no extension for that is installed."
"""Note on an answer, and the reason why no model writes one."""


@struct
class LlmOptions:
    """Which help of a language model to use; None leaves it to the settings."""

    expand: bool | None = None
    """Whether a model of Ollama finds other wordings."""
    rerank: bool | None = None
    """Whether a model of Ollama grades the best passages."""
    expand_model: str | None = None
    """Overrides the model of the settings."""


NO_LLM = LlmOptions()


def search(hub: Hub, query: Query | str, weights: TermWeights | None = None) -> SearchResult:
    """Search all selected bases as last indexed (see `sync` to index them first).

    A base that fails is listed in `skipped`; the others still answer. A string is searched with the mode and limit of
    the settings. `weights` gets those of its terms. Raises `BaseNotFound` if the query names a base that is not active.
    """
    # numpy costs 15 MB and 60 ms, and many servers never get a query.
    from kbhub.search import pipeline  # noqa: PLC0415

    return pipeline.search(hub, query, weights)


def every_hit(hub: Hub, query: Query, most: int = sys.maxsize) -> SearchResult:
    """Search page by page until there are no more hits, or at least `most`."""
    query = query.model_copy(update={"limit": MOST_HITS, "offset": 0})
    result = page = search(hub, query)
    hits = list(result.hits)
    while page.hits and len(hits) < min(page.total, most):
        page = search(hub, query.model_copy(update={"offset": len(hits)}))
        hits += page.hits
    notes = tuple(dict.fromkeys((*result.notes, *page.notes)))
    return result.model_copy(update={"hits": tuple(hits), "total": len(hits), "notes": notes})


def search_assisted(
    hub: Hub, query: Query, wanted: LlmOptions = NO_LLM, weights: TermWeights | None = None
) -> SearchResult:
    """Search with the requested help of a language model, or what the settings enable.

    Raises `UsageError` if the client gives too many queries.
    """
    settings = hub.config().settings
    expands = settings.expansion.enabled if wanted.expand is None else wanted.expand
    reranks = settings.rerank.enabled if wanted.rerank is None else wanted.rerank
    if len(query.queries) > MOST_QUERIES:
        raise UsageError(f"{len(query.queries)} other wordings are too many; the maximum is {MOST_QUERIES}.")
    notes: tuple[str, ...] = ()
    if max(map(len, (*query.queries, query.passage))) > MOST_CHARACTERS:
        cut, notes = tuple([text[:MOST_CHARACTERS] for text in query.queries]), (CUT.format(MOST_CHARACTERS),)
        query = query.model_copy(update={"queries": cut, "passage": query.passage[:MOST_CHARACTERS]})
    if query.queries or query.passage:
        expands = False

    def run(asked: Query) -> SearchResult:
        result = search(hub, asked, weights)
        return result.model_copy(update={"notes": (*result.notes, *notes)}) if notes else result

    if not (expands or reranks):
        return run(query)
    expansion = replace(settings.expansion, enabled=expands, model=wanted.expand_model or settings.expansion.model)
    rerank = replace(settings.rerank, enabled=reranks)
    searches = [name for extension in extensions() for name in extension.searches]
    notes = notes if searches else (*notes, NO_LLM_INSTALLED)
    for name in searches:
        run = partial(load(name), run, hub, expansion, rerank)
    return run(query)
