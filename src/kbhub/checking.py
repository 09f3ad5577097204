"""Checks what a configuration file says: every value is of exactly the type that is asked for.

What a file may hold is declared once, as dataclasses with the annotations of pydantic. Where a file is plainly right
they are not evaluated, as pydantic takes longer to load than a search takes; it judges everything else, words what is
wrong, and gives the published schema (`file_models`).
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import operator
import re
import unicodedata
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kbhub.errors import ConfigError
from kbhub.types import Problem
from kbhub.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from pydantic import ValidationError

    Converter = Callable[[Any], Any]

# The similarity (0 to 1) from which difflib's own documentation calls two words a close match.
_NEAR = 0.6
_LOOKED_AT = 200
_SHOWN_INPUT = 60
"""Characters of a wrong value that an error shows."""

MOST_UNKNOWN = 10
"""Unknown fields of a file that are named; a file with more of them is something else."""

_CHOICES = {
    "(entry)": "expected a path or an object",
    "(list)": "expected an id or a list of ids",
    "(names)": "expected `core`, `all` or a list of tools",
}
"""What is expected where the branch of a union that pydantic names was taken for want of a better."""

T = TypeVar("T")


def in_file(name: str) -> str:
    """Give the name that a field has in a file: camelCase there, snake_case here."""
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
    """Give how pydantic is to take a class of `Declared` whose schema has examples."""
    return {**Declared.__pydantic_config__, "json_schema_extra": {"examples": list(examples)}}


def checked(declared: type[T], data: Any, where: Path | str, *, more: Mapping[str, Converter] | None = None) -> T:
    """Give what a file says as the dataclass that declares it.

    Args:
        declared: the dataclass.
        data: parsed JSON.
        where: the file, for the error.
        more: as for `plainly`.

    Raises:
        ConfigError: the first field that is wrong, and what was expected.
    """
    if not isinstance(data, dict):
        raise ConfigError(where, f"expected an object in braces, not {shown(data)}")
    try:
        return plainly(declared, data, more)
    except ValueError:
        _refuse_unreadable(data, where)
        # 0.1 s to load; see above.
        from pydantic import ValidationError  # noqa: PLC0415

        from kbhub.file_models import validated  # noqa: PLC0415
    try:
        return validated(declared, data)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(where, message, ".".join(field) or None) from error


def _refuse_unreadable(data: dict[str, Any], where: Path | str) -> None:
    """Raise `ConfigError` for what has halves of characters in it or is nested deeper than any field, as pydantic's
    word for that is about JSON and names no field.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [((), data)]
    while pending:
        field, value = pending.pop()
        if len(field) > _DEEPEST:
            raise ConfigError(where, f"nested deeper than {_DEEPEST} levels", ".".join(field[:2]))
        if isinstance(value, dict):
            pending += [((*field, _cut(name)), one) for name, one in value.items()]
            value = "".join(value)
        elif isinstance(value, list):
            pending += [((*field, str(number)), one) for number, one in enumerate(value)]
        if isinstance(value, str) and _HALF.search(value):
            raise ConfigError(where, "has half of a character (a lone surrogate); write it whole", ".".join(field))


_DEEPEST = 20
"""Levels of a configuration file; the deepest field is on the fourth."""

_HALF = re.compile("[\ud800-\udfff]")


def plainly(declared: type[T], data: Any, more: Mapping[str, Converter] | None = None) -> T:
    """Give what a file says, if each of its values is plainly what its field's annotation says.

    Args:
        declared: the dataclass.
        data: parsed JSON.
        more: what else is plain: the text of an annotation → what makes a field's value of one of JSON.

    Raises:
        ValueError: it is not plain, which does not mean that it is wrong.
    """
    if not isinstance(data, dict):
        raise ValueError("expected an object in braces")  # noqa: TRY004 - as where any other value is not as expected
    values: dict[str, Any] = {}
    for one in dataclasses.fields(declared):  # type: ignore[arg-type]
        if (name := in_file(one.name)) in data:
            annotation, group = str(one.type), one.default_factory
            try:
                if isinstance(group, type) and group.__name__ == annotation:
                    values[one.name] = plainly(group, data[name], more)
                elif convert := (more or {}).get(annotation) or _PLAIN.get(annotation) or _bounded(annotation):
                    values[one.name] = convert(data[name])
                else:
                    raise ValueError(f"expected {annotation}")
            except ValueError as error:
                raise ValueError(f"{name}: {error}, not {shown(data[name])}") from error
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name}: is missing")
    return declared(**values)


