"""The tools that the conformance suite calls by name: each shows one thing that a server may do on the wire.

What they are called and give back is laid down by the suite; `conformance list --server` names its scenarios.
"""

import json
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

Ctx = Context[None, Any]
Round = CallToolResult | InputRequiredResult

STEP_SECONDS = 0.05
"""Between two reports of a tool that has several; the suite asks for about that."""

SCHEMA_TOOL = "json_schema_2020_12_tool"
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""What the listing must keep of a schema, keyword for keyword."""

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOUR = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
CONFIRMED = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
PERSON = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
OPTIONS = ["option1", "option2", "option3"]


def _titled(word: str) -> list[dict[str, str]]:
    return [{"const": f"value{n}", "title": f"{ordinal} {word}"} for n, ordinal in enumerate(("First", "Second"), 1)]


ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
    },
    "required": [],
}


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""One red pixel."""
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="
"""Two samples of silence."""


def _result(*content: ContentBlock | str) -> CallToolResult:
    blocks = [TextContent(type="text", text=one) if isinstance(one, str) else one for one in content]
    return CallToolResult(content=blocks)


IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    """Give a resource within a content."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def form(message: str, schema: dict[str, Any]) -> ElicitRequest:
    """Make a question to the user."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sampling(text: str, tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def answer(ctx: Ctx, key: str, kind: type) -> Any:
    """Give the client's answer to a question, none if it gave none or one of another kind."""
    given = (ctx.input_responses or {}).get(key)
    return given if isinstance(given, kind) else None


def filled(ctx: Ctx, key: str, field: str) -> Any:
    """Give one field of a form that the user has filled in, none if they have not."""
    given = answer(ctx, key, ElicitResult)
    return (given.content or {}).get(field) if given and given.action == "accept" else None


# Contents


def test_simple_text() -> CallToolResult:
    """Give a text."""
    return _result("This is a simple text response for testing.")


def test_image_content() -> CallToolResult:
    """Give a picture."""
    return _result(IMAGE)


def test_audio_content() -> CallToolResult:
    """Give a sound."""
    return _result(AudioContent(type="audio", data=WAV, mime_type="audio/wav"))


