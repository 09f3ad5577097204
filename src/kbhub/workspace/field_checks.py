"""Strict validation of configuration files.

The content of a file is declared once, as dataclasses with pydantic annotations. Plainly valid files are converted here
without pydantic, which takes longer to import than a search takes. Pydantic validates everything else, words the errors
and generates the published schemas (`file_models`).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kbhub.types import Problem
from kbhub.values import Value

if TYPE_CHECKING:
    from pydantic import ValidationError

    Converter = Callable[[Any], Any]

_NEAR = 0.6
"""Similarity (0 to 1) of a close match, difflib's default."""
_LOOKED_AT = 200
"""Characters of a word that are compared."""
_SHOWN_INPUT = 60
"""Characters of an invalid value shown in an error."""

MOST_UNKNOWN = 10
"""Unknown fields of a file that are reported individually; with more, it is probably another kind of file."""

_CHOICES = {
    "(entry)": "expected a path or an object",
    "(list)": "expected an id or a list of ids",
    "(names)": "expected `core`, `all` or a list of tools",
}
"""Union branch that pydantic fell back to → message naming all branches."""

T = TypeVar("T")


def in_file(name: str) -> str:
    """Return a field's name in a file: camelCase there, snake_case here."""
    if name == "schema_":
        return "$schema"
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class Declared(Value):
    """What a configuration file holds: names are in camelCase there, in snake_case here."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "alias_generator": in_file,
        "field_title_generator": lambda name, _: name.strip("_").replace("_", " ").capitalize(),
        "validate_by_name": True,
        "validate_by_alias": True,
        "extra": "ignore",  # unknown fields are warnings; `unknown_fields` finds them
    }


def with_examples(*examples: dict[str, Any]) -> dict[str, Any]:
    """Return the pydantic config of a `Declared` class whose schema has examples."""
    return {**Declared.__pydantic_config__, "json_schema_extra": {"examples": list(examples)}}


def plainly(declared: type[T], data: Any, more: Mapping[str, Converter] | None = None) -> T:
    """Convert JSON to a dataclass without pydantic, if every value plainly matches its field's annotation.

    `more` maps the source text of an annotation to a function from a JSON value to the field's. Raises `ValueError` if
    a value does not match plainly; pydantic may still accept it.
    """
    if not isinstance(data, dict):
        raise ValueError("expected an object in braces")  # noqa: TRY004 - as for any other unexpected value
    values: dict[str, Any] = {}
    for field in dataclasses.fields(declared):  # type: ignore[arg-type]
        if (name := in_file(field.name)) in data:
            annotation, group = str(field.type), field.default_factory
            try:
                if isinstance(group, type) and group.__name__ == annotation:
                    values[field.name] = plainly(group, data[name], more)
                elif convert := (more or {}).get(annotation) or _PLAIN.get(annotation) or _bounded(annotation):
                    values[field.name] = convert(data[name])
                else:
                    raise ValueError(f"expected {annotation}")
            except ValueError as error:
                raise ValueError(f"{name}: {error}, not {shown(data[name])}") from error
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name}: is missing")
    return declared(**values)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def plain_text(value: Any) -> str:
    """Return a value if it is a string without lone surrogates, else raise `ValueError`."""
    if not isinstance(value, str):
        raise ValueError("expected a text")  # noqa: TRY004 - see `plainly`
    value.encode()
    return value


def path_text(text: str) -> str:
    """Return a string if it can be a path (not blank, no control characters), else raise `ValueError`."""
    if not text.strip() or _CONTROL.search(text):
        raise ValueError("expected a path without control characters")
    return text


def plain_path(value: Any) -> str:
    """Return a value if it is a string that can be a path, else raise `ValueError`."""
    return path_text(plain_text(value))


def plain_texts(value: Any) -> tuple[str, ...]:
    """Return a list of strings as a tuple, or raise `ValueError`."""
    if not isinstance(value, list):
        raise ValueError("expected a list")  # noqa: TRY004 - see `plainly`
    return tuple(map(plain_text, value))


def plain_object(value: Any, convert: Converter) -> dict[str, Any]:
    """Return an object with all values converted, or raise `ValueError`."""
    if not isinstance(value, dict):
        raise ValueError("expected an object in braces")  # noqa: TRY004 - see `plainly`
    return {plain_text(key): convert(item) for key, item in value.items()}


def plain_truth(value: Any) -> bool:
    """Return a value if it is a boolean, else raise `ValueError`."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004 - see `plainly`
    return value