def plain_text(value: Any) -> str:
    """Give a text that is one, and no half of a character.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, str):
        raise ValueError("expected a text")  # noqa: TRY004 - see `plainly`
    value.encode()
    return value


def path_text(text: str) -> str:
    """Give a text that may be a path: no file system takes NUL, and a control character in a path is never meant.

    Raises:
        ValueError: it may not.
    """
    if not text.strip() or any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("expected a path without control characters")
    return text


def plain_path(value: Any) -> str:
    """Give a text that may be a path.

    Raises:
        ValueError: it is none.
    """
    return path_text(plain_text(value))


def plain_texts(value: Any) -> tuple[str, ...]:
    """Give the texts of a list.

    Raises:
        ValueError: it is none, or has something else in it.
    """
    if not isinstance(value, list):
        raise ValueError("expected a list")  # noqa: TRY004 - see `plainly`
    return tuple(map(plain_text, value))


def plain_object(value: Any, convert: Converter) -> dict[str, Any]:
    """Give an object with each of its values converted.

    Raises:
        ValueError: it is none, or one of its values cannot be converted.
    """
    if not isinstance(value, dict):
        raise ValueError("expected an object in braces")  # noqa: TRY004 - see `plainly`
    return {plain_text(key): convert(one) for key, one in value.items()}


def plain_truth(value: Any) -> bool:
    """Give true or false.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004 - see `plainly`
    return value


def choice(among: Collection[str]) -> Converter:
    """Give what takes one of some texts and raises `ValueError` for anything else."""

    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in among:
            raise ValueError(f"expected one of {', '.join(map(repr, among))}")
        return value

    return convert


def _bounded(annotation: str) -> Converter | None:
    """Give what takes a number within the bounds that an annotation names, if they are all that it names."""
    if not (found := _NUMBER.fullmatch(annotation)):
        return None
    bounds = [(_WITHIN[name], float(bound)) for name, _, bound in (one.partition("=") for one in found[2].split(", "))]

    def convert(value: Any) -> float:
        if type(value) not in (int, float)[: 1 + (found[1] == "float")] or not abs(value) < _HUGE:
            raise ValueError("expected a number")
        if not all(within(value, bound) for within, bound in bounds):
            raise ValueError("out of bounds")
        return float(value) if found[1] == "float" else value

    return convert


_HUGE = 2**53
"""From here on, numbers of files are no longer those that people write, and floats no longer exact."""
_WITHIN = {"ge": operator.ge, "gt": operator.gt, "le": operator.le}
_NUMBER = re.compile(r"Annotated\[(int|float), Field\(((?:ge|gt|le)=\d+(?:, le=\d+)?)(?:, allow_inf_nan=False)?\)\]")


def _or_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


_PLAIN: dict[str, Converter] = {
    "bool": plain_truth,
    "str | None": _or_none(plain_text),
    "PathText": plain_path,
    "PathText | None": _or_none(plain_path),
    "tuple[str, ...]": plain_texts,
    "dict[str, str]": lambda value: plain_object(value, plain_text),
}
"""Annotation as it is written → what makes a field's value of one of JSON."""


def first_error(error: ValidationError) -> tuple[tuple[str, ...], str]:
    """Path of the first wrong field, and what was expected there."""
    first = error.errors(include_url=False)[0]
    # Branches of a union have names in parentheses, which are not the user's words.
    field = tuple(str(part) for part in first["loc"] if not str(part).startswith("("))
    if first["type"] == "missing":
        return field, "is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    message = message.partition(", unable to ")[0]  # which says in other words what the input shows
    message = _CHOICES.get(str(first["loc"][-1]) if first["loc"] else "", message)
    return field, f"{message}, not {shown(first['input'])}"


def shown(value: Any) -> str:
    """A wrong value as an error shows it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _cut(text)


def unknown_fields(declared: type, data: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    """Fields of `data` that are not declared, each with the nearest name that is."""
    known = [in_file(one.name) for one in dataclasses.fields(declared)]
    unknown = [key for key in data if key not in known]
    for number, key in enumerate(unknown):
        # Looking for the nearest one takes a tenth of a millisecond.
        yield _cut(key), nearest(_cut(key), known) if number < MOST_UNKNOWN else None


def few(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Give the first warnings about a file's fields, and one for all that are left."""
    found = tuple(problems)
    if (more := len(found) - MOST_UNKNOWN) <= 0:
        return found
    return (*found[:MOST_UNKNOWN], Problem(subject=found[0].subject, message=f"unknown fields, {more} more."))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_INPUT else f"{text[:_SHOWN_INPUT]}…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `word`, if one is near."""
    folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(word[:_LOOKED_AT].lower().replace("_", ""), folded, n=1, cutoff=_NEAR)
    return folded[found[0]] if found else None