def test_embedded_resource() -> CallToolResult:
    """Give a resource."""
    return _result(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


def test_multiple_content_types() -> CallToolResult:
    """Give a text, a picture and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return _result(
        "Multiple content types test:", IMAGE, embedded("test://mixed-content-resource", "application/json", data)
    )


def test_error_handling() -> CallToolResult:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


def json_schema_2020_12_tool(name: str = "") -> CallToolResult:
    """Have a schema with many keywords."""
    return _result(f"Hello, {name}.")


def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> CallToolResult:
    """Take a parameter that a client also sends as a header."""
    return _result(f"region={region}")


# Reports on the way


async def test_tool_with_logging(ctx: Ctx) -> CallToolResult:
    """Log three lines."""
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(step)
        await anyio.sleep(STEP_SECONDS)
    return _result("Logged three lines.")


async def test_logging_tool(ctx: Ctx) -> CallToolResult:
    """Log a line, which only who asked for it may get."""
    await ctx.info("One line")
    return _result("Logged a line.")


async def test_tool_with_progress(ctx: Ctx) -> CallToolResult:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP_SECONDS)
    return _result("Reported progress.")


async def test_reconnection(ctx: Ctx) -> CallToolResult:
    """Close the stream before the answer, so that the client fetches that on another."""
    await ctx.close_sse_stream()
    await anyio.sleep(STEP_SECONDS)
    return _result("Answered after the stream was closed.")


async def test_trigger_prompt_change(ctx: Ctx) -> CallToolResult:
    """Announce other prompts."""
    await ctx.notify_prompts_changed()
    return _result("Announced.")


# Questions to the client, of the handshake era: requests of the server's own


async def test_sampling(prompt: str, ctx: Ctx) -> CallToolResult:
    """Ask the client's model."""
    params = _sampling(prompt, 100).params
    made = await ctx.session.create_message(
        params.messages, max_tokens=params.max_tokens, related_request_id=ctx.request_id
    )
    return _result(f"LLM response: {made.content.text}")


async def _elicited(ctx: Ctx, message: str, schema: dict[str, Any]) -> CallToolResult:
    told = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return _result(f"Elicitation completed: action={told.action}, content={json.dumps(told.content)}")


async def test_elicitation(message: str, ctx: Ctx) -> CallToolResult:
    """Ask the user."""
    return await _elicited(ctx, message, PERSON)


async def test_elicitation_sep1034_defaults(ctx: Ctx) -> CallToolResult:
    """Ask the user, with a default for each kind of value."""
    return await _elicited(ctx, "Look through these values.", DEFAULTS)


async def test_elicitation_sep1330_enums(ctx: Ctx) -> CallToolResult:
    """Ask the user to choose, in each way that there is."""
    return await _elicited(ctx, "Choose.", ENUMS)


# Questions to the client, of 2026-07-28: results that say what is missing


def test_input_required_result_elicitation(ctx: Ctx) -> Round:
    """Ask the user's name."""
    name = filled(ctx, "user_name", "name")
    if name is None:
        return InputRequiredResult(input_requests={"user_name": form("What is your name?", NAME)})
    return _result(f"Hello, {name}!")


def test_input_required_result_sampling(ctx: Ctx) -> Round:
    """Ask the client's model."""
    made = answer(ctx, "capital_question", CreateMessageResult)
    if made is None:
        question = _sampling("What is the capital of France?", 100)
        return InputRequiredResult(input_requests={"capital_question": question})
    return _result(made.content.text)


def test_input_required_result_list_roots(ctx: Ctx) -> Round:
    """Ask the client's roots."""
    given = answer(ctx, "client_roots", ListRootsResult)
    if given is None:
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return _result(f"Roots: {', '.join(str(root.uri) for root in given.roots)}")


def test_input_required_result_request_state(ctx: Ctx) -> Round:
    """Ask, and know again at the answer what was asked."""
    if ctx.request_state != "asked" or filled(ctx, "confirm", "ok") is None:
        question = form("Please confirm", CONFIRMED)
        return InputRequiredResult(input_requests={"confirm": question}, request_state="asked")
    return _result("state-ok")


def test_input_required_result_tampered_state(ctx: Ctx) -> Round:
    """Ask with a state that nobody can change."""
    return test_input_required_result_request_state(ctx)


def test_input_required_result_multiple_inputs(ctx: Ctx) -> Round:
    """Ask three things at once."""
    name = filled(ctx, "user_name", "name")
    made = answer(ctx, "greeting", CreateMessageResult)
    roots = answer(ctx, "client_roots", ListRootsResult)
    if name is None or made is None or roots is None:
        return InputRequiredResult(
            input_requests={
                "user_name": form("What is your name?", NAME),
                "greeting": _sampling("Generate a greeting", 50),
                "client_roots": ListRootsRequest(),
            },
            request_state="asked",
        )
    return _result(f"{made.content.text} {name}, with {len(roots.roots)} roots")


def test_input_required_result_multi_round(ctx: Ctx) -> Round:
    """Ask one thing after the other."""
    state = json.loads(ctx.request_state) if ctx.request_state else {}
    name = state.get("name") or filled(ctx, "step1", "name")
    if name is None:
        question = form("Step 1: What is your name?", NAME)
        return InputRequiredResult(input_requests={"step1": question}, request_state="{}")
    colour = filled(ctx, "step2", "color")
    if colour is None:
        question = form("Step 2: What is your favorite color?", COLOUR)
        return InputRequiredResult(input_requests={"step2": question}, request_state=json.dumps({"name": name}))
    return _result(f"{name} likes {colour}.")


def test_input_required_result_capabilities(ctx: Ctx) -> Round:
    """Ask only what the client can answer."""
    can = ctx.client_capabilities
    questions: dict[str, Any] = {}
    if can and can.sampling:
        questions["greeting"] = _sampling("Generate a greeting", 50)
    if can and can.elicitation:
        questions["user_name"] = form("What is your name?", NAME)
    if not questions or ctx.input_responses:
        return _result("Nothing is left to ask.")
    return InputRequiredResult(input_requests=questions)


def _anything() -> Sample:
    params = _sampling("Anything", 10).params
    return Sample(params.messages, max_tokens=params.max_tokens)


def test_missing_capability(made: Annotated[CreateMessageResult, Resolve(_anything)]) -> CallToolResult:
    """Ask the client's model whether or not it has one, so that the call fails where it has none."""
    return _result(f"Sampled: {made.content.text}")


def test_streaming_elicitation(ctx: Ctx) -> Round:
    """Ask the user within a result, never by a request on the stream."""
    return test_input_required_result_elicitation(ctx)


TOOLS = {name: tool for name, tool in globals().items() if name.startswith("test_") or name == SCHEMA_TOOL}
"""Name → tool."""
