"""Find the workspace of a directory, its active bases and the contexts of a path.

The bases are the project's, the user's own, and those of memories and saved chat answers, whose folders are here, too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Literal, Protocol
from urllib.parse import unquote, urlsplit

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Base, Discovery, Problem, Workspace
from kbhub.values import struct
from kbhub.workspace.config import LoadedConfig, directory_identity, folder_of, split_engine_url
from kbhub.workspace.extensions import engine_for, load
from kbhub.workspace.files import (
    expand,
    is_directory,
    private_directory,
    probe,
    probe_in_vain,
    read_regular,
    real_path,
    why_no_directory,
    write_atomically,
)
from kbhub.workspace.git import Identity, git_root, identify
from kbhub.workspace.project import PROJECT_ID, Project, TrustStore, clean, docs_base, find_project, has_inline_tags
from kbhub.workspace.settings import BaseEntry, GlobalConfig, Settings, in_file

FROM_ROOTS = "the client's root"

log = logging.getLogger(__name__)

CASE_INSENSITIVE = sys.platform in ("win32", "darwin")
"""Whether this system's file systems usually ignore case."""

EVERYWHERE = "*"

_YES = ("1", "true", "yes", "on")


def find_workspace(*, root: Path | str | None, env: Mapping[str, str], cwd: Path, home: Path, serve: bool) -> Workspace:
    """Return the first of `--root`, `KBHUB_ROOT`, the client's directory, and the working directory.

    The client's `CLAUDE_PROJECT_DIR` counts only with `serve`. The working directory is ignored if it is the root of
    the file system, the home directory or in the cache of a package runner, which say nothing about a project.
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
    if is_directory(cwd) and _tells_a_project(real_path(cwd), env, home):
        return workspace_at(cwd, "the working directory", home)
    return Workspace(directory=None, source="none")


def workspace_at(directory: Path, source: str, home: Path) -> Workspace:
    """Return the workspace of a directory, links resolved."""
    real = real_path(directory)
    return Workspace(directory=real, source=source, git_root=git_root(real, home.resolve()))


def workspace_from_roots(uris: Sequence[str], *, home: Path) -> Workspace:
    """Return the workspace of the first of an MCP client's roots (URIs) that is a directory on this machine."""
    for uri in uris:
        path = path_of_uri(uri)
        if path is not None and is_directory(Path(path)):
            return workspace_at(Path(path), FROM_ROOTS, home)
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
    if not windows:
        return None if host else PurePosixPath(path)
    if host:
        return PureWindowsPath(f"//{host}{path}")
    return PureWindowsPath(f"{path[1:]}/" if re.match(r"/[A-Za-z]:", path) else path)


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
    return tuple(dict.fromkeys(map(itemgetter(2), sorted(matches))))


def plain(prefix: str) -> str:
    """Normalise a prefix: `./api/`, `/api` and `api` are the same."""
    return prefix.strip().removeprefix("./").strip("/").removesuffix("/.") if prefix.strip() != "." else ""


def covers(prefix: str, path: str) -> bool:
    """Return whether a normalised prefix is a path or a folder above it; the empty one covers everything."""
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def discover(
    workspace: Workspace,
    config: LoadedConfig,
    trust: TrustStore,
    *,
    named: Mapping[str, Path],
    env: Mapping[str, str],
    home: Path,
) -> Discovery:
    """Find the active bases; `named` has those of arguments. `ConfigError` if two of them are the same directory."""
    if env.get("KBHUB_DISABLE", "").lower() in _YES:
        why = ("KBHUB_DISABLE is set: kbhub is off here",)
        return Discovery(
            workspace=workspace, problems=config.warnings, warnings=config.warnings, looked_for=why, off=True
        )
    home = Path(os.path.realpath(home))
    project = find_project(workspace, trust, home, config=config.path)
    warnings = (*config.warnings, *project.warnings)
    problems = [*warnings, *project.problems]
    discovery = Discovery(workspace=workspace, warnings=warnings)
    if project.off:
        return replace(discovery, problems=tuple(problems), looked_for=tuple(project.looked_for), off=True)
    entries, bases, seen = config.settings.bases, list[Base](), dict[object, Base]()
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
    united = (project.base,) if project.base else tuple(bases)
    if project.base and bases:
        united = _united(project.base, bases, config)
    log.debug("workspace: %s (%s), git root: %s", workspace.directory, workspace.source, workspace.git_root)
    for base in united:
        log.debug("base %s: %s, found as %s", base.id, base.path, base.origin)
    discovery = replace(discovery, problems=tuple(problems), looked_for=tuple(project.looked_for))
    return replace(discovery, bases=united, untrusted=project.untrusted)


