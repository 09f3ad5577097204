"""The tools `search` and `ask`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

import time
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Annotated, Any

from mcp import MCPError, types
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field, ValidationError

from kbhub.answers.answer import Answer, AskOptions, Prepared, WritingRequest
from kbhub.answers.citations import request_of, wordings_in, wordings_request
from kbhub.answers.question import FORCED, ModelText, answer_without_client, counted, finish_written, prepare
from kbhub.documents.shown_text import one_line
from kbhub.frozen import Model
from kbhub.hub import Hub
from kbhub.index.references import make_cursor, offset_of
from kbhub.reading.read import ReadOptions, read
from kbhub.render.report import model_answer
from kbhub.render.search import answer_report, search_answer
from kbhub.search.search import search_assisted
from kbhub.server.calls import Calls
from kbhub.server.client import ServerExtension, asked_for, client_name, is_stateless, offers, view_for
from kbhub.server.definitions import Names, Wordings, brief, model_of
from kbhub.types import BOUNDS, Granularity, Hit, Mode, Query, SearchResult
from kbhub.usage.log import USER, record

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
    settings, more = config.settings.search, options.model_dump(exclude={"full", "hyde"})
    more |= {"mode": mode or settings.mode, "limit": limit or settings.limit, "passage": options.hyde}
    asked = Query(text=query, queries=tuple(queries or ()), bases=tuple(bases or ()), **more)
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


SAMPLING_SECONDS = 45.0
"""Timeout for the client's model: several clients give up on a call after 60 seconds."""

WORDINGS_SECONDS = 12.0
"""The same for other wordings, which are a line each; an answer may follow within the same call."""

REASON_BYTES = 200

SAMPLING = "The client offers its model (sampling)."
NO_SAMPLING = "The client offers no model (sampling)."
UNWRITTEN = "The client sent no answer from its model."
NO_WORDINGS = "The client's model found no other words."

_KEY = "answer"

_PREFERENCES = types.ModelPreferences(
    # Summarising passages needs no large model, and the user waits for it.
    hints=[types.ModelHint(name="haiku"), types.ModelHint(name="mini")],
    cost_priority=0.6,
    speed_priority=0.8,
    intelligence_priority=0.4,
)


def prepared_before(context: Context[Any, Any]) -> Prepared | None:
    """Return the prepared state of the call that this one repeats, or None; it is sealed by the SDK."""
    state = context.request_state
    if not isinstance(state, str) or not state.startswith("{"):
        return None
    try:
        return Prepared.model_validate_json(state)
    except ValidationError:
        return None


async def sampled(context: Context[Any, Any], request: WritingRequest, seconds: float) -> ModelText | str:
    """Ask the client's model by a request of our own; return what it wrote, or why it wrote nothing."""
    try:
        # `session.create_message` does the same, with a deprecation warning.
        asked = types.CreateMessageRequest(params=_params(request))
        return _written(await asked_for(context, asked, types.CreateMessageResult, seconds))
    except TimeoutError:
        return f"The client's model did not answer within {seconds:g} seconds."
    except MCPError as error:
        return f"The client refused: {one_line(error.message, REASON_BYTES)}."
    except ValidationError:
        return "The client sent a malformed answer."


def _params(request: WritingRequest) -> types.CreateMessageRequestParams:
    return types.CreateMessageRequestParams(
        messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text=request.prompt))],
        system_prompt=request.system,
        max_tokens=request.max_tokens,
        temperature=0.0,
        model_preferences=_PREFERENCES,
    )


def _written(answer: types.CreateMessageResult) -> ModelText | str:
    content = answer.content
    if not isinstance(content, types.TextContent):
        return f"The client's model answered with {content.type} instead of text."
    return ModelText(content.text, "sampling", one_line(answer.model, REASON_BYTES) or None)


