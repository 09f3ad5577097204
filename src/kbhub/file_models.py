"""What configuration files may hold, as pydantic knows it: judges them, and gives their schemas; see `checking`."""

from __future__ import annotations

import functools
import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter

from kbhub.checking import path_text
from kbhub.config import RESERVED_IDS, BaseEntry
from kbhub.tools.names import ToolName

T = TypeVar("T")


def _text_or(tag: str) -> Discriminator:
    """Choose a union's branch by the JSON type alone, so that an error is about the branch that was meant."""
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
    "PathText": PathText,
    "Repos": Repos,
    "ToolSet": ToolSet,
}
"""What annotations of the declarations name that is not there where they are read."""


@functools.cache
def adapter(declared: type) -> TypeAdapter[Any]:
    """Give what validates and describes a declared dataclass."""
    made: TypeAdapter[Any] = TypeAdapter(declared)
    made.rebuild(force=True, raise_errors=True, _types_namespace=NAMES)
    return made


def validated(declared: type[T], data: dict[str, Any]) -> T:
    """Give what a file says as the dataclass that declares it.

    Args:
        declared: the dataclass.
        data: parsed JSON.

    Raises:
        ValidationError: a value is not what its field says.
    """
    judge = adapter(declared)  # type: ignore[arg-type]
    # As JSON and strict: lists may become tuples, but "5" never becomes 5.
    made: T = judge.validate_json(json.dumps(data), strict=True, by_alias=True, by_name=False)
    return made


def schema(declared: type) -> dict[str, Any]:
    """Give the JSON schema of a file that a dataclass declares."""
    return adapter(declared).json_schema(by_alias=True)
