"""The published definitions of the tools, stored as data, which of them are offered, and the types of results."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult, TextContent, Tool
from pydantic import ConfigDict, RootModel, create_model

from kbhub.workspace.tool_names import ALL, BY_MODEL, CORE, DOCUMENT_WRITERS, MEMORY_TOOLS, WRITERS

if TYPE_CHECKING:
    from pydantic import BaseModel, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

    from kbhub.hub import Hub
    from kbhub.values import Value
    from kbhub.workspace.tool_names import ToolName

FILE = Path(__file__).with_name("definitions.json")
"""Tool → its definition as sent, in list order; with the schema of its result."""

NO_MODEL = (
    "nothing can write an answer here: the client offers no model and `answers.model` names no Ollama model; use "
    '`search`, or set `"tools": "all"` in the global config to get passages instead'
)


@cache
def kept(*, structured: bool = False) -> dict[str, Tool]:
    """Return the definitions of all tools, offered or not, by name.

    Args:
        structured: whether to include the result schemas.
    """
    left_out = frozenset() if structured else frozenset(("outputSchema",))
    return {
        name: Tool.model_validate({key: value for key, value in definition.items() if key not in left_out})
        for name, definition in json.loads(FILE.read_bytes()).items()
    }


def offered(hub: Hub, *, samples: bool = False) -> tuple[ToolName, ...]:
    """Return the tools currently offered, in list order.

    Args:
        hub: the hub.
        samples: whether the client offers its model.

    Raises:
        KbhubError: the configuration is invalid.
    """
    return tuple(name for name in ALL if why_not(hub, name, samples=samples) is None)


def why_not(hub: Hub, name: ToolName, *, samples: bool = False) -> str | None:
    """Return why a tool is not offered now and what would change that, or None if it is.

    Args:
        hub: the hub.
        name: the tool.
        samples: as for `offered`.

    Raises:
        KbhubError: the configuration is invalid.
    """
    settings = hub.config().settings
    if settings.tools == "core" and name in BY_MODEL:
        if not samples and not settings.answers.model:
            return NO_MODEL
    elif name not in (CORE if settings.tools == "core" else ALL if settings.tools == "all" else settings.tools):
        return 'the setting `tools` excludes it; `"tools": "all"` in the global config offers every tool'
    if name in WRITERS and settings.read_only:
        return "kbhub is read-only, by `readOnly` in the global config, KBHUB_READ_ONLY or `--read-only`"
    if name in MEMORY_TOOLS and not settings.memory.enabled:
        return "`memory.enabled` is false in the global config"
    return _why_no_writing(hub) if name in DOCUMENT_WRITERS else None


def _why_no_writing(hub: Hub) -> str | None:
    # Lazy: only servers with writing tools need this during the handshake.
    from kbhub.editing.paths import why_not_writable  # noqa: PLC0415

    if any(why_not_writable(hub, base) is None for base in hub.discovery().bases):
        return None
    return 'no base here is writable; to change that, run `kbhub init`, or set `"writable": true` for one of your bases'


class _Whole(RootModel[Any]):
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        # Clients expect an object with properties at the top level, not a reference.
        return dict(handler.resolve_ref_schema(handler(schema)))


def model_of(value: type[Value]) -> type[BaseModel]:
    """Return a pydantic model for a value type, as the SDK requires for results."""
    return create_model(value.__name__, __base__=_Whole, __doc__=value.__doc__, root=value)


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
