"""The tools that the conformance suite asks for to judge tasks (SEP-2663)."""

from __future__ import annotations

import anyio
from mcp import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    InputRequiredResult,
    TextContent,
)

from conformance.fixture_tools import Ctx, Round, filled, form
from kbhub.server.capabilities import has_extension
from kbhub.server.tasks import IDENTIFIER

CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _said(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def greet(name: str) -> CallToolResult:
    """Greet, at once."""
    return _said(f"Hello, {name}!")


async def slow_compute(seconds: float, label: str = "") -> CallToolResult:
    """Compute for a while."""
    await anyio.sleep(seconds)
    return _said(f"Computed {label}.")


async def failing_job(ctx: Ctx) -> CallToolResult:
    """Fail as a tool does, as a task only."""
    if not has_extension(ctx, IDENTIFIER):
        needed = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
        raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="A task only.", data=needed)
    return _said("The job failed.", is_error=True)


async def protocol_error_job() -> CallToolResult:
    """Fail as the protocol does."""
    raise MCPError(code=INTERNAL_ERROR, message="The job broke.")


async def confirm_delete(filename: str, ctx: Ctx) -> Round:
    """Ask once, and go on."""
    if filled(ctx, "sure", "confirm") is None:
        return InputRequiredResult(input_requests={"sure": form(f"Delete {filename}?", CONFIRM)}, request_state="asked")
    return _said(f"Deleted {filename}.")


async def multi_input(ctx: Ctx) -> Round:
    """Ask two things at a time."""
    if filled(ctx, "first", "name") is None or filled(ctx, "second", "name") is None:
        questions = {"first": form("First?", NAMED), "second": form("Second?", NAMED)}
        return InputRequiredResult(input_requests=questions, request_state="asked")
    return _said(f"{filled(ctx, 'first', 'name')} and {filled(ctx, 'second', 'name')}")


async def test_tool_with_task(ctx: Ctx) -> Round:
    """Ask in the call, then go on as a task."""
    if (name := filled(ctx, "user_name", "name")) is None:
        return InputRequiredResult(input_requests={"user_name": form("Who?", NAMED)}, request_state="asked")
    return _said(f"Done for {name}.")


TASK_TOOLS = {
    tool.__name__: tool for tool in (slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input)
}
"""Those that become tasks at once."""

COMPOSED = test_tool_with_task.__name__
"""Becomes a task when it has its answer."""

TOOLS = {greet.__name__: greet, **TASK_TOOLS, COMPOSED: test_tool_with_task}
"""Name → tool."""
