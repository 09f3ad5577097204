"""Settings from `KBHUB_*` variables, through pydantic-settings; apart because that is slow to import."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from kbhub.checking import first_error, in_file
from kbhub.config import ENV_PREFIX, Settings
from kbhub.errors import ConfigError
from kbhub.file_models import NAMES, adapter

if TYPE_CHECKING:
    from collections.abc import Mapping

_BETWEEN = "__"
"""Between a group and its field."""


class _Variables(BaseSettings):
    """Tells pydantic-settings how variables are written; never instantiated."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=_BETWEEN)


def _fields(declared: Any) -> dict[str, Any]:
    """Give the fields of settings with their types."""
    types = get_type_hints(declared, localns=NAMES, include_extras=True)
    return {one.name: types[one.name] for one in fields(declared)}


def _model(declared: Any, base: type[Any] = BaseModel) -> type[Any]:
    """Give settings as pydantic-settings takes them."""
    kinds = {name: _model(kind) if is_dataclass(kind) else kind for name, kind in _fields(declared).items()}
    fields_of: dict[str, Any] = {name: (kind, None) for name, kind in kinds.items()}
    made: type[Any] = create_model(declared.__name__, __base__=base, **fields_of)
    return made


def variable_names() -> tuple[str, ...]:
    """The variables that set something; a group as a whole takes JSON."""
    names = []
    for name, kind in _fields(Settings).items():
        names.append(f"{ENV_PREFIX}{name}".upper())
        if is_dataclass(kind):
            names += [f"{ENV_PREFIX}{name}{_BETWEEN}{inner.name}".upper() for inner in fields(kind)]
    return tuple(names)


def read_variables(env: Mapping[str, str]) -> dict[str, Any]:
    """What the variables set: field → value, or → its fields that are set.

    Args:
        env: the variables to read; an empty one counts as not set.

    Raises:
        ConfigError: a value is wrong; it names the variable.
    """
    source = EnvSettingsSource(_model(Settings, _Variables))
    # The source reads os.environ by itself; what counts is what the caller was given.
    source.env_vars = {name.lower(): value for name, value in env.items() if value}
    try:
        said = source()
        settings = adapter(Settings).validate_python(said)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(f"{ENV_PREFIX}{_BETWEEN.join(field)}".upper(), message) from error
    except SettingsError as error:
        names = [name for name in env if name in variable_names() and _BETWEEN not in name]
        raise ConfigError(" or ".join(names), f"expected JSON: {error}") from error
    return {name: _said(getattr(settings, name), value) for name, value in said.items()}


def _said(value: Any, given: Any) -> Any:
    """Give a value, or the fields of a group that variables name."""
    if not is_dataclass(value):
        return value
    return {one.name: getattr(value, one.name) for one in fields(value) if {one.name, in_file(one.name)} & set(given)}
