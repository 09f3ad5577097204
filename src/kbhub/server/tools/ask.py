"""The tool `ask`."""

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any

import anyio
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
)
from pydantic import Field, ValidationError

from kbhub.answers import Answer, AskOptions, Prepared, answer_without_client, counted, prepare
from kbhub.answers.citations import request_of
from kbhub.answers.question import FORCED, ModelText, finish_written
from kbhub.documents.safe_text import one_line
from kbhub.render import model
from kbhub.render.search import answer_report
from kbhub.server.questions import is_stateless, offers_model
from kbhub.server.tools.calls import Calls, client_name
from kbhub.server.tools.definitions import Names, Wordings, brief, cleaned
from kbhub.usage.log import USER

SAMPLING_SECONDS = 45.0
"""Timeout for the client's model: several clients give up on a call after 60 seconds."""

REASON_BYTES = 200
"""Most UTF-8 bytes shown of a client's reason."""

SAMPLING = "The client offers its model (sampling)."
NO_SAMPLING = "The client offers no model (sampling)."

_KEY = "answer"

_PREFERENCES = ModelPreferences(
    # Summarising passages needs no large model, and the user waits for it.
    hints=[ModelHint(name="haiku"), ModelHint(name="mini")],
    cost_priority=0.6,
    speed_priority=0.8,
    intelligence_priority=0.4,
)


def question_for_client(prepared: Prepared) -> InputRequiredResult:
    """Return the result that makes the client ask its model and call again; it contains all prepared state."""
    return InputRequiredResult(
        input_requests={_KEY: CreateMessageRequest(params=_params(prepared))},
        request_state=prepared.model_dump_json(),
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


def answer_of_client(context: Context[Any, Any]) -> ModelText | str:
    """Return what the client's model wrote for a repeated call, or why it wrote nothing."""
    answer = (context.input_responses or {}).get(_KEY)
    return (
        _written(answer) if isinstance(answer, CreateMessageResult) else ("The client sent no answer from its model.")
    )


async def sampled(context: Context[Any, Any], prepared: Prepared) -> ModelText | str:
    """Ask the client's model by a request of our own; return what it wrote, or why it wrote nothing."""
    try:
        with anyio.fail_after(SAMPLING_SECONDS):
            # `session.create_message` does the same, with a deprecation warning.
            answer = await context.session.send_request(
                CreateMessageRequest(params=_params(prepared)),
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
    except TimeoutError:
        return f"The client's model did not answer within {SAMPLING_SECONDS:g} seconds."
    except MCPError as error:
        return f"The client refused: {one_line(error.message, REASON_BYTES)}."
    except ValidationError:
        return "The client sent a malformed answer."
    return _written(answer)


def _params(prepared: Prepared) -> CreateMessageRequestParams:
    request = request_of(prepared)
    return CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(type="text", text=request.prompt))],
        system_prompt=request.system,
        max_tokens=request.max_tokens,
        temperature=0.0,
        model_preferences=_PREFERENCES,
    )


def _written(answer: CreateMessageResult) -> ModelText | str:
    content = answer.content
    if not isinstance(content, TextContent):
        return f"The client's model answered with {content.type} instead of text."
    return ModelText(content.text, "sampling", one_line(answer.model, REASON_BYTES) or None)


# No `from __future__ import annotations`: the SDK makes the tools' schemas from the annotations at run time.


class Asking:
    """Answers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def ask(
        self,
        question: Annotated[str, Field(description="In any language.")],
        context: Context[None, Any],
        queries: Annotated[Wordings, Field(json_schema_extra=brief())] = None,
        bases: Annotated[Names | None, Field(description="Only these, by id.")] = None,
        options: AskOptions | None = None,
    ) -> Annotated[CallToolResult, Answer] | InputRequiredResult:
        """Answer a question from the Markdown knowledge, with sources. Says so if nothing covers it. To write the
        answer yourself, set `options.budget`.
        """
        calls = self._calls
        if before := prepared_before(context):
            return await self._finish(before, answer_of_client(context))
        if not await calls.has_bases():
            return await calls.nothing(Answer(question=question, outcome="not_covered", text="", written_by="none"))
        names = cleaned(bases)
        await calls.freshen(context, names, first_index=True)
        try:
            return await self._asked(context, question, cleaned(queries), names, options)
        finally:
            calls.background.searched()

    async def _asked(
        self,
        context: Context[None, Any],
        question: str,
        queries: tuple[str, ...],
        names: tuple[str, ...],
        options: AskOptions | None,
    ) -> CallToolResult | InputRequiredResult:
        calls = self._calls
        prepared = await calls.run(_prepare, calls, question, queries, names, options, client_name(context) or USER)
        if prepared.outcome or prepared.options.written_by not in (None, "sampling"):
            return await self._without_client(prepared)
        if not offers_model(context):
            return await self._without_client(prepared, [NO_SAMPLING])
        if is_stateless(context):
            return question_for_client(prepared)
        return await self._finish(prepared, await sampled(context, prepared))

    async def _finish(self, prepared: Prepared, written: ModelText | str) -> CallToolResult:
        """Build an answer from what the client's model wrote, or let another model write."""
        if isinstance(written, str):
            return await self._without_client(prepared, [written])
        why = [FORCED if prepared.options.written_by else SAMPLING]
        finished = await self._calls.run(finish_written, prepared, written, why)
        if isinstance(finished, str):
            return await self._without_client(prepared, [f"The client's model was asked, but {finished}."])
        return await self._calls.run(self._told, finished)

    async def _without_client(self, prepared: Prepared, why: Sequence[str] = ()) -> CallToolResult:
        calls = self._calls
        answer = await calls.run(answer_without_client, calls.hub, prepared, why)
        return calls.result(*model.answer(answer_report(answer), inf))

    def _told(self, answer: Answer) -> CallToolResult:
        calls = self._calls
        return calls.result(model.answer(answer_report(counted(calls.hub, answer)), inf)[0], answer)


def _prepare(
    calls: Calls,
    question: str,
    queries: tuple[str, ...],
    names: Sequence[str],
    options: AskOptions | None,
    asker: str,
) -> Prepared:
    return prepare(calls.hub, question, queries=queries, bases=names, options=options, asker=asker)
