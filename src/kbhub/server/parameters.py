"""Check a tool's arguments: schemas a model reads cheaply, lenient parsing, errors it can act on."""

from __future__ import annotations

import json
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from pydantic import BeforeValidator, Field

from kbhub.errors import UsageError
from kbhub.server.frames import too_much
from kbhub.workspace.field_checks import nearest, shown
from kbhub.workspace.tool_names import ALL, MEANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import ValidationError

    from kbhub.workspace.tool_names import ToolName


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
"""Characters shown of an unknown name."""


def brief(text: str = "") -> Schema:
    """Return `json_schema_extra` of a field whose description is for people only.

    Models get `text` instead; empty if the parameter's name says enough, since every conversation pays for the words.
    The schema files and the reference have the whole description.
    """
    return {BRIEF: text}


def compact(schema: Schema, *, whole: bool = False) -> Schema:
    """Return an input schema from pydantic without what costs a model tokens but tells it nothing.

    Removes titles, null alternatives and empty defaults, inlines references, and excludes unknown parameters. `whole`
    keeps descriptions for people instead of the shorter ones for models.
    """
    compacted: Schema = _said(_compacted(schema, schema.get("$defs", {})), whole=whole)
    return {**compacted, "additionalProperties": False}


def check_names(tool: str, schema: Schema, arguments: Iterable[str]) -> None:
    """Reject unknown parameters: name the first one and the most similar valid one."""
    known = list(schema.get("properties", {}))
    for name in arguments:
        if name not in known:
            raise UsageError(f"unknown parameter {_named(name)};{_inside(name, schema)} {tool} takes {_takes(known)}.")


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
    path, expected_schema = _descend(schema, first["loc"])
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
        return ("a whole number" if kind == "integer" else "a number") + _range(schema)
    return {"string": "a string", "boolean": "true or false"}.get(str(kind), "a value")


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f", at least {low}" if low is not None else f", at most {high}" if high is not None else ""


def _compacted(schema: Any, definitions: Mapping[str, Any], *, names: bool = False) -> Any:
    """Compact a schema; `names` means that its keys are property names, not JSON Schema keywords."""
    if isinstance(schema, list):
        return [_compacted(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _compacted({**definitions[schema["$ref"].rpartition("/")[2]], **rest}, definitions)
    result: Schema = {}
    for key, value in schema.items():
        if not names and (key in ("title", "$defs") or (key == "default" and not value)):
            continue
        result[key] = _compacted(value, definitions, names=key == "properties" and not names)
    if not names and "anyOf" in result:
        branches = [branch for branch in result.pop("anyOf") if branch != {"type": "null"}]
        result |= branches[0] | result if len(branches) == 1 else {"anyOf": branches}
    return result


def _said(schema: Any, *, whole: bool) -> Any:
    """Remove descriptions for people, or replace them by those for models."""
    if isinstance(schema, list):
        return [_said(item, whole=whole) for item in schema]
    if not isinstance(schema, dict):
        return schema
    described = schema if whole or BRIEF not in schema else {**schema, "description": schema[BRIEF]}
    shown = (
        described
        if described.get("description")
        else {key: value for key, value in described.items() if key != "description"}
    )
    return {key: _said(value, whole=whole) for key, value in shown.items() if key != BRIEF}


def _descend(schema: Schema, location: Sequence[int | str]) -> tuple[list[str], Schema]:
    """Follow an error location through property names, ignoring union branches and list indexes."""
    path: list[str] = []
    for part in location:
        properties = schema.get("properties", {})
        if part not in properties:
            break
        path.append(str(part))
        schema = properties[part]
    return path, schema


def _inside(name: str, schema: Schema) -> str:
    """Return where a misplaced parameter belongs, or the most similar one."""
    properties = schema.get("properties", {})
    for outer, inner in properties.items():
        if name in inner.get("properties", {}):
            return f" it belongs in `{outer}`;"
    synonym = next((own for own, others in SYNONYMS.items() if name.lower() in others and own in properties), None)
    return f" use `{synonym}`;" if synonym else _meant(name, properties)


def _meant(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f" did you mean {near!r}?" if near else ""


def _takes(known: Sequence[str]) -> str:
    return ", ".join(known) or "none"


def _named(name: str) -> str:
    """Return an untrusted name as a short string on one line."""
    return repr(name if len(name) <= _NAME else f"{name[:_NAME]}…")


def as_list(given: Any) -> Any:
    """Split a comma-separated string into a list. Models write lists in several ways."""
    return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given


Names = Annotated[list[str], BeforeValidator(as_list)]
"""A list of names or a comma-separated string; the schema only mentions the list, which takes half as many tokens."""


def cleaned(names: list[str] | None) -> tuple[str, ...]:
    """Strip names and drop empty ones."""
    return tuple(name.strip() for name in names or () if name.strip())


def _as_lines(given: Any) -> Any:
    """Split a string into its lines: a single wording, or one on each line."""
    return given.splitlines() if isinstance(given, str) else given


Wordings = Annotated[
    Annotated[list[str], BeforeValidator(_as_lines)] | None,
    Field(
        description="Two or three other wordings, in the terms, names and language the documents might use: finds "
        "far more.",
        json_schema_extra=brief("2 or 3 other wordings, as documents may put it: finds far more."),
    ),
]
"""Other wordings of a query: a list, or a string with one on each line."""


class Arguments(FuncMetadata):
    """Metadata of a tool's parameters; some clients write lists and objects as JSON strings.

    The SDK parses JSON in strings for every optional parameter. So a document text `null` became None, `[1]` was
    rejected, and a string of brackets took a gigabyte.
    """

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Parse strings among the raw arguments that stand for lists and objects."""
        return {name: self._read(name, value) for name, value in data.items()}

    def _read(self, name: str, value: Any) -> Any:
        field = self.arg_model.model_fields.get(name)
        if not isinstance(value, str) or field is None:
            return value
        if set(get_args(field.annotation) or (field.annotation,)) <= {str, NoneType}:
            return value
        begun = value.strip()[:1]
        if value.strip() != "null" and (begun not in ("[", "{") or too_much(value.encode("utf-8", "replace"))):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
