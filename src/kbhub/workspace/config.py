"""Read configuration: the global config `~/.kbhub.json`, pointers of projects, a client's arguments.

Files are JSON that may have comments and trailing commas; `config_edits` changes them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Problem
from kbhub.values import struct
from kbhub.workspace.extensions import engine_for
from kbhub.workspace.files import expand, own_folder, probe, read_regular, user_home
from kbhub.workspace.settings import (
    ENV_PREFIX,
    MAX_RULES,
    OTHER_VARIABLES,
    RESERVED_IDS,
    BaseEntry,
    BaseFields,
    GlobalConfig,
    Pointer,
    cut,
    few,
    first_error,
    in_file,
    nearest,
    plainly,
    shown,
    unknown_fields,
)

MAX_CONFIG_BYTES = 1024 * 1024
"""Largest configuration file in bytes: a thousand times the usual size."""

BOM = "\ufeff"

# Atomic, so that the lookahead for trailing commas cannot end inside a comment, nor stretch one comment over two.
COMMENT = r"(?>//[^\n]*|/\*.*?(?:\*/|\Z))"
# An unclosed string extends to the end of the file: retrying from each of its quotes would take quadratic time.
_OPEN = r'"(?>(?:[^"\\]|\\.)*)"?'
_EXTRAS = re.compile(rf"{_OPEN}|{COMMENT}|,(?=(?:\s|{COMMENT})*[\]}}])", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKENS = re.compile(rf"(?P<key>{_STRING})\s*:|{_STRING}|(?P<opened>[{{\[])|(?P<closed>[}}\]])|(?P<constant>-?[NI]\w+)")


class _Refused(ValueError):
    """Something that the standard parser accepts and a configuration must not contain."""


def read_jsonc(path: Path) -> Any:
    """Read a file of JSON with comments and trailing commas; `ConfigError` names line and column of what is wrong."""
    try:
        data = read_regular(path, MAX_CONFIG_BYTES)
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    return parse_both(decoded(data, path).removeprefix(BOM), path)[0]


def decoded(data: bytes, path: Path) -> str:
    """Return the text of a file, or raise `ConfigError` if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, f"line {line}: not UTF-8 text; save the file as UTF-8") from error


def parse_jsonc(text: str, where: Path | str) -> Any:
    """Parse JSON with comments; `where` names it in errors, which are those of `read_jsonc`."""
    return parse_both(text, where)[0]


def parse_both(text: str, where: Path | str) -> tuple[Any, str]:
    """Parse JSON as `parse_jsonc` does, and also return it as plain JSON of the same length, blanks for the rest."""
    try:
        return _parse(text), text
    except (ValueError, RecursionError):
        plain = _EXTRAS.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)
    try:
        return _parse(plain), plain
    except json.JSONDecodeError as error:
        fault, message = error, f"malformed JSON: {error.msg}"
    except _Refused:
        at, message = next(_refused_in(plain))
        fault = json.JSONDecodeError("", plain, at)
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or deep nesting
        raise ConfigError(where, f"malformed JSON: {error}") from error
    raise ConfigError(where, f"line {fault.lineno}, column {fault.colno}: {message}") from fault


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Refused
    return members


def _no_constant(_: str) -> NoReturn:
    raise _Refused


_parse = partial(json.loads, object_pairs_hook=_unique, parse_constant=_no_constant)


