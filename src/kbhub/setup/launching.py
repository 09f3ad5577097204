"""The command by which a client starts this kbhub: absolute, and the same after an upgrade."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbhub.values import struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.setup.clients import Machine

How = Literal["uvx", "uv tool", "pipx", "venv", "environment", "module"]

RELOCATABLE = ("kbhub", "serve")
"""What a project's files name: each member of a team has it elsewhere on the search path."""

_PACKAGE = "kbhub"


@struct
class Installation:
    """Where a kbhub is installed."""

    prefix: Path
    """Of its environment, links not resolved."""
    executable: Path
    """Its interpreter."""
    scripts: Path
    """Folder of the environment's programs."""
    isolated: bool
    """Whether it has an environment of its own."""
    origin: str = ""
    """What it was installed from, if not from an index: a URL."""


@struct
class Launch:
    """How to start an installed kbhub."""

    argv: tuple[str, ...]
    """Without the command of kbhub."""
    how: How
    note: str = ""
    """What the user should know, in a sentence."""


def this_installation() -> Installation:
    """Describe the kbhub that is running."""
    return Installation(
        prefix=Path(sys.prefix),
        executable=Path(sys.executable),
        scripts=Path(sysconfig.get_path("scripts")),
        isolated=sys.prefix != sys.base_prefix,
        origin=_origin(),
    )


def launch(installation: Installation, machine: Machine) -> Launch:
    """Find how to start a kbhub so that this still works after its next upgrade.

    An environment of `uvx` is thrown away one day, so the runner itself is named. Tools of `uv` and `pipx` are named
    by the launcher beside which newer versions are put, as is anything else that is on the search path as a link
    (Homebrew's folders carry the version). All others by the script in their environment.

    Args:
        installation: where it is.
        machine: whose search path and folders count.
    """
    prefix = installation.prefix
    script = installation.scripts / _executable_name(machine)
    if _is_ephemeral(prefix, machine.env) and (runner := _uvx(machine)):
        source = ("--from", installation.origin) if installation.origin else ()
        return Launch((*runner, *source, _PACKAGE), "uvx")
    how: How = "venv" if installation.isolated else "environment"
    if (prefix / "uv-receipt.toml").is_file():
        how = "uv tool"
    elif (prefix / "pipx_metadata.json").is_file():
        how = "pipx"
    for launcher in _launchers(how, machine):
        if _leads_into(launcher, prefix) or (machine.platform == "win32" and how in ("uv tool", "pipx")):
            return Launch((str(launcher),), how)
    if script.is_file():
        note = (
            f"It is in the virtual environment {prefix}; deleting that breaks it. "
            "`uv tool install kbhub` or `pipx install kbhub` gives it a place of its own."
            if how == "venv"
            else ""
        )
        return Launch((str(script),), how, note)
    return Launch((str(installation.executable), "-m", _PACKAGE), "module")


def _is_ephemeral(prefix: Path, env: Mapping[str, str]) -> bool:
    """Whether an environment lies in uv's cache: `archive-v0/…` or `environments-v2/…` of it, say."""
    cache = env.get("UV_CACHE_DIR")
    parts = prefix.parts
    if cache and prefix.is_relative_to(cache):
        return True
    named = any(part.startswith(("archive-v", "environments-v", "builds-v")) for part in parts)
    return named and "uv" in parts


def _uvx(machine: Machine) -> tuple[str, ...] | None:
    """The runner: uv says in `UV` where it is itself."""
    if found := machine.program("uvx"):
        return (str(Path(found).absolute()),)
    uv = machine.env.get("UV") or machine.program("uv")
    return (str(Path(uv).absolute()), "tool", "run") if uv and Path(uv).is_file() else None


def _launchers(how: How, machine: Machine) -> list[Path]:
    """Where there may be a link to the script, first the places where uv and pipx make it."""
    name = _executable_name(machine)
    env = machine.env
    folders = []
    if how == "uv tool":
        folders = [env.get("UV_TOOL_BIN_DIR"), env.get("XDG_BIN_HOME"), f"{machine.home}/.local/bin"]
    elif how == "pipx":
        folders = [env.get("PIPX_BIN_DIR"), f"{machine.home}/.local/bin"]
    paths = [Path(folder) / name for folder in folders if folder]
    paths += [
        Path(found).absolute()
        for folder in env.get("PATH", "").split(os.pathsep)
        if folder and (found := shutil.which(_PACKAGE, path=folder))
    ]
    return [path for path in paths if path.is_file()]


def _leads_into(launcher: Path, prefix: Path) -> bool:
    """Whether a link outside an environment leads to a program in it."""
    real = os.path.realpath(prefix)
    return launcher.is_symlink() and launcher.resolve().is_relative_to(real) and not launcher.is_relative_to(prefix)


def _executable_name(machine: Machine) -> str:
    return f"{_PACKAGE}.exe" if machine.platform == "win32" else _PACKAGE


def _origin() -> str:
    """What pip or uv recorded (PEP 610) of an installation that came from no index."""
    try:
        record: Any = json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    url = record.get("url", "") if isinstance(record, dict) else ""
    vcs = record.get("vcs_info", {}).get("vcs") if url else None
    return f"{vcs}+{url}" if vcs else str(url)
