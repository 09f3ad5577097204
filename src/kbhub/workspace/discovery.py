"""Find the workspace of a directory, its active bases (the project's and the user's own) and the contexts of a path."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import unquote, urlsplit

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Base, Discovery, Problem, Workspace
from kbhub.workspace.config import LoadedConfig, directory_identity, folder_of, id_fault, split_engine_url
from kbhub.workspace.extensions import engine_for, load
from kbhub.workspace.files import (
    expand,
    is_directory,
    private_directory,
    probe_in_vain,
    real_path,
    user_home,
    why_no_directory,
)
from kbhub.workspace.git import git_root
from kbhub.workspace.project import (
    PROJECT_ID,
    Project,
    TrustStore,
    clean,
    docs_base,
    find_project,
    has_inline_tags,
    trust_pointer,
)
from kbhub.workspace.settings import BaseEntry

FROM_ROOTS = "the client's root"

log = logging.getLogger(__name__)

__all__ = ["discover", "find_workspace", "missing", "parse_base_arguments", "trust_pointer", "workspace_from_roots"]

CASE_INSENSITIVE = sys.platform in ("win32", "darwin")
"""Whether this system's file systems usually ignore case."""

EVERYWHERE = "*"
"""The entry of `repos` for every workspace."""

_YES = ("1", "true", "yes", "on")


def find_workspace(*, root: Path | str | None, env: Mapping[str, str], cwd: Path, home: Path, serve: bool) -> Workspace:
    """Return the first of `--root`, `KBHUB_ROOT`, the client's directory, and the working directory.

    The client's `CLAUDE_PROJECT_DIR` counts only with `serve`. The working directory is ignored if it is the root of
    the file system, the home directory or in the cache of a package runner, which say nothing about a project. Raises
    `UsageError` if `--root` is not a directory, and `ConfigError` if `KBHUB_ROOT` is not.
    """
    if root is not None and str(root):
        chosen = expand(str(root), home, cwd)
        if not is_directory(chosen):
            raise UsageError(f"--root {chosen} is not a directory; name an existing one.")
        return workspace_at(chosen, "--root", home)
    if variable := env.get("KBHUB_ROOT"):
        chosen = expand(variable, home, cwd)
        if not is_directory(chosen):
            raise ConfigError("KBHUB_ROOT", f"{chosen} is not a directory; name an existing one")
        return workspace_at(chosen, "KBHUB_ROOT", home)
    client = env.get("CLAUDE_PROJECT_DIR")
    # The client sets this variable, not the user, so an invalid one is ignored.
    if serve and client and Path(client).is_absolute() and is_directory(Path(client)):
        return workspace_at(Path(client), "CLAUDE_PROJECT_DIR", home)
    if is_directory(cwd) and _tells_a_project(real := real_path(cwd), env, home):
        return Workspace(directory=real, source="the working directory", git_root=git_root(real, home.resolve()))
    return Workspace(directory=None, source="none")


def workspace_at(directory: Path, source: str, home: Path) -> Workspace:
    """Return the workspace of a directory, links resolved."""
    real = real_path(directory)
    return Workspace(directory=real, source=source, git_root=git_root(real, home.resolve()))


def workspace_from_roots(uris: Sequence[str], *, home: Path | None = None) -> Workspace:
    """Return the workspace of the first of an MCP client's roots (URIs) that is a directory on this machine."""
    for uri in uris:
        path = path_of_uri(uri)
        if path is not None and is_directory(Path(path)):
            return workspace_at(Path(path), FROM_ROOTS, home or Path.home())
    return Workspace(directory=None, source="none")


