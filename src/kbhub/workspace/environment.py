"""Read settings from `KBHUB_*` variables with pydantic-settings; separate because that is slow to import."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from kbhub.errors import ConfigError
from kbhub.workspace.field_checks import first_error, in_file
from kbhub.workspace.settings import ENV_PREFIX, Settings
from kbhub.workspace.validation import NAMES, adapter

if TYPE_CHECKING:
    from collections.abc import Mapping

_BETWEEN = "__"
"""Separator of a group and its field."""


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
    """Return the settings in variables: field → value or, for groups, → the fields that are set.

    Empty variables count as not set. Raises `ConfigError` that names the first variable with an invalid value.
    """
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
    return {name: _only_set(getattr(settings, name), value) for name, value in values.items()}


def _only_set(value: Any, raw: Any) -> Any:
    """Return a value or, for a group, only the fields that variables set."""
    if not is_dataclass(value):
        return value
    names = [field.name for field in fields(value) if {field.name, in_file(field.name)} & set(raw)]
    return {name: getattr(value, name) for name in names}
