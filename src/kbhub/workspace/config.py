"""The global config: `~/.kbhub.json`, overridden by `KBHUB_*` variables."""

from __future__ import annotations

import hashlib
import logging
import os
import unicodedata
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kbhub.errors import ConfigError
from kbhub.types import Mode, Problem
from kbhub.values import struct
from kbhub.workspace.config_files import checked
from kbhub.workspace.engine_urls import engine_fault, split_engine_url
from kbhub.workspace.field_checks import (
    choice,
    few,
    in_file,
    nearest,
    plain_object,
    plain_path,
    plain_text,
    plain_texts,
    plainly,
    unknown_fields,
)
from kbhub.workspace.jsonc import read_jsonc
from kbhub.workspace.places import data_dir, expand
from kbhub.workspace.pointer import check_patterns, unknown_message
from kbhub.workspace.settings import ENV_PREFIX, OTHER_VARIABLES, RESERVED_IDS, BaseEntry, GlobalConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


log = logging.getLogger(__name__)

CONFIG_NAME = ".kbhub.json"
"""File name of the global config in the home directory."""


@struct
class LoadedConfig:
    """The global config in force."""

    settings: GlobalConfig
    path: Path | None
    """The file that was read; None if the default file does not exist."""
    warnings: tuple[Problem, ...] = ()
    folder: Path = Path()
    """The file's folder, to which its relative paths are relative."""
    said: frozenset[tuple[str, ...]] = frozenset()
    """Fields set by the file or a variable, as paths such as `("search", "limit")`."""

    def said_of(self, name: str) -> set[str]:
        """Return the fields that the config sets for one of its bases."""
        return {path[2] for path in self.said if path[:2] == ("bases", name) and len(path) > 2}


def load_config(path: Path | None, env: Mapping[str, str], home: Path) -> LoadedConfig:
    """Load the global config, and apply environment variables.

    The file is `path`, else `KBHUB_CONFIG`, else `~/.kbhub.json`, which need not exist. Raises `ConfigError` if the
    file, a field or a variable is invalid; the message says what was expected.
    """
    chosen, named = config_path(path, env, home)
    data: Any = {}
    if named or chosen.exists() or chosen.is_symlink():
        data = read_jsonc(chosen)
    read = chosen if named or chosen.exists() else None
    settings = checked_config(data, chosen, home)
    variables, unknown = _variables(env)
    warnings = (*few(_file_warnings(chosen, data)), *unknown)
    log.debug("config: %s%s", chosen, "" if read else ", which does not exist")
    return LoadedConfig(
        settings=_updated(settings, variables),
        path=read,
        warnings=warnings,
        folder=chosen.parent,
        said=frozenset((*_paths(data, 3), *_paths({in_file(name): value for name, value in variables.items()}, 2))),
    )


def checked_config(data: Any, where: Path, home: Path) -> GlobalConfig:
    """Validate the parsed JSON of a global config; relative paths are relative to the folder of `where`."""
    settings = checked(GlobalConfig, data, where, more=_PLAIN)
    _check_ids(settings, where)
    _check_engines(settings, where)
    for name, entry in settings.entries().items():
        check_patterns(entry, where, f"bases.{name}.")
    _check_directories(settings, where, home)
    return settings


def id_fault(name: str) -> str | None:
    """Return why a string cannot be the id of a base, or None if it can."""
    if not name:
        return "a base id must not be empty"
    if name in RESERVED_IDS:
        return f"the base id {name!r} is reserved; choose another"
    # Cf has invisible characters and direction marks, with which two ids could look the same.
    if any(c in "@/" or c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in name):
        return f"the base id {name!r} must not have '@', '/', whitespace or control characters"
    return None


def config_path(path: Path | None, env: Mapping[str, str], home: Path) -> tuple[Path, bool]:
    """Return the path of the global config, which need not exist, and whether an option or variable named it."""
    if path is not None:
        return expand(str(path), home, Path()).absolute(), True
    if variable := env.get("KBHUB_CONFIG"):
        return expand(variable, home, Path()).absolute(), True
    return home / CONFIG_NAME, False


def _check_ids(settings: GlobalConfig, where: Path) -> None:
    for name in settings.bases:
        if fault := id_fault(name):
            raise ConfigError(where, fault, "bases")
    for key in settings.repos:
        for name in settings.active_in(key):
            if name not in settings.bases:
                near = nearest(name, settings.bases)
                hint = f"did you mean {near!r}? " if near else ""
                known = ", ".join(sorted(settings.bases)) or "none"
                raise ConfigError(where, f"unknown base id {name!r}; {hint}`bases` defines: {known}", f"repos.{key}")


