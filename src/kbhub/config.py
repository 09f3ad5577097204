"""The global config, `~/.kbhub.json`: the user's own word, with `KBHUB_*` variables over it."""

from __future__ import annotations

import logging
import os
import unicodedata
from dataclasses import field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from kbhub.checking import (
    Declared,
    checked,
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
    with_examples,
)
from kbhub.errors import ConfigError
from kbhub.jsonc import read_jsonc
from kbhub.model_settings import AnswerSettings, EmbedderSettings, ExpansionSettings, RerankSettings
from kbhub.places import expand
from kbhub.pointer import BaseFields, check_patterns, unknown_message
from kbhub.types import Mode, Problem
from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import Field

    from kbhub.file_models import Bases, PathText, Repos, ToolSet

log = logging.getLogger(__name__)

CONFIG_NAME = ".kbhub.json"
"""File name of the global config in the home directory."""

RESERVED_IDS = ("*", "project", "memory", "user")
"""Ids with a meaning of their own: every workspace, the project base, and memories."""

ENV_PREFIX = "KBHUB_"
OTHER_VARIABLES = ("ROOT", "CONFIG", "CACHE_DIR", "DATA_DIR", "BASES", "DISABLE", "PROTOCOL")
"""Variables with the prefix that are no settings."""

DEFAULT_FILE_BYTES = 5 * 1024 * 1024
"""Bytes of the longest document: product.md. Hand-written Markdown is a hundredth of it."""
DEFAULT_PDF_BYTES = 50 * 1024 * 1024
"""Bytes of the longest PDF: its text is a small part of it; the books of publishers stay below."""
DEFAULT_SESSION_BYTES = 100 * 1024 * 1024
"""Bytes of the longest session log: days of work; rendering it takes some seconds."""
DEFAULT_FILES = 100_000
"""Files of one base; ten times the largest of the vaults that kbhub is measured with."""
DEFAULT_TRASH_DAYS = 30
"""Days that a forgotten memory can be had back: what the bins of desktop systems and mail programs keep."""
DEFAULT_QUERY_DAYS = 90
"""Days that queries are kept: a quarter of a year, in which what recurs does so."""
DEFAULT_SECOND_LOOK_SECONDS = 1.5
"""Seconds of a second look: 20 chunks at 20 a second on two cores, and the loading of the model (measured)."""
DEFAULT_FRESHEN_FILES = 2000
"""Files up to which `kbhub search` looks at a base's files first: some 10 ms of file-system calls."""
DEFAULT_PORT = 28722
"""Of HTTP: no service has it at IANA, and no system hands it out to outgoing connections (32768 and above)."""
DEFAULT_UNLOAD_MINUTES = 10.0
"""Minutes without a client: an editor that is restarted finds everything as it was."""
DEFAULT_END_MINUTES = 60.0
"""Minutes without a client: a break for lunch; a start takes half a second."""


class BaseEntry(BaseFields):
    """One entry of `bases`, where a path is not enough."""

    knowledge: PathText
    """Folder of the knowledge, relative to this file, `~` allowed."""
    kind: Literal["document", "session"] = "document"
    """What its files are: documents, or logs of agent sessions (`.jsonl` of Claude Code, Codex and Gemini CLI)."""
    keep_deleted: tuple[str, ...] = ()
    """Patterns, as in `.gitignore`, of files whose text is kept and stays searchable when they are deleted."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Factor on the score of its hits; 1 is neutral."""
    writable: bool = False
    """Whether agents may write documents in it."""


class SearchSettings(Declared):
    """How a search runs where it does not say so itself."""

    limit: Annotated[int, Field(ge=1, le=100)] = 5
    """Hits to return."""
    mode: Mode = "hybrid"
    """`keyword`, `semantic` or `hybrid`."""
    second_look: bool = False
    """Whether a better model looks at the best chunks of a `hybrid` search again; needs the extra `kbhub[onnx]`."""
    second_look_seconds: Annotated[float, Field(gt=0, le=60)] = DEFAULT_SECOND_LOOK_SECONDS
    """How long that may take where vectors are not kept from an earlier look; what is not ready keeps its place."""


DEFAULT_MODELS = {"claude": "claude", "codex": "codex", "gemini": "gemini"}
"""Alias → name of a model for `kbhub distil`: which version answered, only its owner knows."""


class DistilSettings(Declared):
    """How `kbhub distil` names models."""

    models: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_MODELS))
    """Alias → model name, such as `claude` → `claude-sonnet-4`; `c`, `x` and `g` stand for `claude`, `codex` and
    `gemini`."""


class MemorySettings(Declared):
    """What agents remember."""

    enabled: bool = True
    """Whether memories are kept and searched."""
    shared: bool = False
    """Whether memories may be written into the project base's `memories/`, for everyone who has it."""
    trash_days: Annotated[int, Field(ge=0)] = DEFAULT_TRASH_DAYS
    """Days that forgotten memories are kept, in `trash/` of the data directory."""


