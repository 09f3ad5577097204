"""Where each MCP client keeps its server list on each operating system, and what an entry looks like there.

Sources, read in November 2026: the clients' own documentation (code.claude.com, developers.openai.com/codex,
docs.github.com/copilot, code.visualstudio.com, cursor.com/docs, geminicli.com, opencode.ai, zed.dev, goose-docs.ai,
kiro.dev, lmstudio.ai, ampcode.com, qwenlm.github.io/qwen-code-docs, charmbracelet/crush docs/config, kilo.ai/docs,
docs.continue.dev, docs.roocode.com, junie.jetbrains.com, docs.warp.dev, docs.factory.ai), runs of Claude Code 2.1,
Codex 0.169, Copilot CLI 1.0, Gemini CLI 0.61, opencode 1.18, Qwen Code 0.24, Kilo 7.7 and droid 0.215 on 24 November
2026, and user reports for Claude Desktop on Linux and Antigravity.

The clients' own commands are not run: `qwen mcp add` drops the comments of its file, `droid mcp add` replaces a file
that has some, and none keeps what a user added to the entry.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from kbhub.values import struct

SERVER = "kbhub"

Form = Literal["json", "toml", "yaml"]

ClientName = Literal[
    "claude-code", "claude-desktop", "codex", "copilot-cli", "vscode", "vscode-insiders", "cursor", "gemini-cli",
    "antigravity", "opencode", "zed", "devin", "windsurf", "goose", "kiro", "amp", "cline", "lm-studio", "qwen-code",
    "crush", "kilo-code", "continue", "roo-code", "junie", "warp", "factory",
]  # fmt: skip

AnyName = Literal[ClientName, "jetbrains-ai"]


@struct
class Shape:
    """The fields of a server entry."""

    before: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a new entry before the command."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a new entry after the arguments."""
    loaded: Mapping[str, Any] = field(default_factory=dict)
    """Fields with which the client shows the tools to its model, which it else hides until they are searched for."""
    command: str = "command"
    args: str | None = "args"
    """Field for the arguments, or None where the command is a list that includes them."""
    env: str = "env"

    def entry(self, argv: tuple[str, ...]) -> dict[str, Any]:
        """Return a new entry that starts `argv`."""
        return {**self.before, **self.fields(argv), **self.after, **self.loaded}

    def fields(self, argv: tuple[str, ...]) -> dict[str, Any]:
        """Return the fields that hold the command line."""
        if self.args is None:
            return {self.command: list(argv)}
        return {self.command: argv[0], self.args: list(argv[1:])}


@struct
class Client:
    """An MCP client. Paths start with a placeholder from `machine.folders`."""

    name: ClientName
    title: str
    files: tuple[str, ...]
    """The user's file; the first that exists is used, else the last."""
    keys: tuple[str, ...] = ("mcpServers",)
    """Key path of the object that holds the servers."""
    windows: tuple[str, ...] = ()
    """The same on Windows, where it differs."""
    form: Form = "json"
    shape: Shape = Shape()
    programs: tuple[str, ...] = ()
    """Programs on PATH that show that the client is installed."""
    signs: tuple[str, ...] = ()
    """Folders that show the same."""
    project: tuple[str, ...] = ()
    """Files in a project, relative to its root; the first that exists is used, else the last."""
    project_args: tuple[str, ...] = ()
    """Further arguments of `kbhub serve` there."""
    project_shape: Shape | None = None
    """The shape of an entry there, if it is another."""
    skills: str = ""
    subagent: str = ""
    later_keys: tuple[str, ...] = ()
    """Key path of the servers in the client's next major version."""
    hint: str = ""
    """What the user has to do after a change."""
    caveat: str = ""
    """What else may keep the client from starting a registered server."""


_STDIO = Shape(before={"type": "stdio"})
_WITH_ENV = Shape(after={"env": {}})
_CLAUDE = Shape(before={"type": "stdio"}, after={"env": {}}, loaded={"alwaysLoad": True})
_COPILOT = Shape(before={"type": "local"}, after={"env": {}, "tools": ["*"]}, loaded={"deferTools": "never"})
_BOTH = Shape(loaded={**_CLAUDE.loaded, **_COPILOT.loaded})
"""For the file in a project that both read."""
_OPENCODE = Shape(before={"type": "local"}, args=None, env="environment")
_GOOSE = Shape(
    before={"type": "stdio", "enabled": True, "name": SERVER, "description": "Searches your Markdown knowledge"},
    after={"envs": {}, "timeout": 300},  # seconds, as Goose's own form fills in
    command="cmd",
    env="envs",
)
_FACTORY = Shape(before={"type": "stdio"}, after={"disabled": False})  # as `droid mcp add` writes it
_IN_FOLDER = ("--root", "${workspaceFolder}")

