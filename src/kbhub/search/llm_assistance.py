"""Search with the optional help of a language model: other wordings before, reordered hits after."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbhub.errors import UsageError
from kbhub.search.search import search
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Query, SearchResult

MOST_QUERIES, MOST_CHARACTERS = 5, 2000
"""Limits on other wordings, and on the characters of each and of the passage."""

CUT = "Only the first {:,} characters of each other wording are used."
"""Note on an answer if a wording was longer."""


@struct
class LlmOptions:
    """Which help to use; None leaves it to the settings."""

    expand: bool | None = None
    """Whether a model of Ollama finds other wordings."""
    rerank: bool | None = None
    """Whether a model of Ollama grades the best passages."""
    expand_model: str | None = None
    """Overrides the model of the settings."""


NO_LLM = LlmOptions()


def search_assisted(hub: Hub, query: Query, wanted: LlmOptions = NO_LLM) -> SearchResult:
    """Search with the requested help, or what the settings enable.

    Raises `UsageError` if the client gives too many queries.
    """
    settings = hub.config().settings
    expands = settings.expansion.enabled if wanted.expand is None else wanted.expand
    reranks = settings.rerank.enabled if wanted.rerank is None else wanted.rerank
    query, notes = _cut(query)
    expands = expands and not (query.queries or query.passage)

    def run(asked: Query) -> SearchResult:
        if expands:
            model = wanted.expand_model or settings.expansion.model
            return llm.search_expanding(hub, asked, replace(settings.expansion, model=model))
        return _noted(search(hub, asked), notes)

    if not (expands or reranks):
        return run(query)
    # They and the client of Ollama take 60 ms to load, and are off by default.
    from kbhub.search import llm  # noqa: PLC0415

    return llm.search_reranked(hub, query, settings.rerank, run) if reranks else run(query)


def _noted(result: SearchResult, notes: tuple[str, ...]) -> SearchResult:
    return result.model_copy(update={"notes": (*result.notes, *notes)}) if notes else result


def _cut(query: Query) -> tuple[Query, tuple[str, ...]]:
    """Return a query with wordings of limited length, and a note if they were longer."""
    if len(query.queries) > MOST_QUERIES:
        raise UsageError(f"{len(query.queries)} other wordings are too many; the maximum is {MOST_QUERIES}.")
    if all(len(text) <= MOST_CHARACTERS for text in (*query.queries, query.passage)):
        return query, ()
    cut = {
        "queries": tuple(text[:MOST_CHARACTERS] for text in query.queries),
        "passage": query.passage[:MOST_CHARACTERS],
    }
    return query.model_copy(update=cut), (CUT.format(MOST_CHARACTERS),)
