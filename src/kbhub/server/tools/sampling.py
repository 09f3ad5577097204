"""Let the client's own model answer: MCP sampling, in the way of the client's protocol era."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
)
from pydantic import ValidationError

from kbhub.answers.answer import Prepared
from kbhub.answers.citations import request_of
from kbhub.answers.question import ModelText
from kbhub.documents.safe_text import one_line

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

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
