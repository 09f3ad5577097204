"""What a search is made of: frozen values that cost next to nothing to declare. Imports nothing of ours."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value:
    """A frozen dataclass with named arguments, as each class below this one is without another word.

    Has the methods of a pydantic model that results of kbhub promise. What `dataclass` would compile for every class,
    a millisecond each, is written out here once for all of them.
    """

    # Read by pydantic where a value is part of a model.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=True)(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe each field by the text below it, as pydantic would; which would read the source for every use."""
        made = handler(schema)
        properties = handler.resolve_ref_schema(made)["properties"]
        named = cls.__pydantic_config__.get("alias_generator", str)
        for name, text in _texts(cls).items():
            properties[named(name)]["description"] = text
        return made

    def __init__(self, **given: Any) -> None:
        mine = self.__dict__
        for one in fields(self):  # type: ignore[arg-type]
            if one.name in given:
                mine[one.name] = given.pop(one.name)
            elif one.default is not MISSING:
                mine[one.name] = one.default
            elif one.default_factory is not MISSING:
                mine[one.name] = one.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {one.name}")
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """Raise `ValueError` where the fields do not go together."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({said})"

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Give the same with other values for some fields."""
        return replace(self, **update or {})  # type: ignore[type-var]

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        exclude_defaults: bool = False,
    ) -> dict[str, Any]:
        """Give the fields as a dictionary, values within as dictionaries, too.

        Args:
            mode: `json` makes of everything what JSON has: of paths texts, of tuples lists.
            include: the fields that are wanted, all if none is named.
            exclude: fields that are not wanted.
            exclude_defaults: whether to leave out what is as it is if nothing is said.

        Raises:
            TypeError: what is wanted, or not, is said of fields within fields.
        """
        if isinstance(include, Mapping) or isinstance(exclude, Mapping):
            raise TypeError("name fields of the value itself; for others, take them out of the dictionary")
        return {
            one.name: _plain(value, as_json=mode == "json")
            for one in fields(self)  # type: ignore[arg-type]
            if (include is None or one.name in include) and one.name not in exclude
            for value in [getattr(self, one.name)]
            if not (exclude_defaults and value == one.default)
        }

    def model_dump_json(
        self, *, indent: int | None = None, include: Collection[str] | None = None, exclude: Collection[str] = ()
    ) -> str:
        """Give the fields as JSON; see `model_dump`."""
        found = self.model_dump(mode="json", include=include, exclude=exclude)
        return json.dumps(found, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def struct(declared: type[T]) -> type[T]:
    """Make a dataclass with slots that is compared, hashed and shown by its fields; nobody changes one.

    As `dataclass(frozen=True, slots=True)` does, at a third of its price, which is a millisecond for each class that a
    process declares: what is the same for all of them is not compiled anew, and it is the type checker alone that sees
    to it that nobody changes one.
    """
    made = dataclass(repr=False, eq=False, match_args=False, slots=True)(declared)
    made._key = attrgetter(*(one.name for one in fields(made) if one.compare))  # type: ignore[arg-type, attr-defined]
    for name, method in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _shown)):
        if name not in declared.__dict__:
            setattr(made, name, method)
    return made


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def record(declared: type[T]) -> type[T]:
    """Make a dataclass with slots that may be changed, and is compared and shown as any object; cheap as `struct`."""
    return dataclass(repr=False, eq=False, match_args=False, slots=True)(declared)


def _equal(self: Any, other: Any) -> bool:
    return bool(self._key(self) == self._key(other)) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _shown(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in fields(self))})"


class Within:
    """The least and the greatest that a number can be, for its schema."""

    def __init__(self, least: float, most: float) -> None:
        self._bounds = {"minimum": least, "maximum": most}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self._bounds}


def _texts(declared: type) -> dict[str, str]:
    """Give the text below each field of a class, those that it inherits, too."""
    # 20 ms, for schemas alone.
    import ast  # noqa: PLC0415
    import inspect  # noqa: PLC0415

    found = {}
    for one in reversed(declared.__mro__[: declared.__mro__.index(Value)]):
        body = ast.parse(inspect.getsource(one)).body[0].body  # type: ignore[attr-defined]
        for field_, below in itertools.pairwise(body):
            if isinstance(field_, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[field_.target.id] = " ".join(below.value.value.split())  # type: ignore[union-attr, attr-defined]
    return found


def _plain(value: Any, *, as_json: bool) -> Any:
    if isinstance(value, Value):
        return value.model_dump(mode="json" if as_json else "python")
    if isinstance(value, tuple):
        inner = (_plain(one, as_json=as_json) for one in value)
        return list(inner) if as_json else tuple(inner)
    if isinstance(value, dict):
        return {key: _plain(one, as_json=as_json) for key, one in value.items()}
    if as_json and isinstance(value, float) and not math.isfinite(value):
        return None  # which JSON has no word for
    return str(value) if as_json and isinstance(value, Path) else value