def path_of_uri(uri: str, *, windows: bool = os.name == "nt") -> PurePath | None:
    """Return the path of a `file://` URI, or None if it names none on this machine.

    With `windows`, `/C:/…` is a drive and a host is a file server.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme.lower() != "file" or not path.startswith("/") or "\0" in path:
        return None
    host = "" if parts.netloc.lower() == "localhost" else parts.netloc
    if windows:
        drive = path[1:3]
        if host:
            return PureWindowsPath(f"//{host}{path}")
        is_drive = len(drive) == 2 and drive[0].isalpha() and drive[1] == ":"
        return PureWindowsPath(f"{path[1:]}/" if is_drive else path)
    return None if host else PurePosixPath(path)


def _tells_a_project(directory: Path, env: Mapping[str, str], home: Path) -> bool:
    """Return whether a directory is no folder where uvx, pipx, pip and npx run programs, nor the home directory."""
    if directory in (home.resolve(), directory.parent):
        return False
    variables = ("UV_CACHE_DIR", "UV_TOOL_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "npm_config_cache")
    folders = [Path(env[name]) for name in variables if env.get(name) and Path(env[name]).is_absolute()]
    above = [home / ".cache", home / "Library/Caches"]
    above += [Path(env[name]) for name in ("XDG_CACHE_HOME", "LOCALAPPDATA") if env.get(name)]
    for cache in above:
        folders += (cache / "uv", cache / "pip", cache / "pipx", cache / "npm-cache")
    data = Path(env.get("XDG_DATA_HOME") or home / ".local/share")
    folders += (data / "uv/tools", data / "pipx", home / ".local/pipx", home / ".npm/_npx")
    runners = tuple([f"{os.path.realpath(folder)}{os.sep}" for folder in folders])
    return not f"{directory}{os.sep}".startswith(runners)


def matching(contexts: Mapping[str, str], everywhere: Mapping[str, str], path: str) -> tuple[str, ...]:
    """Return the contexts of a path in a base, most general first; for equal prefixes, the global text comes first.

    Both mappings are prefix → text; those of `everywhere` apply to every base. Prefixes match whole path segments:
    `api` and `api/` match `api/x.md` but not `apis.md`.
    """
    matches = [
        (len(folder), of_base, text)
        for of_base, texts in ((False, everywhere), (True, contexts))
        for prefix, text in texts.items()
        if text and covers(folder := plain(prefix), path)
    ]
    return tuple(dict.fromkeys(text for _, _, text in sorted(matches)))


def plain(prefix: str) -> str:
    """Normalise a prefix: `./api/`, `/api` and `api` are the same."""
    return prefix.strip().removeprefix("./").strip("/").removesuffix("/.") if prefix.strip() != "." else ""


def covers(prefix: str, path: str) -> bool:
    """Return whether a normalised prefix is a path or a folder above it; the empty one covers everything."""
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def parse_base_arguments(values: Sequence[str], env: Mapping[str, str]) -> dict[str, Path]:
    """Parse the bases named by a client's server entry, as id → absolute path, which need not exist.

    `--base ID=PATH` overrides `KBHUB_BASES`, a list of `ID=PATH` with the separator of `PATH`. If one is malformed, has
    an invalid id or repeats one, raises `UsageError` for an option, and `ConfigError` for the variable.
    """
    listed = [value for value in env.get("KBHUB_BASES", "").split(os.pathsep) if value.strip()]
    home = user_home(env)
    try:
        bases = _parse_bases(listed, home)
    except ValueError as error:
        raise ConfigError("KBHUB_BASES", str(error)) from error
    try:
        return bases | _parse_bases(values, home)
    except ValueError as error:
        raise UsageError(f"--base {error}.") from error


def _parse_bases(values: Sequence[str], home: Path) -> dict[str, Path]:
    bases: dict[str, Path] = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not path.strip() or "\0" in path:
            folder = Path(name).name
            plain = not separator and id_fault(folder) is None and name.isprintable() and " " not in name
            meant = f"{folder}={name}" if plain else "notes=~/notes"
            raise ValueError(f"{value!r}: expected ID=PATH, such as {meant}")
        if fault := id_fault(name):
            raise ValueError(f"{value!r}: {fault}")
        if name in bases:
            raise ValueError(f"{value!r}: the id {name!r} is given twice; keep one of them")
        bases[name] = expand(path, home, Path()).absolute()
    return bases


def discover(
    workspace: Workspace,
    config: LoadedConfig,
    trust: TrustStore,
    *,
    named: Mapping[str, Path] | None = None,
    env: Mapping[str, str],
    home: Path,
) -> Discovery:
    """Find the active bases. Only reads a few files, without walking trees or running other programs.

    Warnings of the config become problems of the result. `named` has the bases of `parse_base_arguments`,
    and `KBHUB_DISABLE=1` switches kbhub off. Raises `ConfigError` if two of the user's active bases are the same
    directory.
    """
    if env.get("KBHUB_DISABLE", "").lower() in _YES:
        return Discovery(
            workspace=workspace,
            problems=config.warnings,
            warnings=config.warnings,
            looked_for=("KBHUB_DISABLE is set: kbhub is off here",),
            off=True,
        )
    home = Path(os.path.realpath(home))
    project = find_project(workspace, trust, home, config=config.path)
    warnings = (*config.warnings, *project.warnings)
    problems = [*warnings, *project.problems]
    discovery = Discovery(workspace=workspace, warnings=warnings)
    if project.off:
        return replace(discovery, problems=tuple(problems), looked_for=tuple(project.looked_for), off=True)
    named, entries = named or {}, config.settings.entries()
    bases, seen = list[Base](), dict[object, Base]()
    for name in sorted({*_active_ids(workspace.directory, config, home), *named}):
        entry = None if name in named else entries[name]
        if entry:
            base = _config_base(name, entry, config, home, env)
        else:
            path = real_path(named[name])
            tags = has_inline_tags(None, path, home)
            base = Base(id=name, path=path, origin="argument", name=name, inline_tags=tags)
        if base.sessions_of and workspace.git_root and base.sessions_of != Path(os.path.realpath(workspace.git_root)):
            continue  # another repository inside that project
        if base.engine and (fault := _prepare_shared(base)):
            problems.append(Problem(subject=name, message=fault))
        elif is_directory(base.path):
            bases.append(base)
            # Those of the config were already compared with each other on loading.
            other = seen.setdefault((directory_identity(base.path), base.sessions_of), base)
            if other is not base:
                place = config.path if config.path and base.origin == other.origin == "config" else "--base"
                both = f"{other.id!r} and {base.id!r} are the same directory, {base.path}"
                raise ConfigError(place, f"{both}; keep one of them")
        else:
            where = f"`bases.{name}` in {config.path}" if entry else "the --base or KBHUB_BASES that names it"
            message = f"{base.path} {why_no_directory(base.path)}. Create it, or fix {where}."
            problems.append(Problem(subject=name, message=message))
    if project.docs and (project.base or not project.problems):
        docs = _fallback(workspace, config, bases, project, {*entries, *named})
        bases = [docs, *bases] if docs else bases
    united = _united(project.base, bases, config)
    log.debug("workspace: %s (%s), git root: %s", workspace.directory, workspace.source, workspace.git_root)
    for base in united:
        log.debug("base %s: %s, found as %s", base.id, base.path, base.origin)
    return replace(
        discovery,
        bases=united,
        problems=tuple(problems),
        looked_for=tuple(project.looked_for),
        untrusted=project.untrusted,
    )


def missing(discovery: Discovery, configured: Iterable[str]) -> list[Problem]:
    """Return the problems of bases, with ids in `configured`, that would be active if they were usable."""
    active = {name for base in discovery.bases for name in (base.id, *base.names)}
    return [problem for problem in discovery.problems if problem.subject in {PROJECT_ID, *configured} - active]


def _active_ids(directory: Path | None, config: LoadedConfig, home: Path) -> set[str]:
    """Ids active in a workspace: those of `*`, and those of the deepest `repos` folder that contains it."""
    settings = config.settings
    active = set(settings.active_in(EVERYWHERE))
    if directory is None:
        return active
    fold = str.casefold if CASE_INSENSITIVE else str
    target = tuple(map(fold, directory.parts))
    longest = 0
    nearest: set[str] = set()
    for key in settings.repos:
        if key == EVERYWHERE:
            continue
        parts = tuple(map(fold, real_path(expand(key, home, config.folder)).parts))
        if parts == target[: len(parts)] and len(parts) >= longest:
            # Two spellings of a folder count as one entry.
            nearest = nearest if len(parts) == longest else set()
            nearest |= set(settings.active_in(key))
            longest = len(parts)
    return active | nearest


def _prepare_shared(base: Base) -> str | None:
    """Make the folder of a shared base; return what keeps it from being used here."""
    engine = engine_for(base.engine or "")
    lacking: str | None = load(engine).missing() if engine else f"No engine for {base.place} is installed."
    if lacking:
        probe_in_vain()
        return lacking
    try:
        private_directory(base.path)
    except OSError as error:
        probe_in_vain()
        return f"Cannot create {base.path}: {error.strerror}. Make its folder writable, or set XDG_DATA_HOME."
    return None


def _config_base(name: str, entry: BaseEntry, config: LoadedConfig, home: Path, env: Mapping[str, str]) -> Base:
    engine, shared_as = split_engine_url(entry.engine) if entry.engine else (None, None)
    texts = clean({"name": entry.name or "", "description": entry.description or ""})
    cache = entry.cache_dir
    path = real_path(folder_of(name, entry, config.folder, home, env))
    return Base(
        id=name,
        path=path,
        origin="config",
        name=texts["name"] or name,
        description=texts["description"] or None,
        contexts=clean(entry.contexts),
        include=entry.include,
        exclude=entry.exclude,
        inline_tags=has_inline_tags(entry.inline_tags, path, home),
        cache_dir=real_path(expand(cache, home, config.folder)) if cache else None,
        weight=entry.weight,
        writable=entry.writable and engine is None,
        kind="memory" if entry.memories and engine else entry.kind,
        engine=engine,
        shared_as=shared_as or name if engine else None,
        timeout=entry.timeout,
        keep_deleted=entry.keep_deleted,
        sessions_of=real_path(expand(entry.sessions_of, home, config.folder)) if entry.sessions_of else None,
    )


def _fallback(
    workspace: Workspace, config: LoadedConfig, own: Sequence[Base], project: Project, taken: Set[str]
) -> Base | None:
    """The repository's `docs/`, unless the user disabled that or has it in a base: as the project base or beside it."""
    git = workspace.git_root
    if git is None:
        return None
    docs = git / "docs"
    if not config.settings.docs_fallback:
        project.looked_for.append(f"{docs} (not read: `docsFallback` is false)")
        return None
    project.looked_for.append(f"{docs}")
    if {directory_identity(git), directory_identity(docs)} & {directory_identity(base.path) for base in own}:
        return None
    if project.base is None:
        return docs_base(git)
    real, path = real_path(docs), project.base.path
    if real.is_relative_to(path) or path.is_relative_to(real):
        return None
    name = "docs"
    while name in taken:
        name = f"project-{name}"
    return docs_base(git, name)