def _refused_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the offsets of repeated keys, and of constants that are not JSON, and what is wrong with them."""
    objects: list[set[str]] = []
    for match in _TOKENS.finditer(text):
        if match["opened"]:
            objects.append(set())
        elif match["closed"]:
            objects.pop()
        elif match["constant"]:
            yield match.start(), f"{match[0]} is not a JSON value"
        elif match["key"]:
            if (key := json.loads(match["key"])) in objects[-1]:
                yield match.start(), f"the key {key!r} occurs twice in one object; keep one of them"
            objects[-1].add(key)


HAS_PASSWORD = "contains a password; move it to ~/.pgpass, a service file or PGPASSWORD"  # noqa: S105

# libpq takes everything up to the last `@` before a slash as user and password, `?` and `#` included.
_PASSWORD = re.compile(r"[^/]*//[^/]*?:[^/]+@|.*[?&](?:ssl)?password=[^&]")


def engine_fault(url: str) -> str | None:
    """Return why a text cannot be the URL of a database, or None if it can."""
    if engine_for(url) is None or not url.partition(":")[2].startswith("//"):
        return "must be a URL such as postgresql://kb.example/handbook"
    if any(map(_PASSWORD.match, (url, unquote(url)))):
        return HAS_PASSWORD
    try:
        valid = unquote(url, errors="strict").isprintable()
        for host in urlsplit(url).netloc.rpartition("@")[2].split(","):
            urlsplit(f"//{host}").port  # noqa: B018 - raises for what is no number
    except ValueError:
        valid = False
    return None if valid else "is not a valid URL; check its host, its port, and characters written as %XX"


def split_engine_url(url: str) -> tuple[str, str | None]:
    """Return the URL of the database, and the name of the base in it if one is given."""
    database, _, name = url.partition("#")
    return database, unquote(name) or None


def database_name(url: str) -> str:
    """Return the name of the database in a URL; empty if it has none."""
    return unquote(urlsplit(url).path.strip("/"))


def shown_url(url: str) -> str:
    """Return a URL for display, without password and options."""
    return url.partition("?")[0]


T = TypeVar("T")

_DEEPEST = 20
"""Levels of a configuration file; the deepest field is on the fourth."""

_HALF = re.compile("[\ud800-\udfff]")


def checked(declared: type[T], data: Any, where: Path | str) -> T:
    """Validate a file's parsed JSON as a dataclass; `ConfigError` names the first wrong field and what was expected."""
    if not isinstance(data, dict):
        raise ConfigError(where, f"expected an object in braces, not {shown(data)}")
    pending: list[tuple[tuple[str, ...], Any]] = [((), data)]
    while pending:  # pydantic names no field of a lone surrogate, and of what is nested too deeply
        field, value = pending.pop()
        if len(field) > _DEEPEST:
            raise ConfigError(where, f"nested deeper than {_DEEPEST} levels", ".".join(map(cut, field[:2])))
        if isinstance(value, dict):
            pending += [((*field, name), one) for name, one in value.items()]
            value = "".join(value)
        elif isinstance(value, list):
            pending += [((*field, str(number)), one) for number, one in enumerate(value)]
        if isinstance(value, str) and _HALF.search(value):
            raise ConfigError(
                where, "contains half a character (a lone surrogate); write it in full", ".".join(map(cut, field))
            )
    try:
        return plainly(declared, data)
    except ValueError:
        # pydantic takes 0.1 s to load, and a file that is as it should be needs none of it.
        from kbhub.workspace.validation import ValidationError, validated  # noqa: PLC0415
    try:
        return validated(declared, data)
    except ValidationError as error:
        field, message = first_error(error)
        raise ConfigError(where, message, ".".join(field) or None) from error


POINTER_NAMES = (".kbhub.json", ".knowledge.json")
"""File names of a pointer, by precedence; the second is that of knowledgebased."""


def read_pointer(path: Path) -> tuple[Pointer, tuple[Problem, ...]]:
    """Read a pointer, and return it with a warning for each field without effect."""
    data = read_jsonc(path)
    pointer = checked(Pointer, data, path)
    check_patterns(pointer, path)
    warnings = []
    for name, message in unknown_fields(Pointer, data):
        if name in ("writable", "weight", "kind", "keepDeleted", "sessionsOf"):
            message = f"a pointer cannot set {name!r}; only ~/.kbhub.json can, for one of your bases."
        warnings.append(Problem(subject=str(path), message=message))
    return pointer, few(warnings)


def check_patterns(said: BaseFields, where: Path, prefix: str = "") -> None:
    """Raise `ConfigError` if a list has more than `MAX_RULES` patterns."""
    for name in ("include", "exclude", "keep_deleted"):
        count = len(getattr(said, name, ()))
        if count > MAX_RULES:
            raise ConfigError(where, f"has {count} patterns; the maximum is {MAX_RULES}", f"{prefix}{in_file(name)}")


log = logging.getLogger(__name__)

CONFIG_NAME = ".kbhub.json"


