"""What the tools publish and accept: stored definitions, which are offered, their parameters and types of results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from mcp.types import Tool
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    RootModel,
    ValidationError,
    create_model,
)
from pydantic_core import CoreSchema

from kbhub.errors import UsageError
from kbhub.hub import Hub
from kbhub.server.frames import too_much
from kbhub.values import Value
from kbhub.workspace.settings import nearest, shown
from kbhub.workspace.tool_names import ALL, BY_MODEL, CORE, DOCUMENT_WRITERS, MEANT, MEMORY_TOOLS, WRITERS, ToolName

Schema = dict[str, Any]

SYNONYMS = {
    "query": ("q", "question", "text", "search", "pattern"),
    "limit": ("n", "k", "top_k", "topk", "max_results", "max", "count", "page_size"),
    "bases": ("base", "vault", "vaults", "collection", "collections", "source", "sources", "project"),
    "refs": ("ref", "path", "paths", "file", "files", "identifier", "id", "uri", "docid"),
    "ref": ("path", "file", "identifier", "uri", "docid", "name"),
    "names": ("tag", "tags"),
    "text": ("content", "body", "memory", "fact"),
    "ids": ("id",),
    "front_matter": ("frontmatter", "metadata", "properties"),
}
"""Parameter → its names in similar tools elsewhere; used for hints, never accepted."""

BRIEF = "x-brief"
"""Schema key: a shorter description for models."""

_NAME = 60


def brief(text: str = "") -> Schema:
    """Return `json_schema_extra` of a field whose description is for people only.

    Models get `text` instead; empty if the parameter's name says enough, since every conversation pays for the words.
    The schema files and the reference have the whole description.
    """
    return {BRIEF: text}


def check_names(tool: str, schema: Schema, arguments: Iterable[str]) -> None:
    """Reject unknown parameters: name the first one and the most similar valid one."""
    properties = schema.get("properties", {})
    for name in arguments:
        if name in properties:
            continue
        outer = next((own for own, inner in properties.items() if name in inner.get("properties", {})), None)
        synonym = next((own for own, others in SYNONYMS.items() if name.lower() in others and own in properties), None)
        instead = f" use `{synonym}`;" if synonym else _meant(name, properties)
        where = f" it belongs in `{outer}`;" if outer else instead
        raise UsageError(f"unknown parameter {_named(name)};{where} {tool} takes {_takes(properties)}.")


def check_tool(name: str, tools: Sequence[str], why_not: Callable[[ToolName], str | None]) -> None:
    """Reject an unavailable tool and name the right one; `why_not` says why one of our tools is not offered."""
    if name in tools:
        return
    listed = f"Tools: {', '.join(tools)}."
    own = next((tool for tool in ALL if tool == name), None)
    meant = own or MEANT.get(name.lower().replace("-", "_"))
    if meant is None:
        raise UsageError(f"unknown tool {_named(name)};{_meant(name, tools)} {listed}")
    reason = why_not(meant)
    if own:
        raise UsageError(f"`{own}` is not available: {reason}. {listed}")
    but = f", which is not available: {reason}" if reason else ""
    raise UsageError(f"no tool {_named(name)}; use `{meant}`{but}. {listed}")


def bad_argument(tool: str, schema: Schema, error: ValidationError) -> UsageError:
    """Return a readable sentence about the first invalid argument, by the tool's compacted schema."""
    first = error.errors(include_url=False)[0]
    path, expected_schema = list[str](), schema
    for part in first["loc"]:  # property names, with branches of unions and indexes of lists
        properties = expected_schema.get("properties", {})
        if part not in properties:
            break
        path.append(str(part))
        expected_schema = properties[part]
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = list(expected_schema.get("properties", {}))
        key = str(first["loc"][-1])
        return UsageError(
            f"unknown parameter {_named(key)} in {name};{_meant(key, known)} {name} takes {_takes(known)}."
        )
    if first["type"] == "missing":
        return UsageError(f"{tool} requires `{name}`: {expected(expected_schema)}.")
    return UsageError(f"{tool}: `{name}` must be {expected(expected_schema)}, not {shown(first['input'])}.")


