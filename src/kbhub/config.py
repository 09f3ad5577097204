"""The global config, `~/.kbhub.json`: the user's own word, with `KBHUB_*` variables over it."""

from __future__ import annotations

import logging
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from kbhub.errors import ConfigError
from kbhub.jsonc import read_jsonc
from kbhub.model_settings import AnswerSettings, EmbedderSettings, ExpansionSettings, RerankSettings
from kbhub.places import expand
from kbhub.pointer import BaseFields, FileModel, PathText, nearest, unknown_fields, unknown_message, validated
from kbhub.tools.names import ToolName
from kbhub.types import Mode, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    knowledge: PathText = Field(description="Folder of the knowledge, relative to this file, `~` allowed.")
    kind: Literal["document", "session"] = Field(
        "document",
        description="What its files are: documents, or logs of agent sessions (`.jsonl` of Claude Code, Codex and "
        "Gemini CLI).",
    )
    keep_deleted: tuple[str, ...] = Field(
        (),
        description="Patterns, as in `.gitignore`, of files whose text is kept and stays searchable when they are "
        "deleted.",
    )
    weight: float = Field(1.0, gt=0, allow_inf_nan=False, description="Factor on the score of its hits; 1 is neutral.")
    writable: bool = Field(False, description="Whether agents may write documents in it.")


class SearchSettings(FileModel):
    """How a search runs where it does not say so itself."""

    limit: int = Field(5, ge=1, le=100, description="Hits to return.")
    mode: Mode = Field("hybrid", description="`keyword`, `semantic` or `hybrid`.")
    second_look: bool = Field(
        False,
        description="Whether a better model looks at the best chunks of a `hybrid` search again; needs the extra "
        "`kbhub[onnx]`.",
    )
    second_look_seconds: float = Field(
        DEFAULT_SECOND_LOOK_SECONDS,
        gt=0,
        le=60,
        description="How long that may take where vectors are not kept from an earlier look; what is not ready keeps "
        "its place.",
    )


DEFAULT_MODELS = {"claude": "claude", "codex": "codex", "gemini": "gemini"}
"""Alias → name of a model for `kbhub distil`: which version answered, only its owner knows."""


class DistilSettings(FileModel):
    """How `kbhub distil` names models."""

    models: dict[str, str] = Field(
        default_factory=lambda: dict(DEFAULT_MODELS),
        description="Alias → model name, such as `claude` → `claude-sonnet-4`; `c`, `x` and `g` stand for `claude`, "
        "`codex` and `gemini`.",
    )


class MemorySettings(FileModel):
    """What agents remember."""

    enabled: bool = Field(True, description="Whether memories are kept and searched.")
    shared: bool = Field(
        False,
        description="Whether memories may be written into the project base's `memories/`, for everyone who has it.",
    )
    trash_days: int = Field(
        DEFAULT_TRASH_DAYS,
        ge=0,
        description="Days that forgotten memories are kept, in `trash/` of the data directory.",
    )


class LimitSettings(FileModel):
    """How much kbhub takes on."""

    file_bytes: int = Field(DEFAULT_FILE_BYTES, ge=1, description="Bytes of the longest file that is read.")
    pdf_bytes: int = Field(DEFAULT_PDF_BYTES, ge=1, description="Bytes of the longest PDF that is read.")
    session_bytes: int = Field(
        DEFAULT_SESSION_BYTES, ge=1, description="Bytes of the longest session log that is read."
    )
    files: int = Field(DEFAULT_FILES, ge=1, description="Files of one base; the rest is left out.")
    freshen_files: int = Field(
        DEFAULT_FRESHEN_FILES,
        ge=0,
        description="Bases of up to this many files are brought in step before a search on the command line.",
    )


class ServeSettings(FileModel):
    """The shared daemon, and the server behind HTTP."""

    port: int = Field(
        DEFAULT_PORT,
        ge=0,
        le=65535,
        description="Port of `kbhub serve --http` on the loopback interface; 0 is a free one.",
    )
    unload_minutes: float = Field(
        DEFAULT_UNLOAD_MINUTES,
        gt=0,
        description="Minutes without a client after which the daemon lets go of indexes and models.",
    )
    end_minutes: float = Field(
        DEFAULT_END_MINUTES,
        gt=0,
        description="Minutes without a client after which a daemon ends that `kbhub serve --connect` has started.",
    )


class LogSettings(FileModel):
    """What goes to standard error, and what is noted of queries."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("WARNING", description="Least level logged.")
    queries: bool = Field(
        True,
        description="Whether queries are noted, in the data directory only, to find out which knowledge is missing.",
    )
    days: int = Field(DEFAULT_QUERY_DAYS, ge=1, description="Days that they are kept.")


def _text_or(tag: str) -> Discriminator:
    """Choose a union's branch by the JSON type alone, so that an error is about the branch that was meant."""
    return Discriminator(lambda value: "(text)" if isinstance(value, str) else tag)


ToolSet = Annotated[
    Annotated[Literal["core", "all"], Tag("(text)")] | Annotated[tuple[ToolName, ...], Tag("(names)")],
    _text_or("(names)"),
]


