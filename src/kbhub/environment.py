"""Settings from `KBHUB_*` variables, through pydantic-settings; apart because that is slow to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from kbhub.config import ENV_PREFIX, Settings
from kbhub.errors import ConfigError
from kbhub.pointer import FileModel, first_error

if TYPE_CHECKING:
    from collections.abc import Mapping

_BETWEEN = "__"
"""Between a group and its field."""


class _Variables(Settings, BaseSettings):
    """Tells pydantic-settings which variables there are; never instantiated."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter=_BETWEEN)


def variable_names() -> tuple[str, ...]:
    """The variables that set something; a group as a whole takes JSON."""
    names = []
    for name, field in Settings.model_fields.items():
        names.append(f"{ENV_PREFIX}{name}".upper())
        group = field.annotation
        if isinstance(group, type) and issubclass(group, FileModel):
            names += [f"{ENV_PREFIX}{name}{_BETWEEN}{inner}".upper() for inner in group.model_fields]
    return tuple(names)


def read_variables(env: Mapping[str, str]) -> dict[str, Any]:
    """What the variables set: field → value, or → its fields that are set.

    Args:
        env: the variables to read; an empty one counts as not set.

    Raises:
        ConfigError: a value is wrong; it names the variable.
    """
    source = EnvSettingsSource(_Variables)
    # The source reads os.environ by itself; what counts is what the caller was given.
    source.env_vars = {name.lower(): value for name, value in env.items() if value}
    try:
        settings = Settings.model_validate(source())
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(f"{ENV_PREFIX}{_BETWEEN.join(field)}".upper(), message) from error
    except SettingsError as error:
        names = [name for name in env if name in variable_names() and _BETWEEN not in name]
        raise ConfigError(" or ".join(names), f"expected JSON: {error}") from error
    return settings.model_dump(exclude_unset=True)