class LimitSettings(Declared):
    """How much kbhub takes on."""

    file_bytes: Annotated[int, Field(ge=1)] = DEFAULT_FILE_BYTES
    """Bytes of the longest file that is read."""
    pdf_bytes: Annotated[int, Field(ge=1)] = DEFAULT_PDF_BYTES
    """Bytes of the longest PDF that is read."""
    session_bytes: Annotated[int, Field(ge=1)] = DEFAULT_SESSION_BYTES
    """Bytes of the longest session log that is read."""
    files: Annotated[int, Field(ge=1)] = DEFAULT_FILES
    """Files of one base; the rest is left out."""
    freshen_files: Annotated[int, Field(ge=0)] = DEFAULT_FRESHEN_FILES
    """Bases of up to this many files are brought in step before a search on the command line."""


class ServeSettings(Declared):
    """The shared daemon, and the server behind HTTP."""

    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    """Port of `kbhub serve --http` on the loopback interface; 0 is a free one."""
    unload_minutes: Annotated[float, Field(gt=0)] = DEFAULT_UNLOAD_MINUTES
    """Minutes without a client after which the daemon lets go of indexes and models."""
    end_minutes: Annotated[float, Field(gt=0)] = DEFAULT_END_MINUTES
    """Minutes without a client after which a daemon ends that `kbhub serve --connect` has started."""


class LogSettings(Declared):
    """What goes to standard error, and what is noted of queries."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """Least level logged."""
    queries: bool = True
    """Whether queries are noted, in the data directory only, to find out which knowledge is missing."""
    days: Annotated[int, Field(ge=1)] = DEFAULT_QUERY_DAYS
    """Days that they are kept."""


class Settings(Declared):
    """Everything that a variable can set too: `KBHUB_READ_ONLY`, `KBHUB_SEARCH__LIMIT`, and so on."""

    docs_fallback: bool = True
    """Whether `docs/` is the project's knowledge where it has no other."""
    read_only: bool = False
    """Takes every writing tool away."""
    tools: ToolSet = "core"
    """Tools that agents are offered: `core`, `all` (with those that write documents, and `audit`), or a list of
    names."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """Search."""
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    """Vectors."""
    expansion: ExpansionSettings = field(default_factory=ExpansionSettings)
    """Other words for a query, by a language model."""
    rerank: RerankSettings = field(default_factory=RerankSettings)
    """Grades by a language model."""
    answers: AnswerSettings = field(default_factory=AnswerSettings)
    """Who writes answers."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    """Memories."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    """Limits."""
    serve: ServeSettings = field(default_factory=ServeSettings)
    """The shared daemon and HTTP."""
    log: LogSettings = field(default_factory=LogSettings)
    """Log."""
    distil: DistilSettings = field(default_factory=DistilSettings)
    """Saving chat answers."""


class GlobalConfig(Settings):
    """The user's own bases, where they are active, and settings; lies in the home directory."""

    __pydantic_config__ = with_examples(
        {"bases": {"notes": "~/notes"}, "repos": {"*": ["notes"]}},
        {
            "bases": {
                "notes": {"knowledge": "~/notes", "writable": True, "weight": 1.2},
                "team": "~/work/handbook",
            },
            "repos": {"*": ["notes"], "~/work": ["team"]},
            "docsFallback": False,
            "search": {"limit": 10, "mode": "hybrid"},
        },
    )

    schema_: str | None = None
    """Address of this schema, for editors."""
    bases: Bases = field(default_factory=dict)
    """Id → folder, or an object that says more. An id is not `*`, `project`, `memory` or `user` and has no `@`, `/`,
    whitespace or control character."""
    repos: Repos = field(default_factory=dict)
    """Folder → ids of the bases active below it; `*` is everywhere. Of the folders, the one longest prefix of the
    workspace counts."""
    contexts: dict[str, str] = field(default_factory=dict)
    """Path prefix in any base → what lies there, for people and agents; the empty prefix is about everything."""

    def entries(self) -> dict[str, BaseEntry]:
        """The bases by id, each as an object."""
        return {
            name: value if isinstance(value, BaseEntry) else BaseEntry(knowledge=value)
            for name, value in self.bases.items()
        }

    def active_in(self, key: str) -> tuple[str, ...]:
        """Ids that an entry of `repos` names."""
        value = self.repos.get(key, ())
        return (value,) if isinstance(value, str) else value


@struct
class LoadedConfig:
    """The global config as it is in force."""

    settings: GlobalConfig
    path: Path | None
    """The file that was read; none if the default file does not exist."""
    warnings: tuple[Problem, ...] = ()
    folder: Path = Path()
    """What its relative paths are relative to: the file's folder."""
    said: frozenset[tuple[str, ...]] = frozenset()
    """The fields that the file or a variable sets, as the file names the outer ones: `("search", "limit")`."""

    def said_of(self, name: str) -> set[str]:
        """Fields that the config sets for one of its bases."""
        return {path[2] for path in self.said if path[:2] == ("bases", name) and len(path) > 2}


