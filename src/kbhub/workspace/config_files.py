"""Check a configuration file against its declaration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from kbhub.errors import ConfigError
from kbhub.workspace.field_checks import cut, first_error, plainly, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kbhub.workspace.field_checks import Converter

T = TypeVar("T")

_DEEPEST = 20
"""Levels of a configuration file; the deepest field is on the fourth."""

_HALF = re.compile("[\ud800-\udfff]")


def checked(declared: type[T], data: Any, where: Path | str, *, more: Mapping[str, Converter] | None = None) -> T:
    """Validate a file's parsed JSON as a dataclass; `ConfigError` names the first wrong field and what was expected."""
    if not isinstance(data, dict):
        raise ConfigError(where, f"expected an object in braces, not {shown(data)}")
    _refuse_unreadable(data, where)
    try:
        return plainly(declared, data, more)
    except ValueError:
        # pydantic takes 0.1 s to load, and a file that is as it should be needs none of it.
        from kbhub.workspace.validation import ValidationError, validated  # noqa: PLC0415
    try:
        return validated(declared, data)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(where, message, ".".join(field) or None) from error


def _refuse_unreadable(data: dict[str, Any], where: Path | str) -> None:
    """Raise `ConfigError` for lone surrogates, or nesting deeper than any field.

    Pydantic's message about them is about JSON and names no field.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [((), data)]
    while pending:
        field, value = pending.pop()
        if len(field) > _DEEPEST:
            raise ConfigError(where, f"nested deeper than {_DEEPEST} levels", ".".join(field[:2]))
        if isinstance(value, dict):
            pending += [((*field, cut(name)), one) for name, one in value.items()]
            value = "".join(value)
        elif isinstance(value, list):
            pending += [((*field, str(number)), one) for number, one in enumerate(value)]
        if isinstance(value, str) and _HALF.search(value):
            raise ConfigError(where, "contains half a character (a lone surrogate); write it in full", ".".join(field))
