"""Lenient parsing of callers' arguments."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kbhub.server.parameters import brief


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
        description="Two or three other wordings, in the terms, names and language that the documents would use: they "
        "find far more.",
        json_schema_extra=brief("2 or 3 other wordings, as the documents may put it: finds far more."),
    ),
]
"""Other wordings of a query: a list, or a string with one on each line."""