def expected(schema: Schema) -> str:
    """Describe in words the values that a schema admits."""
    if "anyOf" in schema:
        return " or ".join(expected(branch) for branch in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"a list, each item {expected(schema.get('items', {}))}"
    if kind == "object":
        known = list(schema.get("properties", {}))
        return f"an object with {_takes(known)}" if known else "an object"
    if kind in ("integer", "number"):
        number = "a whole number" if kind == "integer" else "a number"
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and high is not None:
            return f"{number} from {low} to {high}"
        return number + (f", at least {low}" if low is not None else f", at most {high}" if high is not None else "")
    return {"string": "a string", "boolean": "true or false"}.get(str(kind), "a value")


def _meant(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f" did you mean {near!r}?" if near else ""


def _takes(known: Iterable[str]) -> str:
    return ", ".join(known) or "none"


def _named(name: str) -> str:
    """Return an untrusted name as a short string on one line."""
    return repr(name if len(name) <= _NAME else f"{name[:_NAME]}…")


def as_list(given: Any, *, lines: bool = False) -> Any:
    """Split a string at commas or into lines, strip the texts of a list, and drop empty ones."""
    if isinstance(given, str):  # models write lists in several ways
        given = given.splitlines() if lines else given.split(",")
    if not isinstance(given, list | tuple):
        return given
    stripped = [item.strip() if isinstance(item, str) else item for item in given]
    return [item for item in stripped if item != ""]


Names = Annotated[list[str], BeforeValidator(as_list)]
"""A list of names or a comma-separated string; the schema only mentions the list, which takes half as many tokens."""

Wordings = Annotated[
    Annotated[list[str], BeforeValidator(partial(as_list, lines=True))] | None,
    Field(
        description="Two or three other wordings, in the terms, names and language the documents might use: finds "
        "far more.",
        json_schema_extra=brief("2 or 3 other wordings, as documents may put it: finds far more."),
    ),
]


class Arguments(FuncMetadata):
    """Metadata of a tool's parameters; some clients write lists and objects as JSON strings.

    The SDK parses JSON in strings for every optional parameter. So a document text `null` became None, `[1]` was
    rejected, and a string of brackets took a gigabyte.
    """

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse strings among the raw arguments that stand for lists and objects."""
        read = dict(data)
        for name, value in data.items():
            field = self.arg_model.model_fields.get(name)
            if not isinstance(value, str) or field is None:
                continue
            if set(get_args(field.annotation) or (field.annotation,)) <= {str, NoneType}:
                continue
            begun = value.strip()[:1]
            if value.strip() == "null" or (begun in ("[", "{") and not too_much(value.encode("utf-8", "replace"))):
                with suppress(ValueError, RecursionError):
                    read[name] = json.loads(value)
        return read


FILE = Path(__file__).with_name("definitions.json")
"""Tool → its definition as sent, in list order; with the schema of its result."""

NO_MODEL = (
    "nothing can write an answer here: the client offers no model and `answers.model` names no Ollama model; use "
    '`search`, or set `"tools": "all"` in the global config to get passages instead'
)


@cache
def kept(*, structured: bool = False) -> dict[str, Tool]:
    """Return the definitions of all tools, offered or not, by name; `structured` with the result schemas."""
    left_out = frozenset() if structured else frozenset(("outputSchema",))
    return {
        name: Tool.model_validate({key: value for key, value in definition.items() if key not in left_out})
        for name, definition in json.loads(FILE.read_bytes()).items()
    }


def offered(hub: Hub, *, samples: bool = False) -> tuple[ToolName, ...]:
    """Return the tools currently offered, in list order; `samples` if the client offers its model."""
    return tuple(name for name in ALL if why_not(hub, name, samples=samples) is None)


def why_not(hub: Hub, name: str, *, samples: bool = False) -> str | None:
    """Return why a tool is not offered now and what would change that, or None if it is."""
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
    if name not in DOCUMENT_WRITERS:
        return None
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