def _united(project: Base | None, own: Sequence[Base], config: LoadedConfig) -> tuple[Base, ...]:
    """All bases, the project's first; a base of the user's with the same directory is merged into it."""
    if project is None:
        return tuple(own)
    where = directory_identity(project.path)
    same = next((base for base in own if project.origin != "docs" and directory_identity(base.path) == where), None)
    if same is None:
        return (project, *own)
    said = config.said_of(same.id) if same.origin == "config" else set()
    return (_joined(project, same, said), *(base for base in own if base is not same))


def _joined(project: Base, own: Base, said: Set[str]) -> Base:
    """Merge the user's base for the same directory into the project's, overriding the pointer."""
    return project.model_copy(
        update={
            "names": (own.id,),
            "weight": own.weight,
            "writable": own.writable if "writable" in said else project.writable,
            "contexts": {**project.contexts, **own.contexts},
            "name": own.name if "name" in said else project.name,
            "description": own.description or project.description,
            "include": own.include if "include" in said else project.include,
            "exclude": own.exclude if "exclude" in said else project.exclude,
            "inline_tags": own.inline_tags if "inlineTags" in said else project.inline_tags,
            "cache_dir": own.cache_dir or project.cache_dir,
            "kind": own.kind,
            "keep_deleted": own.keep_deleted,
            "sessions_of": own.sessions_of,
        }
    )
