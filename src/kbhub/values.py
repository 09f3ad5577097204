"""Lightweight dataclasses for data types, cheap to declare. Imports no other module of kbhub.

There are three ways to declare a value:

- `frozen.Model` (pydantic) for what crosses an edge and must be validated or described by a schema: arguments and
  results of tools, reports, files and answers of servers.
- `Value` for what the API returns on the path of a search, and for settings: the methods of a model without pydantic,
  whose import takes 100 ms.
- `struct` for everything inside.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

DAY_SECONDS = 86_400
DAYS_A_YEAR = 365.25

PARSES = 10

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value:
    """Base class that makes its subclasses frozen, keyword-only dataclasses, without a decorator.

    It has those methods of pydantic models that the public API promises. The methods that `dataclass` would generate
    for each class, taking a millisecond, are shared here.
    """

    # Used by pydantic if a value is part of a model.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=True)(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Use the docstring below each field as its description; pydantic would parse the source for every use."""
        json_schema = handler(schema)
        properties = handler.resolve_ref_schema(json_schema)["properties"]
        alias = cls.__pydantic_config__.get("alias_generator", str)
        for name, text in _texts(cls).items():
            properties[alias(name)]["description"] = text
        return json_schema

    def __init__(self, **arguments: Any) -> None:
        values = self.__dict__
        for spec in fields(self):  # type: ignore[arg-type]
            if spec.name in arguments:
                values[spec.name] = arguments.pop(spec.name)
            elif spec.default is not MISSING:
                values[spec.name] = spec.default
            elif spec.default_factory is not MISSING:
                values[spec.name] = spec.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {spec.name}")
        if arguments:
            raise TypeError(f"{type(self).__name__} has no {', '.join(arguments)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Raise `ValueError` if the fields are inconsistent."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({arguments})"

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with some fields replaced."""
        return replace(self, **update or {})  # type: ignore[type-var]

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        exclude_defaults: bool = False,
    ) -> dict[str, Any]:
        """Convert to a dictionary, including nested values.

        The mode `json` converts everything to JSON types: paths to strings, tuples to lists. Raises `TypeError` if
        `include` or `exclude` is a mapping, which pydantic uses for nested fields.
        """
        if isinstance(include, Mapping) or isinstance(exclude, Mapping):
            raise TypeError("name fields of the value itself; for others, take them out of the dictionary")
        return {
            spec.name: _plain(value, as_json=mode == "json")
            for spec in fields(self)  # type: ignore[arg-type]
            if (include is None or spec.name in include) and spec.name not in exclude
            for value in [getattr(self, spec.name)]
            if not (exclude_defaults and value == spec.default)
        }

    def model_dump_json(
        self, *, indent: int | None = None, include: Collection[str] | None = None, exclude: Collection[str] = ()
    ) -> str:
        """Convert to JSON; see `model_dump`."""
        data = self.model_dump(mode="json", include=include, exclude=exclude)
        return json.dumps(data, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def struct(declared: Any = None, *, frozen: bool = True) -> Any:
    """Turn a class into a slotted dataclass with repr; if frozen, as far as the type checker goes, with equality, too.

    Declared in a third of the time that `dataclass(slots=True)` takes, a millisecond per class: methods are shared
    instead of generated.
    """
    if declared is None:
        return partial(struct, frozen=frozen)
    result: Any = dataclass(repr=False, eq=False, match_args=False, slots=True)(declared)
    methods: tuple[tuple[str, Any], ...] = (("__repr__", _shown),)
    if frozen:
        result._key = attrgetter(*(spec.name for spec in fields(result) if spec.compare))
        methods += (("__eq__", _equal), ("__hash__", _hash))
    for name, method in methods:
        if name not in declared.__dict__:
            setattr(result, name, method)
    return result


def _equal(self: Any, other: Any) -> bool:
    return bool(self._key(self) == self._key(other)) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _shown(self: Any) -> str:
    arguments = ", ".join(f"{spec.name}={getattr(self, spec.name)!r}" for spec in fields(self))
    return f"{type(self).__qualname__}({arguments})"


class Within:
    """Bounds of a number, as an annotation for its schema."""

    def __init__(self, least: float, most: float) -> None:
        self._bounds = {"minimum": least, "maximum": most}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self._bounds}


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 chunk`, `2 chunks`; an irregular plural is passed along."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def age_text(days: int, ending: str = " old") -> str:
    """Return an age with an ending: `today`, `2 days old`, `3 months old`, `a year old`, `1.5 years old`."""
    if not days:
        return "today"
    years, months = f"{days / DAYS_A_YEAR:.1f}".removesuffix(".0"), int(12 * days / DAYS_A_YEAR)
    if days >= int(DAYS_A_YEAR):
        return f"{'a year' if years == '1' else f'{years} years'}{ending}"
    return f"{counted(days, 'day') if months < 2 else f'{months} months'}{ending}"


def moment_of(text: Any) -> float | None:
    """Return a time in ISO 8601, by default UTC, in seconds since the epoch; None for anything else."""
    with contextlib.suppress(TypeError, ValueError, OverflowError, OSError):
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)  # the last days of the calendar may not exist in UTC
        return seconds
    return None


def shared_start(left: Sequence[T], right: Sequence[T]) -> tuple[T, ...]:
    """Return the items with which both sequences begin."""
    return tuple(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _texts(declared: type) -> dict[str, str]:
    """Return the text below each field of a class, inherited ones included."""
    texts = {}
    for kind in reversed(declared.__mro__[: declared.__mro__.index(Value)]):
        for field_, below in itertools.pairwise(_statements(kind)):
            if isinstance(field_, ast.AnnAssign) and isinstance(below, ast.Expr):
                texts[field_.target.id] = " ".join(below.value.value.split())  # type: ignore[union-attr, attr-defined]
    return texts


def _statements(declared: type) -> list[ast.stmt]:
    """Return the statements of a class."""
    for _ in range(PARSES):
        # Up to CPython 3.11.7 and 3.12.1 parsing fails if another thread parses meanwhile (gh-106905).
        with contextlib.suppress(SystemError):
            return ast.parse(inspect.getsource(declared)).body[0].body  # type: ignore[attr-defined, no-any-return]
    return []


def _plain(value: Any, *, as_json: bool) -> Any:
    if isinstance(value, Value):
        return value.model_dump(mode="json" if as_json else "python")
    if isinstance(value, tuple):
        items = (_plain(item, as_json=as_json) for item in value)
        return list(items) if as_json else tuple(items)
    if isinstance(value, dict):
        return {key: _plain(item, as_json=as_json) for key, item in value.items()}
    if as_json and isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN and infinity
    return str(value) if as_json and isinstance(value, Path) else value
