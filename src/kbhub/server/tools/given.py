"""Lenient parsing of callers' arguments."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def as_list(given: Any) -> Any:
    """Split a comma-separated string into a list. Models write lists in several ways."""
    return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given


Names = Annotated[list[str], BeforeValidator(as_list)]
"""A list of names or a comma-separated string; the schema only mentions the list, which takes half as many tokens."""


def cleaned(names: list[str] | None) -> tuple[str, ...]:
    """Strip names and drop empty ones."""
    return tuple(name.strip() for name in names or () if name.strip())