def _active_ids(directory: Path | None, config: LoadedConfig, home: Path) -> set[str]:
    """Ids active in a workspace: those of `*`, and those of the deepest `repos` folder that contains it."""
    fold = str.casefold if CASE_INSENSITIVE else str
    target = tuple(map(fold, directory.parts)) if directory else ()
    ids = defaultdict[int, set[str]](set)  # by depth, so that two spellings of a folder count as one entry
    for key, names in config.settings.repos.items():
        parts = () if key == EVERYWHERE else tuple(map(fold, real_path(expand(key, home, config.file.parent)).parts))
        if parts == target[: len(parts)]:
            ids[len(parts)].update(names)
    return ids[0] | ids[max(ids)]


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
    cache = entry.cache_dir
    path = real_path(folder_of(name, entry, config.file.parent, home, env))
    return Base(
        id=name,
        path=path,
        origin="config",
        name=clean(entry.name) or name,
        description=clean(entry.description) or None,
        contexts={prefix: clean(text) for prefix, text in entry.contexts.items()},
        include=entry.include,
        exclude=entry.exclude,
        inline_tags=has_inline_tags(entry.inline_tags, path, home),
        cache_dir=real_path(expand(cache, home, config.file.parent)) if cache else None,
        weight=entry.weight,
        writable=entry.writable and engine is None,
        kind="memory" if entry.memories and engine else entry.kind,
        engine=engine,
        shared_as=shared_as or name if engine else None,
        timeout=entry.timeout,
        keep_deleted=entry.keep_deleted,
        sessions_of=real_path(expand(entry.sessions_of, home, config.file.parent)) if entry.sessions_of else None,
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


def _united(project: Base, own: Sequence[Base], config: LoadedConfig) -> tuple[Base, ...]:
    """All bases, the project's first; a base of the user's with its directory is merged in, and overrides a pointer."""
    where = directory_identity(project.path)
    same = next((base for base in own if project.origin != "docs" and directory_identity(base.path) == where), None)
    if same is None:
        return (project, *own)
    entry = config.said.get("bases", {}).get(same.id) if same.origin == "config" else None
    said = entry if isinstance(entry, dict) else {}
    own_word = [name for name in ("writable", "name", "include", "exclude", "inline_tags") if in_file(name) in said]
    merged = project.model_copy(
        update={
            "names": (same.id,),
            "contexts": {**project.contexts, **same.contexts},
            "description": same.description or project.description,
            "cache_dir": same.cache_dir or project.cache_dir,
            **{name: getattr(same, name) for name in ("weight", "kind", "keep_deleted", "sessions_of", *own_word)},
        }
    )
    return (merged, *(base for base in own if base is not same))


Scope = Literal["project", "user", "shared", "team"]
"""Scope of a memory: this project, all of the user's projects, this project for everyone who has a copy, or a shared
base for everyone who may read it."""

MEMORY_ID, USER_ID = "memory", "user"
"""Ids of the bases with memories of the scopes `project` and `user`; those of `shared` are in the project base."""

SHARED_FOLDER = "memories"

NO_TEAM = (
    'No shared base here accepts memories. Set `"memories": true` for one in ~/.kbhub.json; its admin allows it '
    "with `kbhub team publish --to URL --memories`."
)

ABOUT_NAME = ".project.json"
"""File that identifies a folder's project, for people and `kbhub memories move`; hidden, so that it is not indexed."""

SYNCED_NAME = ".synced"
"""File of a memory folder: commits that it was synced with, latest first, each with the ids that were held. They are of
several remotes, or from several clones of a project, which share the folder."""

MAX_ABOUT_BYTES = 16_384
NAME_CHARACTERS = 40
"""Characters of a project's name in its folder's name; file names may have 255 bytes."""

_UNSAFE = re.compile(r"[^\w.]+")

COMPLETIONS_ID = "completions"
"""Id of the base; a base of the user's with this id takes precedence."""


class Files(Protocol):
    """The files of a shelf, by path in the base: in a folder (`memory.files`), or in a database (by an engine)."""

    def names(self) -> list[str]: ...  # noqa: D102
    def read(self, path: str, limit: int) -> tuple[bytes, float] | None: ...  # noqa: D102
    def author(self) -> str: ...  # noqa: D102
    def create(self, path: str, data: bytes) -> None: ...  # noqa: D102
    def replace(self, path: str, data: bytes) -> None: ...  # noqa: D102
    def remove(self, path: str) -> None: ...  # noqa: D102


@struct
class MemoryFolder:
    """A folder of memories."""

    scope: Scope
    base: Base
    prefix: str = ""
    """Path prefix in the base: `memories/` for shared ones, else empty."""
    files: Files | None = None

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.base.path / self.prefix if self.prefix else self.base.path

    @property
    def place(self) -> str:
        """Key under which uses of its memories are counted."""
        return place_of(self.base)


def place_of(base: Base) -> str:
    """Return the key for counting uses of a base's memories; it stays valid if the data directory moves."""
    return base.path.name if base.origin == "memory" else f"shared:{base.path}"


def memories_folder(data: Path) -> Path:
    """Return the folder of all memories in the data directory, links resolved."""
    return real_path(data) / "memories"


def described(folder: Path) -> Identity | None:
    """Return the identity recorded in a project's folder, or None if there is no valid one."""
    try:
        about = json.loads(read_regular(folder / ABOUT_NAME, MAX_ABOUT_BYTES))
        identity = Identity(about["by"], about["project"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return identity if isinstance(identity.text, str) and folder.name.endswith(identity.digest) else None


def project_folders(data: Path, identity: Identity | None = None) -> list[Path]:
    """Return the folders with memories of all projects, sorted by name, or that of one, if it has any yet."""
    ending = f"-{identity.digest}" if identity else ""
    entries = [one for one in _visible(memories_folder(data)) if one.name != USER_ID and one.name.endswith(ending)]
    return sorted([Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)])


def shelf_for_writing(discovery: Discovery, data: Path, settings: Settings, scope: Scope) -> MemoryFolder:
    """Return the folder for new memories of a scope, created if necessary except for shared ones; under a lock."""
    if scope == "shared":
        return _shared_shelf(discovery, settings)
    if scope == "user":
        return MemoryFolder("user", _memory_base(USER_ID, private_directory(memories_folder(data) / USER_ID)))
    identity = identify(discovery.workspace)
    if identity is None:
        raise UsageError("No project here to remember for. Use the scope `user`, or name a project with --root.")
    folder = next(iter(project_folders(data, identity)), None)
    if folder is None:
        place = "repository" if identity.kind == "root" else identity.text.replace(os.sep, "/").rstrip("/")
        name = unicodedata.normalize("NFKC", place.rpartition("/")[2])
        readable = _UNSAFE.sub("-", name)[:NAME_CHARACTERS].strip("-.") or "project"
        folder = private_directory(memories_folder(data) / f"{readable}-{identity.digest}")
        about = {"project": identity.text, "by": identity.kind}
        write_atomically(folder / ABOUT_NAME, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    return MemoryFolder("project", _memory_base(MEMORY_ID, folder))


def is_memory(settings: Settings, base: Base, path: str) -> bool:
    """Return whether a document is a memory."""
    shared = settings.memory.shared and base.id == PROJECT_ID and path.startswith(f"{SHARED_FOLDER}/")
    return shared or base.kind == "memory"


def _shared_shelf(discovery: Discovery, settings: Settings) -> MemoryFolder:
    if not settings.memory.shared:
        raise UsageError(
            'Shared memories are off, because they are written into the project. To allow them, set `"memory": '
            '{"shared": true}` in ~/.kbhub.json.'
        )
    project = discovery.project
    if project is None:
        raise UsageError("No project base to share memories in. Create one with `kbhub init`.")
    if not project.writable:
        raise UsageError(f"The project base {project.path} is read-only, but shared memories need a writable one.")
    folder = project.path / SHARED_FOLDER
    if os.path.realpath(folder) != str(folder):
        raise UsageError(f"{folder} is a link. Shared memories are only written to a real folder of the project base.")
    return MemoryFolder("shared", project, f"{SHARED_FOLDER}/")


def _memory_base(id_: str, folder: Path) -> Base:
    whose, where = ("this project", "for this project") if id_ == MEMORY_ID else ("the user", "for every project")
    name, about = f"memories of {whose}", f"What agents remembered {where}."
    return Base(id=id_, path=folder, origin="memory", name=name, description=about, kind="memory", writable=True)


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    """Visible entries of a folder; none if it does not exist."""
    probe(folder, entries=True)
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name[0] != "."]
    return []


def completions_folder(data: Path) -> Path:
    """Return the folder of saved chat answers in kbhub's data directory, links resolved."""
    return real_path(data) / COMPLETIONS_ID


def with_own(discovery: Discovery, data: Path, settings: GlobalConfig) -> Discovery:
    """Add kbhub's own bases, of memories and of saved chat answers, to those found by discovery."""
    if discovery.off:
        return discovery
    bases, top = [*discovery.bases], memories_folder(data)
    if settings.memory.enabled:
        # Which project this is, git may have to say: not asked if no project has memories.
        identity = identify(discovery.workspace) if project_folders(data) else None
        own = project_folders(data, identity) if identity else []
        folders = {MEMORY_ID: own[0] if own else None, USER_ID: top / USER_ID}
        bases += [_memory_base(id_, folder) for id_, folder in folders.items() if folder and _visible(folder)]
    folder = top.with_name(COMPLETIONS_ID)
    if is_directory(folder) and folder not in [base.path for base in bases]:
        about = "Answers of language models, saved by `kbhub doc distil`; not reviewed."
        chats = Base(
            id=COMPLETIONS_ID, path=folder, origin="config", name="Chat answers", description=about, writable=True
        )
        taken = {*settings.bases, *[name for base in bases for name in (base.id, *base.names)]}
        bases += [] if COMPLETIONS_ID in taken else [chats]
    return discovery.model_copy(update={"bases": tuple(bases)})