@struct
class LoadedConfig:
    """The global config in force."""

    settings: GlobalConfig
    path: Path | None
    """The file that was read; None if the default file does not exist."""
    warnings: tuple[Problem, ...] = ()
    file: Path = Path()
    """The same file, even if it does not exist."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """What the file and variables set, in the names of the file."""


def load_config(path: Path | None, env: Mapping[str, str], home: Path) -> LoadedConfig:
    """Load the global config (`path`, else `KBHUB_CONFIG`, else `~/.kbhub.json` if it exists), and apply variables."""
    named = path or env.get("KBHUB_CONFIG")
    chosen = expand(str(named), home, Path()).absolute() if named else home / CONFIG_NAME
    probe(chosen)
    read = chosen if named or os.path.lexists(chosen) else None
    data = read_jsonc(read) if read else {}
    settings = checked_config(data, chosen, home) if read else GlobalConfig()
    ours = {name: value for name, value in env.items() if name.startswith(ENV_PREFIX) and name not in OTHER_VARIABLES}
    variables, unknown = _variables(ours) if ours else ({}, [])
    said = dict(data)
    undeclared = list(unknown_fields(GlobalConfig, data))
    for name, entry in data.get("bases", {}).items():
        if isinstance(entry, dict):
            undeclared += unknown_fields(BaseEntry, entry, f"bases.{name}.")
    warnings = few([Problem(subject=str(chosen), message=message) for _, message in undeclared])
    for field_name, value in variables.items():
        group: Any = getattr(settings, field_name)
        changed = replace(group, **value) if isinstance(value, dict) else value
        settings = replace(settings, **{field_name: changed})
        said[in_file(field_name)] = {**data.get(in_file(field_name), {}), **value} if isinstance(value, dict) else value
    log.debug("config: %s%s", chosen, "" if read else ", which does not exist")
    return LoadedConfig(settings, read, (*warnings, *unknown), chosen, said)


def checked_config(data: Any, where: Path, home: Path) -> GlobalConfig:
    """Validate the parsed JSON of a global config; relative paths are relative to the folder of `where`."""
    settings = checked(GlobalConfig, data, where)
    for name in settings.bases:
        if fault := id_fault(name):
            raise ConfigError(where, fault, "bases")
    for key, names in settings.repos.items():
        for name in names:
            if name not in settings.bases:
                near = nearest(name, settings.bases)
                hint = f"did you mean {near!r}? " if near else ""
                known = ", ".join(sorted(settings.bases)) or "none"
                raise ConfigError(where, f"unknown base id {name!r}; {hint}`bases` defines: {known}", f"repos.{key}")
    # Each has a place, and only one; a password must not be in a file that is often copied and shown. Even if two ids
    # for one place are never active together, one is a mistake, but for logs of projects.
    seen: dict[object, str] = {}
    for name, entry in settings.bases.items():
        place: tuple[object, object]
        if entry.engine is None and entry.knowledge is None:
            raise ConfigError(where, "needs a folder (`knowledge`) or an `engine`", f"bases.{name}.knowledge")
        if entry.engine and entry.knowledge:
            raise ConfigError(where, "cannot be used with `knowledge`; keep one of them", f"bases.{name}.engine")
        if entry.engine is None and entry.memories:
            reason = "is only for shared bases; for memories in a folder of the project, use `memory.shared`"
            raise ConfigError(where, reason, f"bases.{name}.memories")
        check_patterns(entry, where, f"bases.{name}.")
        if entry.engine:
            if fault := engine_fault(entry.engine):
                raise ConfigError(where, fault, f"bases.{name}.engine")
            url, shared_as = split_engine_url(entry.engine)
            place, same = (url, shared_as or name), "shared base"
        else:
            identity = directory_identity(expand(entry.knowledge or "", home, where.parent))
            place, same = (identity, entry.sessions_of), f"directory ({entry.knowledge})"
        if (other := seen.setdefault(place, name)) != name:
            raise ConfigError(where, f"{other!r} and {name!r} are the same {same}; keep one of them", "bases")
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


def folder_of(name: str, entry: BaseEntry, where: Path, home: Path, env: Mapping[str, str]) -> Path:
    """Return the folder of an entry of `bases`; that of a shared base is an empty one of kbhub's own."""
    if entry.knowledge is not None:
        return expand(entry.knowledge, home, where)
    digest = hashlib.sha256(f"{entry.engine}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return own_folder("data", env) / "shared" / digest


def directory_identity(path: Path) -> tuple[int, int] | Path:
    """Return device and inode of a directory, or its resolved path if it does not exist; equal for all its names."""
    try:
        probe(path)
        status = path.stat()
    except (OSError, ValueError):
        return Path(os.path.realpath(path))  # `Path.resolve` raises for link cycles
    return status.st_dev, status.st_ino


def _variables(ours: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the settings in variables, field → value or group, and a warning for each unknown one."""
    # pydantic-settings takes 100 ms to import, and few users set these variables.
    from kbhub.workspace.validation import read_variables, variable_names  # noqa: PLC0415

    names = variable_names()
    unknown = []
    for name in ours:
        if name not in names:
            near = nearest(name, (*names, *OTHER_VARIABLES))
            message = f"unknown variable; {f'did you mean {near}?' if near else 'it has no effect.'}"
            unknown.append(Problem(subject=name, message=message))
    return read_variables(ours), unknown


def parse_base_arguments(values: Sequence[str], env: Mapping[str, str]) -> dict[str, Path]:
    """Parse the bases named by `--base ID=DIR`, and by `KBHUB_BASES` with the separator of `PATH`: id → absolute path.

    A malformed, invalid or repeated one raises `UsageError` for an option, and `ConfigError` for the variable.
    """
    variable = [*filter(str.strip, env.get("KBHUB_BASES", "").split(os.pathsep))]
    bases: dict[str, Path] = {}
    for given in (variable, values):
        found: dict[str, Path] = {}
        for value in given:
            name, separator, path = value.partition("=")
            if not separator or not path.strip() or "\0" in path:
                other = "" if given is variable else "; to search only some bases, use `kbhub search --in ID`"
                fault: str | None = f"expected ID=DIR, such as notes=~/notes{other}"
            else:
                fault = id_fault(name)
            if name in found:
                fault = fault or f"the id {name!r} is given twice; keep one of them"
            if fault and given is variable:
                raise ConfigError("KBHUB_BASES", f"{value!r}: {fault}")
            if fault:
                raise UsageError(f"--base {value!r}: {fault}.")
            found[name] = expand(path, user_home(env), Path()).absolute()
        bases |= found
    return bases