CLIENTS: tuple[Client, ...] = (
    Client(
        "claude-code", "Claude Code", ("{claude_file}/.claude.json",), shape=_CLAUDE, programs=("claude",),
        signs=("{claude}",), project=(".mcp.json",), project_shape=_BOTH, skills="{claude}/skills",
        subagent="{claude}/agents/kbhub-researcher.md",
    ),
    Client(
        "claude-desktop", "Claude Desktop", ("{user}/Claude/claude_desktop_config.json",), signs=("{user}/Claude",),
        hint="Quit and restart it. It runs outside any project, so it searches your own bases.",
    ),
    Client(
        "codex", "Codex", ("{codex}/config.toml",), keys=("mcp_servers",), form="toml", programs=("codex",),
        signs=("{codex}",), project=(".codex/config.toml",), skills="{home}/.agents/skills",
        subagent="{codex}/agents/kbhub-researcher.toml",
    ),
    Client(
        "copilot-cli", "Copilot CLI", ("{copilot}/mcp-config.json",), shape=_COPILOT, programs=("copilot",),
        signs=("{copilot}",), project=(".mcp.json",), project_shape=_BOTH, skills="{copilot}/skills",
        subagent="{copilot}/agents/kbhub-researcher.agent.md",
    ),
    Client(
        "vscode", "VS Code", ("{user}/Code/User/mcp.json",), keys=("servers",), shape=_STDIO, programs=("code",),
        signs=("{user}/Code/User",), project=(".vscode/mcp.json",), project_args=_IN_FOLDER,
    ),
    Client(
        "vscode-insiders", "VS Code Insiders", ("{user}/Code - Insiders/User/mcp.json",), keys=("servers",),
        shape=_STDIO, programs=("code-insiders",), signs=("{user}/Code - Insiders/User",),
        project=(".vscode/mcp.json",), project_args=_IN_FOLDER,
    ),
    Client(
        "cursor", "Cursor", ("{home}/.cursor/mcp.json",), programs=("cursor", "cursor-agent"),
        signs=("{home}/.cursor",), project=(".cursor/mcp.json",), subagent="{home}/.cursor/agents/kbhub-researcher.md",
    ),
    Client(
        "gemini-cli", "Gemini CLI", ("{home}/.gemini/settings.json",), programs=("gemini",),
        project=(".gemini/settings.json",),
        caveat="In a folder that it does not trust, Gemini CLI lists the server as disabled; `/permissions` there "
        "trusts the folder.",
        skills="{home}/.agents/skills", subagent="{home}/.gemini/agents/kbhub-researcher.md",
    ),
    Client(
        "antigravity", "Antigravity",
        ("{home}/.gemini/config/mcp_config.json", "{home}/.gemini/antigravity/mcp_config.json"), programs=("agy",),
        signs=("{home}/.gemini/antigravity",),
    ),
    Client(
        "opencode", "opencode", ("{xdg}/opencode/opencode.jsonc", "{xdg}/opencode/opencode.json"), keys=("mcp",),
        shape=_OPENCODE, programs=("opencode",), signs=("{xdg}/opencode",), project=("opencode.jsonc", "opencode.json"),
        skills="{home}/.agents/skills", subagent="{opencode}/agents/kbhub-researcher.md",
        later_keys=("mcp", "servers"),
    ),
    Client(
        "zed", "Zed", ("{xdg}/zed/settings.json",), keys=("context_servers",), windows=("{user}/Zed/settings.json",),
        shape=_WITH_ENV, programs=("zed", "zeditor"), project=(".zed/settings.json",),
    ),
    Client(
        "devin", "Devin Desktop", ("{xdg}/devin/mcp_config.json",), windows=("{user}/devin/mcp_config.json",),
        programs=("devin",), project=(".devin/mcp_config.json",),
    ),
    Client(
        "windsurf", "Windsurf", ("{home}/.codeium/windsurf/mcp_config.json",), programs=("windsurf",),
        signs=("{home}/.codeium/windsurf",),
    ),
    Client(
        "goose", "Goose", ("{xdg}/goose/config.yaml",), keys=("extensions",),
        windows=("{user}/Block/goose/config/config.yaml",), form="yaml", shape=_GOOSE, programs=("goose",),
    ),
    Client(
        "kiro", "Kiro", ("{home}/.kiro/settings/mcp.json",), programs=("kiro", "kiro-cli"), signs=("{home}/.kiro",),
        project=(".kiro/settings/mcp.json",),
    ),
    Client("amp", "Amp", ("{xdg}/amp/settings.json",), keys=("amp.mcpServers",), programs=("amp",)),
    Client(
        "cline", "Cline", ("{user}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",),
        signs=("{user}/Code/User/globalStorage/saoudrizwan.claude-dev",),
    ),
    Client("lm-studio", "LM Studio", ("{home}/.lmstudio/mcp.json",), signs=("{home}/.lmstudio",)),
    Client(
        "qwen-code", "Qwen Code", ("{qwen}/settings.json",), programs=("qwen",), signs=("{qwen}",),
        project=(".qwen/settings.json",), skills="{home}/.agents/skills",
    ),
    Client(
        "crush", "Crush", ("{crush}/crush.json",), keys=("mcp",), shape=_STDIO, programs=("crush",), signs=("{crush}",),
        project=(".crush.json", "crush.json"), skills="{home}/.agents/skills",
    ),
    Client(
        "kilo-code", "Kilo Code", ("{xdg}/kilo/kilo.json", "{xdg}/kilo/kilo.jsonc"), keys=("mcp",), shape=_OPENCODE,
        programs=("kilo", "kilocode"), signs=("{xdg}/kilo",),
        project=("kilo.json", "kilo.jsonc", ".kilo/kilo.json", ".kilo/kilo.jsonc"), skills="{home}/.agents/skills",
    ),
    Client(
        "continue", "Continue", ("{continue}/mcpServers/kbhub.json",), signs=("{continue}",),
        project=(".continue/mcpServers/kbhub.json",),
        hint="The extension reads this file; `cn`, the command line, reads only config.yaml.",
    ),
    Client(
        "roo-code", "Roo Code",
        ("{user}/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",),
        signs=("{user}/Code/User/globalStorage/rooveterinaryinc.roo-cline",), project=(".roo/mcp.json",),
        skills="{home}/.roo/skills",
    ),
    Client(
        "junie", "Junie", ("{home}/.junie/mcp/mcp.json",), programs=("junie",), signs=("{home}/.junie",),
        project=(".junie/mcp/mcp.json",), skills="{home}/.junie/skills",
    ),
    Client(
        "warp", "Warp", ("{home}/.warp/.mcp.json",), programs=("warp-terminal",),
        signs=("{home}/.warp", "{xdg}/warp-terminal"), project=(".warp/.mcp.json",), skills="{home}/.agents/skills",
        hint="Warp starts its servers with the app, not in a project: this one searches your own bases.",
    ),
    Client(
        "factory", "Factory Droid", ("{home}/.factory/mcp.json",), shape=_FACTORY, programs=("droid",),
        signs=("{home}/.factory",), project=(".factory/mcp.json",), skills="{home}/.factory/skills",
    ),
)  # fmt: skip
"""In display order."""


def client_named(name: str) -> Client:
    """Return the client with a name, which must be in `CLIENTS`."""
    return next(client for client in CLIENTS if client.name == name)


@struct
class Machine:
    """A user account on a machine: everything that `CLIENTS` depends on."""

    home: Path
    env: Mapping[str, str]
    platform: str = sys.platform
    """As `sys.platform`; anything but macOS and Windows counts as Linux."""

    def folders(self) -> dict[str, str]:
        """Return the value of each path placeholder; the clients' own environment variables take precedence."""
        env, home = self.env, self.home
        xdg = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
        roaming = env.get("APPDATA") or f"{home}/AppData/Roaming"
        user = {"darwin": f"{home}/Library/Application Support", "win32": roaming}.get(self.platform, xdg)
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
            "opencode": f"{xdg}/opencode",
        }

    def path(self, template: str, root: Path | None = None) -> Path:
        """Return the path a template from `CLIENTS` stands for, for the user or in the project at `root`."""
        folders = replace(self, home=root, env={}).folders() if root else self.folders()
        there = {"copilot": f"{root}/.github", "opencode": f"{root}/.opencode"} if root else {}
        return Path(template.format_map(folders | there))

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
