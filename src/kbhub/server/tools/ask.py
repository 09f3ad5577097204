"""The tool `ask`."""

# No `from __future__ import annotations`: the SDK builds the tools' schemas from the annotations at run time.

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any

import anyio
from mcp import MCPError, types
from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from pydantic import Field, ValidationError

from kbhub.answers import Answer, AskOptions, Prepared, answer_without_client, counted, prepare
from kbhub.answers.answer import WritingRequest
from kbhub.answers.citations import request_of, wordings_in, wordings_request
from kbhub.answers.question import FORCED, ModelText, finish_written
from kbhub.documents.safe_text import one_line
from kbhub.render import model
from kbhub.render.search import answer_report
from kbhub.server.calls import Calls
from kbhub.server.client import client_name, is_stateless, offers
from kbhub.server.definitions import Names, Wordings, brief
from kbhub.usage.log import USER

SAMPLING_SECONDS = 45.0
"""Timeout for the client's model: several clients give up on a call after 60 seconds."""

WORDINGS_SECONDS = 12.0
"""The same for other wordings, which are a line each; an answer may follow within the same call."""

REASON_BYTES = 200
"""Most UTF-8 bytes shown of a client's reason."""

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
    """Return the state prepared by the call that this one repeats, or None.

    The state is sealed: the SDK rejects any other, and that of another call.
    """
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
        with anyio.fail_after(seconds):
            # `session.create_message` does the same, with a deprecation warning.
            answer = await context.session.send_request(
                types.CreateMessageRequest(params=_params(request)),
                types.CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
    except TimeoutError:
        return f"The client's model did not answer within {seconds:g} seconds."
    except MCPError as error:
        return f"The client refused: {one_line(error.message, REASON_BYTES)}."
    except ValidationError:
        return "The client sent a malformed answer."
    return _written(answer)


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
    if by_another or (prepared.outcome and not (gives_up and samples)):
        return await _without_client(calls, prepared, queries)
    if not samples:
        return await _without_client(calls, prepared, queries, [NO_SAMPLING])
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
    return await calls.run(_told, calls, finished, queries)


async def _without_client(
    calls: Calls, prepared: Prepared, queries: Sequence[str], why: Sequence[str] = ()
) -> types.CallToolResult:
    answer = await calls.run(answer_without_client, calls.hub, prepared, why)
    return calls.told(answer_report(answer, queries), inf)


def _told(calls: Calls, answer: Answer, queries: Sequence[str]) -> types.CallToolResult:
    return calls.result(model.answer(answer_report(counted(calls.hub, answer), queries), inf)[0], answer)