def choice(among: Collection[str]) -> Converter:
    """Return a converter that only accepts some strings, and raises `ValueError` for anything else."""

    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in among:
            raise ValueError(f"expected one of {', '.join(map(repr, among))}")
        return value

    return convert


def _bounded(annotation: str) -> Converter | None:
    """Converter for a number annotated with nothing but bounds; None for other annotations."""
    if not (match := _NUMBER.fullmatch(annotation)):
        return None
    types = (int, float) if match[1] == "float" else (int,)
    limits = (limit.partition("=") for limit in match[2].split(", "))
    bounds = [(_WITHIN[name], float(bound)) for name, _, bound in limits]

    def convert(value: Any) -> float:
        if type(value) not in types or not abs(value) < _HUGE:
            raise ValueError("expected a number")
        if not all(within(value, bound) for within, bound in bounds):
            raise ValueError("out of bounds")
        return float(value) if match[1] == "float" else value

    return convert


_HUGE = 2**53
"""Integers from here on are not exact as floats, and are left to pydantic."""
_WITHIN = {"ge": operator.ge, "gt": operator.gt, "le": operator.le}
_NUMBER = re.compile(r"Annotated\[(int|float), Field\(((?:ge|gt|le)=\d+(?:, le=\d+)?)(?:, allow_inf_nan=False)?\)\]")


def _or_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


_PLAIN: dict[str, Converter] = {
    "bool": plain_truth,
    "bool | None": _or_none(plain_truth),
    "str | None": _or_none(plain_text),
    "PathText": plain_path,
    "PathText | None": _or_none(plain_path),
    "tuple[str, ...]": plain_texts,
    "dict[str, str]": lambda value: plain_object(value, plain_text),
}
"""Source text of an annotation → function from a JSON value to the field's."""


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Return the path of the first invalid field, and what was expected there."""
    first = error.errors(include_url=False)[0]
    # Names in parentheses are branches of unions, not fields of the file.
    field = tuple(str(part) for part in first["loc"] if not str(part).startswith("("))
    if first["type"] == "missing":
        return field, "is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    message = message.partition(", unable to ")[0]  # redundant, as the input is shown
    message = _CHOICES.get(str(first["loc"][-1]) if first["loc"] else "", message)
    return field, f"{message}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """Return a wrong value as shown in an error."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return cut(text)


def unknown_fields(declared: type, data: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    """Yield the undeclared fields of `data`, each with the most similar declared name, or None."""
    known = [in_file(field.name) for field in dataclasses.fields(declared)]
    unknown = [key for key in data if key not in known]
    for number, key in enumerate(unknown):
        # Looking for the nearest one takes a tenth of a millisecond.
        yield cut(key), nearest(cut(key), known) if number < MOST_UNKNOWN else None


def few(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first warnings about a file's fields, and one that counts the rest."""
    warnings = tuple(problems)
    if (more := len(warnings) - MOST_UNKNOWN) <= 0:
        return warnings
    return (*warnings[:MOST_UNKNOWN], Problem(subject=warnings[0].subject, message=f"unknown fields, {more} more."))


def cut(text: str) -> str:
    """Shorten a text for an error."""
    return text if len(text) <= _SHOWN_INPUT else f"{text[:_SHOWN_INPUT]}…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `word`, or None if none is similar enough."""
    folded = {name.lower().replace("_", ""): name for name in known}
    matches = difflib.get_close_matches(word[:_LOOKED_AT].lower().replace("_", ""), folded, n=1, cutoff=_NEAR)
    return folded[matches[0]] if matches else None
