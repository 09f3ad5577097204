"""The tool `search`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

import time
from functools import partial
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.reading.read import ReadOptions, make_cursor, offset_of, read
from kbhub.render.search import search_answer
from kbhub.search.search import search_assisted
from kbhub.server.calls import Calls
from kbhub.server.client import ServerExtension, client_name, view_for
from kbhub.server.definitions import Names, Wordings, brief, model_of
from kbhub.types import BOUNDS, Granularity, Hit, Mode, Query, SearchResult
from kbhub.usage.log import record

FULL_BYTES = 20_000
"""Most UTF-8 bytes of whole chunks in one answer; with their context still less than `read` returns."""


def _bounded(name: str, description: str) -> Any:
    """Return the field of an option that is a number of a query, with the default and the bounds that it has there."""
    least, most = BOUNDS[name]
    return Field(getattr(Query, name), ge=least, le=most, description=description, json_schema_extra=brief())


class SearchOptions(Model):
    """Rarely needed."""

    explain: bool = Field(
        False,
        description="Explain each hit's score: ranks, values and what each signal added.",
        json_schema_extra=brief("Explain each score."),
    )
    full: bool = Field(False, description="Quote every hit in full.")
    granularity: Granularity = Field(
        "document", description="One hit per document, or one per chunk.", json_schema_extra=brief()
    )
    recency: float = _bounded("recency", "Prefer newer documents, from 0 (off) to 1 (half a year halves the score).")
    min_score: float = _bounded("min_score", "Skip hits with a lower score.")
    min_signals: int = _bounded("min_signals", "Skip hits found by fewer signals, of keyword and semantic.")
    hyde: str = Field(
        "",
        description="A hypothetical answer to the query, in the words of the documents; it is searched for, too.",
        json_schema_extra=brief("A hypothetical answer."),
    )


async def search(
    calls: Calls,
    query: Annotated[
        str,
        Field(
            description="A question or words, in any language. Filters: `tag:ops path:api/ kind:memory "
            'key:value -word "exact phrase"`.'
        ),
    ],
    context: Context[None, Any],
    queries: Wordings = None,
    bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
    mode: Annotated[Mode | None, Field(description="Default: hybrid.")] = None,
    limit: Annotated[
        int | None, Field(ge=BOUNDS["limit"][0], le=BOUNDS["limit"][1], description="Hits per page.")
    ] = None,
    cursor: Annotated[str | None, Field(description="From the last answer.")] = None,
    options: SearchOptions | None = None,
) -> Annotated[CallToolResult, model_of(SearchResult)]:
    """Search the notes, docs, decisions, conventions and memory of this project and its user. Use it first for
    questions that these may answer. Quotes the best hit; `read` opens refs as shown, or without lines whole documents.
    """
    options = options or SearchOptions()
    config, discovery = await calls.state()
    settings = config.settings.search
    asked = Query(
        text=query,
        queries=tuple(queries or ()),
        passage=options.hyde,
        bases=tuple(bases or ()),
        mode=mode or settings.mode,
        limit=limit or settings.limit,
        **options.model_dump(exclude={"full", "hyde"}),
    )
    if cursor:
        asked = asked.model_copy(update={"offset": offset_of(cursor, asked)})
    if not discovery.bases:
        return await calls.nothing(SearchResult(query=query, mode=asked.mode))
    await calls.freshen(context, asked.bases, first_index=True)
    try:
        return await calls.run(_answer, calls, asked, options, client_name(context), view_for(calls.added, context))
    finally:
        calls.background.searched()


def _answer(
    calls: Calls, asked: Query, options: SearchOptions, client: str | None, view: ServerExtension | None
) -> CallToolResult:
    began = time.perf_counter()
    traced = asked.model_copy(update={"explain": True}) if view else asked
    found = search_assisted(calls.hub, traced)
    record(calls.hub, found, traced, client, took=time.perf_counter() - began)
    if options.full:
        found = with_whole_chunks(calls.hub, found)
    result = found
    if view and not asked.explain:  # the traces were not asked for
        plain = tuple(hit.model_copy(update={"trace": None}) for hit in found.hits)
        result = found.model_copy(update={"hits": plain})
    told = calls.result(*search_answer(result, asked, partial(make_cursor, asked), full=options.full))
    return view.answer(told, found) if view else told


def with_whole_chunks(hub: Hub, result: SearchResult) -> SearchResult:
    """Replace excerpts by the whole text of their chunks as on disk now, as far as there is room."""
    refs = [f"{hit.docid}:{hit.start_line}-{hit.end_line}" for hit in result.hits]
    if not refs:
        return result
    readings = read(hub, refs, ReadOptions(answer_bytes=FULL_BYTES)).readings
    texts = {(reading.docid, reading.start_line): reading for reading in readings if not reading.rest}

    def whole(hit: Hit) -> Hit:
        reading = texts.get((hit.docid, hit.start_line))
        return hit.model_copy(update={"excerpt": reading.text, "excerpt_line": reading.start_line}) if reading else hit

    return result.model_copy(update={"hits": tuple(map(whole, result.hits))})