async def ask(
    calls: Calls,
    question: Annotated[str, Field(description="In any language.")],
    context: Context[None, Any],
    queries: Annotated[Wordings, Field(json_schema_extra=brief())] = None,
    bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
    options: AskOptions | None = None,
) -> Annotated[types.CallToolResult, Answer] | types.InputRequiredResult:
    """Answer a question from the Markdown knowledge, with sources. Says so if nothing covers it. To write the
    answer yourself, set `options.budget`.
    """
    if before := prepared_before(context):
        answer = (context.input_responses or {}).get(_KEY)
        written = _written(answer) if isinstance(answer, types.CreateMessageResult) else UNWRITTEN
        if before.outcome:
            return await _reworded(calls, context, before, written, tuple(bases or ()))
        return await _finish(calls, before, written, queries or ())
    if not (await calls.state())[1].bases:
        return await calls.nothing(Answer(question=question, outcome="not_covered", text="", written_by="none"))
    names = tuple(bases or ())
    await calls.freshen(context, names, first_index=True)
    try:
        return await _asked(calls, context, question, tuple(queries or ()), names, options)
    finally:
        calls.background.searched()


async def _asked(
    calls: Calls,
    context: Context[None, Any],
    question: str,
    queries: tuple[str, ...],
    names: tuple[str, ...],
    options: AskOptions | None,
    notes: tuple[str, ...] = (),
) -> types.CallToolResult | types.InputRequiredResult:
    asker, samples = client_name(context) or USER, offers(context, "sampling")
    chosen: dict[str, Any] = {"queries": queries, "bases": names, "options": options, "asker": asker}
    prepared = await calls.run(prepare, calls.hub, question, **chosen, rewords=not samples)
    prepared = prepared.model_copy(update={"notes": (*notes, *prepared.notes)})
    gives_up = prepared.outcome == "not_covered" and prepared.searched and not queries
    by_another = prepared.options.written_by not in (None, "sampling")
    if by_another or not samples or (prepared.outcome and not gives_up):
        why = [] if by_another or prepared.outcome else [NO_SAMPLING]
        return await _without_client(calls, prepared, queries, why)
    request = wordings_request(question) if gives_up else request_of(prepared)
    if is_stateless(context):
        requests = {_KEY: types.CreateMessageRequest(params=_params(request))}
        return types.InputRequiredResult(input_requests=requests, request_state=prepared.model_dump_json())
    if gives_up:
        return await _reworded(calls, context, prepared, await sampled(context, request, WORDINGS_SECONDS), names)
    return await _finish(calls, prepared, await sampled(context, request, SAMPLING_SECONDS), queries)


async def _reworded(
    calls: Calls, context: Context[None, Any], prepared: Prepared, written: ModelText | str, names: tuple[str, ...]
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask again with the wordings of the client's model."""
    queries = wordings_in(written.text) if isinstance(written, ModelText) else ()
    if not queries:
        why = written if isinstance(written, str) else NO_WORDINGS
        prepared = prepared.model_copy(update={"notes": (why, *prepared.notes)})
        return await _without_client(calls, prepared, ())
    notes = (f"Also searched for, in words of the client's model: {'; '.join(queries)}.",)
    return await _asked(calls, context, prepared.question, queries, names, prepared.options, notes)


async def _finish(
    calls: Calls, prepared: Prepared, written: ModelText | str, queries: Sequence[str]
) -> types.CallToolResult:
    """Build an answer from what the client's model wrote, or let another model write."""
    if isinstance(written, str):
        return await _without_client(calls, prepared, queries, [written])
    why = [FORCED if prepared.options.written_by else SAMPLING]
    finished = await calls.run(finish_written, prepared, written, why)
    if isinstance(finished, str):
        return await _without_client(calls, prepared, queries, [f"The client's model was asked, but {finished}."])
    report = answer_report(await calls.run(counted, calls.hub, finished), queries)
    return calls.result(model_answer(report, inf)[0], finished)


async def _without_client(
    calls: Calls, prepared: Prepared, queries: Sequence[str], why: Sequence[str] = ()
) -> types.CallToolResult:
    return calls.told(answer_report(await calls.run(answer_without_client, calls.hub, prepared, why), queries), inf)
