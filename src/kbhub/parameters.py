"""What a tool's caller gave against what the tool takes: schemas a model reads cheaply, errors it can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.checking import nearest, shown
from kbhub.errors import UsageError
from kbhub.tools.names import ALL, MEANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import ValidationError

    from kbhub.tools.names import ToolName

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
"""Parameter → what tools for the same purpose call it elsewhere; hints, never taken for it."""


BRIEF = "x-brief"
"""Key in a parameter's schema: what is said of it to a model, in place of its description."""


def brief(text: str = "") -> Schema:
    """Give what marks a description as one for people, in `json_schema_extra` of a field.

    Args:
        text: what a model is told in its place, nothing if the parameter's name says enough: every conversation pays
            for the words, the schema files and the reference have the whole description.
    """
    return {BRIEF: text}


def compact(schema: Schema, *, whole: bool = False) -> Schema:
    """Give an input schema without what costs a model tokens and tells it nothing.

    Titles, null alternatives and defaults that say no more than that nothing is given go, references are written out,
    and unknown parameters are excluded.

    Args:
        schema: JSON Schema of an object, as pydantic makes it.
        whole: whether descriptions for people stay, where a model is told something shorter.
    """
    made: Schema = _said(_compacted(schema, schema.get("$defs", {})), whole=whole)
    return {**made, "additionalProperties": False}


def check_names(tool: str, schema: Schema, arguments: Iterable[str]) -> None:
    """Refuse parameters that a tool does not take.

    Raises:
        UsageError: the first of them, with the nearest that there is.
    """
    known = list(schema.get("properties", {}))
    for name in arguments:
        if name not in known:
            raise UsageError(f"unknown parameter {_named(name)};{_inside(name, schema)} {tool} takes {_takes(known)}.")


def check_tool(name: str, tools: Sequence[str], why_not: Callable[[ToolName], str | None]) -> None:
    """Refuse a tool that is not offered, and name the right one.

    Args:
        name: what was called.
        tools: those that are offered.
        why_not: says why one of ours is not offered.

    Raises:
        UsageError: with what that tool is called here, or the nearest that there is.
    """
    if name in tools:
        return
    listed = f"kbhub has {', '.join(tools)}."
    own = next((one for one in ALL if one == name), None)
    meant = own or MEANT.get(name.lower().replace("-", "_"))
    if meant is None:
        raise UsageError(f"unknown tool {_named(name)};{_meant(name, tools)} {listed}")
    reason = why_not(meant)
    if own:
        raise UsageError(f"`{own}` is not offered: {reason}. {listed}")
    but = f", which is not offered: {reason}" if reason else ""
    raise UsageError(f"there is no tool {_named(name)}; use `{meant}`{but}. {listed}")


def bad_argument(tool: str, schema: Schema, error: ValidationError) -> UsageError:
    """Give one readable sentence for arguments that do not fit.

    Args:
        tool: name of the tool.
        schema: its input schema, compacted.
        error: what pydantic found; its first error is told.
    """
    first = error.errors(include_url=False)[0]
    path, wanted = _descend(schema, first["loc"])
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = list(wanted.get("properties", {}))
        key = str(first["loc"][-1])
        return UsageError(
            f"unknown parameter {_named(key)} in {name};{_meant(key, known)} {name} takes {_takes(known)}."
        )
    if first["type"] == "missing":
        return UsageError(f"{tool} needs `{name}`: {expected(wanted)}.")
    return UsageError(f"{tool}: `{name}` must be {expected(wanted)}, not {shown(first['input'])}.")


def expected(schema: Schema) -> str:
    """Say in words what a schema admits."""
    if "anyOf" in schema:
        return " or ".join(expected(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"a list, each {expected(schema.get('items', {}))}"
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
    """Compact a schema; `names` says that its keys are names of properties, not words of JSON Schema."""
    if isinstance(schema, list):
        return [_compacted(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if not names and "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _compacted({**definitions[schema["$ref"].rpartition("/")[2]], **rest}, definitions)
    made: Schema = {}
    for key, value in schema.items():
        if not names and (key in ("title", "$defs") or (key == "default" and not value)):
            continue
        made[key] = _compacted(value, definitions, names=key == "properties" and not names)
    if not names and "anyOf" in made:
        branches = [one for one in made.pop("anyOf") if one != {"type": "null"}]
        made |= branches[0] | made if len(branches) == 1 else {"anyOf": branches}
    return made


def _said(schema: Any, *, whole: bool) -> Any:
    """Leave what is said of parameters to people, or put what a model is told in its place."""
    if isinstance(schema, list):
        return [_said(one, whole=whole) for one in schema]
    if not isinstance(schema, dict):
        return schema
    given = schema if whole or BRIEF not in schema else {**schema, "description": schema[BRIEF]}
    shown = given if given.get("description") else {key: value for key, value in given.items() if key != "description"}
    return {key: _said(value, whole=whole) for key, value in shown.items() if key != BRIEF}


def _descend(schema: Schema, location: Sequence[int | str]) -> tuple[list[str], Schema]:
    """Follow the path of an error as far as it names properties; the rest are branches of unions and list places."""
    path: list[str] = []
    for part in location:
        properties = schema.get("properties", {})
        if part not in properties:
            break
        path.append(str(part))
        schema = properties[part]
    return path, schema


def _inside(name: str, schema: Schema) -> str:
    """Say where a parameter is that has another place, or what was meant by it."""
    properties = schema.get("properties", {})
    for outer, inner in properties.items():
        if name in inner.get("properties", {}):
            return f" it belongs into `{outer}`;"
    synonym = next((own for own, others in SYNONYMS.items() if name.lower() in others and own in properties), None)
    return f" use `{synonym}`;" if synonym else _meant(name, properties)


def _meant(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f" did you mean {near!r}?" if near else ""


def _takes(known: Sequence[str]) -> str:
    return ", ".join(known) or "none"


def _named(name: str) -> str:
    """Give a name that somebody made up as a string that cannot be long or break the line."""
    return repr(name if len(name) <= _NAME else f"{name[:_NAME]}…")


_NAME = 60
"""Characters shown of an unknown name."""
