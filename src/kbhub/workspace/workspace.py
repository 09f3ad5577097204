"""Choose the directory that kbhub works for."""

from __future__ import annotations

import os
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kbhub.errors import ConfigError, UsageError
from kbhub.types import Workspace
from kbhub.workspace.git import git_root
from kbhub.workspace.places import expand, is_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FROM_ROOTS = "the client's root"
"""Source of a workspace given by the client's roots."""


def find_workspace(*, root: Path | str | None, env: Mapping[str, str], cwd: Path, home: Path, serve: bool) -> Workspace:
    """Return the first of `--root`, `KBHUB_ROOT`, the client's directory, and the working directory.

    Args:
        root: value of `--root`.
        env: environment variables.
        cwd: the working directory; ignored if it is the root of the file system, the home directory or in the cache of
            a package runner, which say nothing about a project.
        home: the home directory.
        serve: whether an MCP client started kbhub, so that its `CLAUDE_PROJECT_DIR` counts.

    Raises:
        UsageError: `--root` is not a directory.
        ConfigError: `KBHUB_ROOT` is not a directory.
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
    if is_directory(cwd) and _tells_a_project(real := cwd.resolve(), env, home):
        return Workspace(directory=real, source="the working directory", git_root=git_root(real, home.resolve()))
    return Workspace(directory=None, source="none")


def workspace_at(directory: Path, source: str, home: Path) -> Workspace:
    """Return the workspace of a directory, links resolved."""
    real = directory.resolve()
    return Workspace(directory=real, source=source, git_root=git_root(real, home.resolve()))


def workspace_from_roots(uris: Sequence[str], *, home: Path | None = None) -> Workspace:
    """Return the workspace of the first of an MCP client's roots that is a directory on this machine.

    Args:
        uris: the URIs of the roots.
        home: the home directory; by default the current user's.
    """
    for uri in uris:
        path = path_of_uri(uri)
        if path is not None and is_directory(Path(path)):
            return workspace_at(Path(path), FROM_ROOTS, home or Path.home())
    return Workspace(directory=None, source="none")


def path_of_uri(uri: str, *, windows: bool = os.name == "nt") -> PurePath | None:
    """Return the path of a `file://` URI, or None if it names none on this machine.

    Args:
        uri: any string.
        windows: whether `/C:/…` is a drive and a host is a file server.
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
    if directory in (home.resolve(), directory.parent):
        return False
    inside = f"{directory}{os.sep}"
    return not any(inside.startswith(f"{os.path.realpath(cache)}{os.sep}") for cache in _runner_caches(env, home))


def _runner_caches(env: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield the folders where uvx, pipx, pip and npx run programs: from their variables, then the defaults."""
    for variable in ("UV_CACHE_DIR", "UV_TOOL_DIR", "PIP_CACHE_DIR", "PIPX_HOME", "npm_config_cache"):
        if (folder := env.get(variable)) and Path(folder).is_absolute():
            yield Path(folder)
    caches = [home / ".cache", home / "Library/Caches"]
    caches += [Path(env[name]) for name in ("XDG_CACHE_HOME", "LOCALAPPDATA") if env.get(name)]
    for cache in caches:
        yield from (cache / "uv", cache / "pip", cache / "pipx", cache / "npm-cache")
    data = Path(env.get("XDG_DATA_HOME") or home / ".local/share")
    yield from (data / "uv/tools", data / "pipx", home / ".local/pipx", home / ".npm/_npx")