def load_config(path: Path | None, env: Mapping[str, str], home: Path) -> LoadedConfig:
    """Read the global config and the variables over it.

    Args:
        path: the file an option named; if none, `KBHUB_CONFIG`, else `~/.kbhub.json`, which need not exist.
        env: environment variables.
        home: the user's home directory.

    Raises:
        ConfigError: the file, a field or a variable is wrong; its text says what was expected.
    """
    chosen, named = config_path(path, env, home)
    data: Any = {}
    if named or chosen.exists() or chosen.is_symlink():
        data = read_jsonc(chosen)
    found = chosen if named or chosen.exists() else None
    settings = checked_config(data, chosen, home)
    variables, unknown = _variables(env)
    warnings = (*few(_file_warnings(chosen, data)), *unknown)
    log.debug("config: %s%s", chosen, "" if found else ", which is not there")
    return LoadedConfig(
        settings=_updated(settings, variables),
        path=found,
        warnings=warnings,
        folder=chosen.parent,
        said=frozenset((*_paths(data, 3), *_paths({in_file(name): value for name, value in variables.items()}, 2))),
    )


def checked_config(data: Any, where: Path, home: Path) -> GlobalConfig:
    """Give what a global config says, if that can be in force.

    Args:
        data: parsed JSON.
        where: the file, for errors and relative paths.
        home: the user's home directory.

    Raises:
        ConfigError: a field is wrong; its text says what was expected.
    """
    settings = checked(GlobalConfig, data, where, more=_PLAIN)
    _check_ids(settings, where)
    for name, entry in settings.entries().items():
        check_patterns(entry, where, f"bases.{name}.")
    _check_directories(settings, where, home)
    return settings


def id_fault(name: str) -> str | None:
    """Why a text cannot be the id of a base, or none if it can."""
    if not name:
        return "a base id must not be empty"
    if name in RESERVED_IDS:
        return f"the base id {name!r} is reserved; choose another"
    # Cf holds characters that are invisible or turn the writing direction: two ids would look the same.
    if any(c in "@/" or c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in name):
        return f"the base id {name!r} must not have '@', '/', whitespace or control characters"
    return None


def config_path(path: Path | None, env: Mapping[str, str], home: Path) -> tuple[Path, bool]:
    """The file of the global config, and whether somebody named it; it need not exist."""
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


def _check_directories(settings: GlobalConfig, where: Path, home: Path) -> None:
    """Refuse two ids for one directory, also where they are never active together: one is a mistake."""
    seen: dict[tuple[int, int] | Path, str] = {}
    for name, entry in settings.entries().items():
        identity = directory_identity(expand(entry.knowledge, home, where.parent))
        if identity in seen:
            raise ConfigError(
                where,
                f"{seen[identity]!r} and {name!r} are the same directory ({entry.knowledge}); keep one of them",
                "bases",
            )
        seen[identity] = name


def directory_identity(path: Path) -> tuple[int, int] | Path:
    """What is equal for two names of one directory: device and inode, or the resolved path if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return Path(os.path.realpath(path))  # `resolve` raises where links lead round
    return status.st_dev, status.st_ino


def _file_warnings(where: Path, data: dict[str, Any]) -> Iterable[Problem]:
    """Fields of the file that nothing reads."""
    found = list(_unknown_in(GlobalConfig, data, ""))
    for name, entry in data.get("bases", {}).items():
        if isinstance(entry, dict):
            found += _unknown_in(BaseEntry, entry, f"bases.{name}.")
    for name, near in found:
        yield Problem(subject=str(where), message=unknown_message(name, near))


def _unknown_in(declared: type, data: dict[str, Any], prefix: str) -> Iterable[tuple[str, str | None]]:
    for name, near in unknown_fields(declared, data):
        yield f"{prefix}{name}", f"{prefix}{near}" if near else None
    for one in fields(declared):
        name, group = in_file(one.name), one.default_factory
        if isinstance(group, type) and is_dataclass(group) and isinstance(value := data.get(name), dict):
            yield from _unknown_in(group, value, f"{prefix}{name}.")


def _variables(env: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """What the environment sets, field → value or → its fields, and a warning for each unknown variable."""
    known = {ENV_PREFIX + name for name in OTHER_VARIABLES}
    ours = {name: value for name, value in env.items() if name.startswith(ENV_PREFIX) and name not in known}
    if not ours:
        return {}, []
    # pydantic-settings takes 100 ms to import, and most people set none of these variables.
    from kbhub.environment import read_variables, variable_names  # noqa: PLC0415

    names = variable_names()
    unknown = [
        Problem(
            subject=name,
            message=f"unknown variable; {f'did you mean {near}?' if near else 'it has no effect.'}",
        )
        for name in ours
        if name not in names
        for near in [nearest(name, (*names, *known))]
    ]
    return read_variables(ours), unknown


def _updated(settings: GlobalConfig, variables: Mapping[str, Any]) -> GlobalConfig:
    update: dict[str, Any] = {}
    for name, value in variables.items():
        group: Any = getattr(settings, name)
        update[name] = replace(group, **value) if isinstance(value, dict) else value
    return replace(settings, **update)


def _paths(data: Mapping[str, Any], deep: int) -> Iterable[tuple[str, ...]]:
    """Give the path of each field, as deep as it is asked for."""
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
"""As `plainly` takes it."""