class Settings(FileModel):
    """Everything that a variable can set too: `KBHUB_READ_ONLY`, `KBHUB_SEARCH__LIMIT`, and so on."""

    docs_fallback: bool = Field(True, description="Whether `docs/` is the project's knowledge where it has no other.")
    read_only: bool = Field(False, description="Takes every writing tool away.")
    tools: ToolSet = Field(
        "core",
        description="Tools that agents are offered: `core`, `all` (with those that write documents, and `audit`), or "
        "a list of names.",
    )
    search: SearchSettings = Field(default_factory=SearchSettings, description="Search.")
    embedder: EmbedderSettings = Field(default_factory=EmbedderSettings, description="Vectors.")
    expansion: ExpansionSettings = Field(
        default_factory=ExpansionSettings, description="Other words for a query, by a language model."
    )
    rerank: RerankSettings = Field(default_factory=RerankSettings, description="Grades by a language model.")
    answers: AnswerSettings = Field(default_factory=AnswerSettings, description="Who writes answers.")
    memory: MemorySettings = Field(default_factory=MemorySettings, description="Memories.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="Limits.")
    serve: ServeSettings = Field(default_factory=ServeSettings, description="The shared daemon and HTTP.")
    log: LogSettings = Field(default_factory=LogSettings, description="Log.")
    distil: DistilSettings = Field(default_factory=DistilSettings, description="Saving chat answers.")


BaseValue = Annotated[Annotated[PathText, Tag("(text)")] | Annotated[BaseEntry, Tag("(entry)")], _text_or("(entry)")]
RepoValue = Annotated[Annotated[str, Tag("(text)")] | Annotated[tuple[str, ...], Tag("(list)")], _text_or("(list)")]


class GlobalConfig(Settings):
    """The user's own bases, where they are active, and settings; lies in the home directory."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
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
            ]
        }
    )

    schema_: str | None = Field(None, alias="$schema", description="Address of this schema, for editors.")
    bases: dict[str, BaseValue] = Field(
        default_factory=dict,
        description="Id → folder, or an object that says more. An id is not `*`, `project`, `memory` or `user` "
        "and has no `@`, `/`, whitespace or control character.",
        json_schema_extra={
            "propertyNames": {"pattern": r"^[^@/\s\u0000-\u001f\u007f]+$", "not": {"enum": list(RESERVED_IDS)}}
        },
    )
    repos: dict[str, RepoValue] = Field(
        default_factory=dict,
        description="Folder → ids of the bases active below it; `*` is everywhere. Of the folders, the one "
        "longest prefix of the workspace counts.",
    )
    contexts: dict[str, str] = Field(
        default_factory=dict,
        description="Path prefix in any base → what lies there, for people and agents; the empty prefix is about "
        "everything.",
    )

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


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The global config as it is in force."""

    settings: GlobalConfig
    path: Path | None
    """The file that was read; none if the default file does not exist."""
    warnings: tuple[Problem, ...] = ()
    folder: Path = Path()
    """What its relative paths are relative to: the file's folder."""


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
    settings, unknown = _with_variables(settings, env)
    warnings = (*_file_warnings(chosen, data), *unknown)
    log.debug("config: %s%s", chosen, "" if found else ", which is not there")
    return LoadedConfig(settings=settings, path=found, warnings=warnings, folder=chosen.parent)


def checked_config(data: Any, where: Path, home: Path) -> GlobalConfig:
    """Give what a global config says, if that can be in force.

    Args:
        data: parsed JSON.
        where: the file, for errors and relative paths.
        home: the user's home directory.

    Raises:
        ConfigError: a field is wrong; its text says what was expected.
    """
    settings = validated(GlobalConfig, data, where)
    _check_ids(settings, where)
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
        return path.resolve()
    return status.st_dev, status.st_ino


def _file_warnings(where: Path, data: dict[str, Any]) -> Iterable[Problem]:
    """Fields of the file that nothing reads."""
    found = list(_unknown_in(GlobalConfig, data, ""))
    for name, entry in data.get("bases", {}).items():
        if isinstance(entry, dict):
            found += _unknown_in(BaseEntry, entry, f"bases.{name}.")
    for field, near in found:
        yield Problem(subject=str(where), message=unknown_message(field, near))


def _unknown_in(model: type[FileModel], data: dict[str, Any], prefix: str) -> Iterable[tuple[str, str | None]]:
    for field, near in unknown_fields(model, data):
        yield f"{prefix}{field}", f"{prefix}{near}" if near else None
    for name, field_info in model.model_fields.items():
        group, value = field_info.annotation, data.get(field_info.alias or name)
        if isinstance(group, type) and issubclass(group, FileModel) and isinstance(value, dict):
            yield from _unknown_in(group, value, f"{prefix}{field_info.alias}.")


def _with_variables(settings: GlobalConfig, env: Mapping[str, str]) -> tuple[GlobalConfig, list[Problem]]:
    """The settings with those over them that the environment names, and a warning for each unknown variable."""
    known = {ENV_PREFIX + name for name in OTHER_VARIABLES}
    ours = {name: value for name, value in env.items() if name.startswith(ENV_PREFIX) and name not in known}
    if not ours:
        return settings, []
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
    update: dict[str, object] = {}
    for name, value in read_variables(ours).items():
        group = getattr(settings, name)
        update[name] = group.model_copy(update=value) if isinstance(group, BaseModel) else value
    return settings.model_copy(update=update), unknown