def _check_engines(settings: GlobalConfig, where: Path) -> None:
    """Refuse an entry with no place or with two, and a password in a file that is often copied and shown."""
    seen: dict[tuple[str, str], str] = {}
    for name, entry in settings.entries().items():
        if entry.engine is None and entry.knowledge is None:
            raise ConfigError(where, "needs a folder (`knowledge`) or an `engine`", f"bases.{name}.knowledge")
        if entry.engine and entry.knowledge:
            raise ConfigError(where, "cannot be used with `knowledge`; keep one of them", f"bases.{name}.engine")
        if entry.engine is None and entry.memories:
            reason = "is only for shared bases; for memories in a folder of the project, use `memory.shared`"
            raise ConfigError(where, reason, f"bases.{name}.memories")
        if entry.engine is None:
            continue
        if fault := engine_fault(entry.engine):
            raise ConfigError(where, fault, f"bases.{name}.engine")
        url, shared_as = split_engine_url(entry.engine)
        if (other := seen.setdefault((url, shared_as or name), name)) != name:
            raise ConfigError(where, f"{other!r} and {name!r} are the same shared base; keep one of them", "bases")


def folder_of(name: str, entry: BaseEntry, where: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Return the folder of an entry of `bases`; that of a shared base is an empty one of kbhub's own."""
    if entry.knowledge is not None:
        return expand(entry.knowledge, home, where)
    digest = hashlib.sha256(f"{entry.engine}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return data_dir(env) / "shared" / digest


def _check_directories(settings: GlobalConfig, where: Path, home: Path) -> None:
    """Refuse two ids for one directory, even if they are never active together, as one of them is a mistake."""
    seen: dict[tuple[int, int] | Path, str] = {}
    for name, entry in settings.entries().items():
        if entry.knowledge is None:
            continue
        identity = directory_identity(expand(entry.knowledge, home, where.parent))
        if identity in seen:
            raise ConfigError(
                where,
                f"{seen[identity]!r} and {name!r} are the same directory ({entry.knowledge}); keep one of them",
                "bases",
            )
        seen[identity] = name


def directory_identity(path: Path) -> tuple[int, int] | Path:
    """Return device and inode of a directory, or its resolved path if it does not exist; equal for all its names."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return Path(os.path.realpath(path))  # `Path.resolve` raises for link cycles
    return status.st_dev, status.st_ino


def _file_warnings(where: Path, data: dict[str, Any]) -> Iterable[Problem]:
    """Yield a warning for each unknown field."""
    unknown = list(_unknown_in(GlobalConfig, data, ""))
    for name, entry in data.get("bases", {}).items():
        if isinstance(entry, dict):
            unknown += _unknown_in(BaseEntry, entry, f"bases.{name}.")
    for name, near in unknown:
        yield Problem(subject=str(where), message=unknown_message(name, near))


def _unknown_in(declared: type, data: dict[str, Any], prefix: str) -> Iterable[tuple[str, str | None]]:
    for name, near in unknown_fields(declared, data):
        yield f"{prefix}{name}", f"{prefix}{near}" if near else None
    for declared_field in fields(declared):
        name, group = in_file(declared_field.name), declared_field.default_factory
        if isinstance(group, type) and is_dataclass(group) and isinstance(value := data.get(name), dict):
            yield from _unknown_in(group, value, f"{prefix}{name}.")


def _variables(env: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """Settings from the environment, field → value or group, and a warning for each unknown variable."""
    others = {ENV_PREFIX + name for name in OTHER_VARIABLES}
    ours = {name: value for name, value in env.items() if name.startswith(ENV_PREFIX) and name not in others}
    if not ours:
        return {}, []
    # pydantic-settings takes 100 ms to import, and few users set these variables.
    from kbhub.workspace.environment import read_variables, variable_names  # noqa: PLC0415

    names = variable_names()
    unknown = [
        Problem(
            subject=name,
            message=f"unknown variable; {f'did you mean {near}?' if near else 'it has no effect.'}",
        )
        for name in ours
        if name not in names
        for near in [nearest(name, (*names, *others))]
    ]
    return read_variables(ours), unknown


def _updated(settings: GlobalConfig, variables: Mapping[str, Any]) -> GlobalConfig:
    update: dict[str, Any] = {}
    for name, value in variables.items():
        group: Any = getattr(settings, name)
        update[name] = replace(group, **value) if isinstance(value, dict) else value
    return replace(settings, **update)


def _paths(data: Mapping[str, Any], deep: int) -> Iterable[tuple[str, ...]]:
    """Yield the path of each field, down to `deep` levels."""
    for name, value in data.items():
        yield (name,)
        if deep > 1 and isinstance(value, dict):
            yield from ((name, *path) for path in _paths(value, deep - 1))


def _plain_base(value: Any) -> str | BaseEntry:
    return plainly(BaseEntry, value) if isinstance(value, dict) else plain_path(value)


def _plain_ids(value: Any) -> str | tuple[str, ...]:
    return plain_texts(value) if isinstance(value, list) else plain_text(value)


_PLAIN = {
    "Mode": choice(get_args(Mode)),
    "ToolSet": choice(("core", "all")),
    "Bases": lambda value: plain_object(value, _plain_base),
    "Repos": lambda value: plain_object(value, _plain_ids),
}
"""Further converters for `plainly`."""
