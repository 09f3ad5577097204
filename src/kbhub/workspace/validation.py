"""Pydantic types of configuration files, for validation and schemas; see `checking`."""

from __future__ import annotations

import functools
import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter, ValidationError

from kbhub.types import Mode
from kbhub.workspace.field_checks import path_text
from kbhub.workspace.settings import RESERVED_IDS, BaseEntry
from kbhub.workspace.tool_names import ToolName

T = TypeVar("T")

__all__ = ["NAMES", "ValidationError", "adapter", "schema", "validated"]


def _text_or(tag: str) -> Discriminator:
    """Choose a union's branch by JSON type alone, so that errors are about the intended branch."""
    return Discriminator(lambda value: "(text)" if isinstance(value, str) else tag)


PathText = Annotated[str, Field(min_length=1), AfterValidator(path_text)]
ToolSet = Annotated[
    Annotated[Literal["core", "all"], Tag("(text)")] | Annotated[tuple[ToolName, ...], Tag("(names)")],
    _text_or("(names)"),
]
BaseValue = Annotated[Annotated[PathText, Tag("(text)")] | Annotated[BaseEntry, Tag("(entry)")], _text_or("(entry)")]
RepoValue = Annotated[Annotated[str, Tag("(text)")] | Annotated[tuple[str, ...], Tag("(list)")], _text_or("(list)")]
Bases = Annotated[
    dict[str, BaseValue],
    Field(
        json_schema_extra={
            "propertyNames": {"pattern": r"^[^@/\s\u0000-\u001f\u007f]+$", "not": {"enum": list(RESERVED_IDS)}}
        }
    ),
]
Repos = dict[str, RepoValue]

NAMES: dict[str, Any] = {
    "Bases": Bases,
    "Field": Field,
    "Mode": Mode,
    "PathText": PathText,
    "Repos": Repos,
    "ToolSet": ToolSet,
}
"""Names in annotations that are only imported for type checking."""


@functools.cache
def adapter(declared: type) -> TypeAdapter[Any]:
    """Return the pydantic adapter of a declared dataclass."""
    built: TypeAdapter[Any] = TypeAdapter(declared)
    built.rebuild(force=True, raise_errors=True, _types_namespace=NAMES)
    return built


def validated(declared: type[T], data: dict[str, Any]) -> T:
    """Validate the parsed JSON of a file, and return it as a dataclass; raises pydantic's `ValidationError`."""
    # Strict JSON mode: lists may become tuples, but "5" never becomes 5.
    value: T = adapter(declared).validate_json(  # type: ignore[arg-type]
        json.dumps(data), strict=True, by_alias=True, by_name=False
    )
    return value


def schema(declared: type) -> dict[str, Any]:
    """Return the JSON schema of a declared dataclass."""
    return adapter(declared).json_schema(by_alias=True)
