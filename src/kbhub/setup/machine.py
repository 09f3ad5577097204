"""A user account on a machine, and where programs keep their files there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.setup.clients import Client

Platform = Literal["linux", "darwin", "win32"]


@struct
class Machine:
    """A user account on a machine: everything that `CLIENTS` depends on."""

    home: Path
    env: Mapping[str, str]
    platform: Platform

    def path(self, template: str) -> Path:
        """Return the path a template from `CLIENTS` stands for."""
        return Path(template.format_map(folders(self)))

    def file(self, client: Client) -> Path:
        """Return the user's file of a client, which may not exist."""
        templates = client.windows if self.platform == "win32" and client.windows else client.files
        paths = [self.path(template) for template in templates]
        return next((path for path in paths if os.path.lexists(path)), paths[-1])

    def program(self, name: str) -> str | None:
        """Return the path of a program on PATH, or None."""
        return shutil.which(name, path=self.env.get("PATH", ""))

    def has(self, client: Client) -> bool:
        """Return whether the client is installed, or once was."""
        return (
            self.file(client).is_file()
            or any(self.path(sign).is_dir() for sign in client.signs)
            or any(self.program(name) for name in client.programs)
        )


def folders(machine: Machine) -> dict[str, str]:
    """Return the value of each path placeholder; the clients' own environment variables take precedence."""
    env, home = machine.env, machine.home
    xdg = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    user = {
        "linux": xdg,
        "darwin": f"{home}/Library/Application Support",
        "win32": env.get("APPDATA") or f"{home}/AppData/Roaming",
    }[machine.platform]
    claude = env.get("CLAUDE_CONFIG_DIR")
    return {
        "home": str(home),
        "xdg": xdg,
        "user": user,
        "claude": claude or f"{home}/.claude",
        "claude_file": claude or str(home),
        "codex": env.get("CODEX_HOME") or f"{home}/.codex",
        "copilot": env.get("COPILOT_HOME") or f"{home}/.copilot",
        "qwen": env.get("QWEN_HOME") or f"{home}/.qwen",
        "crush": env.get("CRUSH_GLOBAL_CONFIG") or f"{xdg}/crush",
        "continue": env.get("CONTINUE_GLOBAL_DIR") or f"{home}/.continue",
    }


def this_platform() -> Platform:
    """Return the current platform; anything but macOS and Windows counts as Linux."""
    if sys.platform == "darwin":
        return "darwin"
    return "win32" if sys.platform == "win32" else "linux"
