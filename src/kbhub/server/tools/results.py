"""Tool results in the SDK's types."""

from __future__ import annotations

from typing import Any

from mcp.types import CallToolResult, TextContent


def text_result(text: str, structured: dict[str, Any] | None = None, *, is_error: bool = False) -> CallToolResult:
    """Build the result of a tool.

    Args:
        text: for a model.
        structured: the same for a program, if requested.
        is_error: whether the call failed.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=is_error
    )
