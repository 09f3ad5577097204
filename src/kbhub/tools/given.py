"""What callers give, taken as it is meant."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def as_list(given: Any) -> Any:
    """Take a string for a list: the names in it, between commas. Models write lists in several ways."""
    return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given


Names = Annotated[list[str], BeforeValidator(as_list)]
"""Names in a list or in a string with commas; the schema names the list alone, which takes half as many tokens."""


def cleaned(names: list[str] | None) -> tuple[str, ...]:
    """Give names without blanks around them and without empty ones."""
    return tuple(name.strip() for name in names or () if name.strip())
