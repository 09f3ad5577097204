"""Pydantic types of configuration files and variables, for validation and schemas; see `settings`."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, TypeAdapter, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Mode
from kbhub.workspace.settings import ENV_PREFIX, RESERVED_IDS, BaseEntry, Settings, first_error, in_file, path_text
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
BaseValue = Annotated[
    Annotated[PathText, Tag("(text)")] | Annotated[BaseEntry, Tag("(entry)")],
    _text_or("(entry)"),
    AfterValidator(lambda one: one if isinstance(one, BaseEntry) else BaseEntry(knowledge=one)),
]
RepoValue = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[tuple[str, ...], Tag("(list)")],
    _text_or("(list)"),
    AfterValidator(lambda ids: (ids,) if isinstance(ids, str) else ids),
]
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
    "Bases": Bases, "Field": Field, "Mode": Mode, "PathText": PathText, "Repos": Repos, "ToolSet": ToolSet,
}  # fmt: skip
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


_BETWEEN = "__"


class _Variables(BaseSettings):
    """Naming scheme of the variables; never instantiated."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=_BETWEEN)


def _fields(declared: Any) -> dict[str, Any]:
    types = get_type_hints(declared, localns=NAMES, include_extras=True)
    return {field.name: types[field.name] for field in fields(declared)}


def _model(declared: Any, base: type[Any] = BaseModel) -> type[Any]:
    """Convert a settings dataclass to a pydantic model."""
    kinds = {name: _model(kind) if is_dataclass(kind) else kind for name, kind in _fields(declared).items()}
    definitions: dict[str, Any] = {name: (kind, None) for name, kind in kinds.items()}
    model: type[Any] = create_model(declared.__name__, __base__=base, **definitions)
    return model


def variable_names() -> tuple[str, ...]:
    """Return the names of all variables; those of whole groups take JSON."""
    names = []
    for name, kind in _fields(Settings).items():
        names.append(f"{ENV_PREFIX}{name}".upper())
        if is_dataclass(kind):
            names += [f"{ENV_PREFIX}{name}{_BETWEEN}{inner.name}".upper() for inner in fields(kind)]
    return tuple(names)


def read_variables(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in variables that are not empty: field → value or, for groups, → the fields that are set."""
    source = EnvSettingsSource(_model(Settings, _Variables))
    # Replace os.environ, which the source has read, by `env`.
    source.env_vars = {name.lower(): value for name, value in env.items() if value}
    try:
        values = source()
        settings = adapter(Settings).validate_python(values)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(f"{ENV_PREFIX}{_BETWEEN.join(field)}".upper(), message) from error
    except SettingsError as error:
        names = [name for name in env if name in variable_names() and _BETWEEN not in name]
        raise ConfigError(" or ".join(names), f"expected JSON: {error}") from error
    found = {name: getattr(settings, name) for name in values}
    for name, group in found.items():
        if is_dataclass(group):
            given = [one.name for one in fields(group) if {one.name, in_file(one.name)} & set(values[name])]
            found[name] = {inner: getattr(group, inner) for inner in given}
    return found


PACKAGE = Path(__file__).parent.parent

FOLDERS = (PACKAGE / "schemas", PACKAGE.parent.parent / "schemas")
"""Folders to look in: of an installed wheel, and of a checkout or an editable install."""

SUFFIX = ".schema.json"


def schema_files() -> dict[str, Path]:
    """Return name → file of all schemas: `config`, `memory`, `pointer`, then `search.input` and so on."""
    folder = next((folder for folder in FOLDERS if (folder / f"config{SUFFIX}").is_file()), FOLDERS[0])
    files = (*sorted(folder.glob(f"*{SUFFIX}")), *sorted(folder.glob(f"tools/*{SUFFIX}")))
    return {file.name.removesuffix(SUFFIX): file for file in files}


def schema_file(name: str) -> Path:
    """Return the file of a schema: `config`, `pointer`, `memory`, or a tool with `.input` or `.output`."""
    files = schema_files()
    if name not in files:
        raise UsageError(
            f"No schema {name!r}. Schemas: {', '.join(files) or 'none: kbhub is not installed completely'}."
        )
    return files[name]
