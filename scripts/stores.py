"""Write the files with which catalogues and clients install kbhub: plugins, marketplaces, `server.json`, buttons.

    python scripts/stores.py

All of them are made of four things: the version in `src/kbhub/__init__.py`, the skill and the hooks of `kbhub setup`,
and the texts below. Run it after one of these has changed; `tests/test_stores.py` compares the files with it.

Sources, read in November 2026: code.claude.com/docs (plugins, marketplaces), developers.openai.com/codex/plugins,
docs.github.com (plugin reference of Copilot CLI), geminicli.com/docs/extensions, the schema 2025-12-11 of the MCP
registry, the schema 0.4 in the npm package `@anthropic-ai/mcpb`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import links
from kbhub import __version__
from kbhub.setup.clients import SERVER, Machine, client_named
from kbhub.setup.instructions import SKILLS, SUBAGENT, hooks_tasks
from kbhub.setup.plan import MODE, carry_out

if TYPE_CHECKING:
    from kbhub.setup.clients import ClientName

ROOT = Path(__file__).parent.parent

OWNER = "kbhub"
"""The account that publishes, as in the repository's address; the release workflow refuses another one."""

REGISTRY_NAME = f"io.github.{OWNER}/{SERVER}"
"""The registry lets only the owner of that account publish a server of this name."""

SHORT = "Search the Markdown notes of this project and your own, and remember what you learn"
"""At most 100 characters, which is what the registry takes."""

LONG = (
    "Searches the Markdown you already have by keyword and meaning, answers with sources, and keeps memories. "
    "It runs on your machine; the first search needs no download and no configuration."
)

AUTHOR = {"name": "the kbhub authors"}
KEYWORDS = ["mcp", "knowledge-base", "search", "markdown"]

README_MARK = re.compile(r"<!-- mcp-name: .*? -->")
"""What the registry looks for in the description of the package, as a proof that both have one owner."""

BUTTONS = re.compile(r"^\[!\[Add to Cursor\].*$", re.MULTILINE)
"""The line of a page that has the buttons."""

COMMANDS = {
    "ask": (
        "Answer a question from your notes",
        "[question]",
        f"""\
Answer this question from the user's notes: {{arguments}}

Call the tool `search` of the server `{SERVER}` with the question, `read` what looks right, and answer only from that.
Name the refs that you used. If you find nothing, say so.
""",
    ),
    "remember": (
        "Remember a decision, a pitfall or a convention",
        "[what to remember]",
        f"""\
Remember this for later sessions: {{arguments}}

Check with the tool `memories` of the server `{SERVER}` whether it is already known. If not, call `remember` with a
sentence or two that include the reason. If nothing is given, suggest what you learned in this session that will matter
again, and ask first.
""",
    ),
    "status": (
        "Show which notes are searched, and what is wrong",
        "",
        f"""\
Call the tool `status` of the server `{SERVER}`, and tell the user in a few lines which bases are active, whether their
indexes are fresh, and what is wrong. {{arguments}}

If there is no such server, run `kbhub --version`. If that fails, kbhub is not installed: tell the user to run `uv tool
install kbhub` or `pipx install kbhub` and to restart the client. Otherwise, run `kbhub doctor`.
""",
    ),
}
"""Command → description, hint for its arguments, text; `{arguments}` stands for what the user types after it."""

COMMAND = ("kbhub", "serve", MODE)
LAUNCH = {"command": COMMAND[0], "args": list(COMMAND[1:])}
"""How a plugin starts the server; `docs/explanation/decisions.md` says why not by `uvx`."""

BUNDLED = """\
\"\"\"What a client with bundles starts: the server, for the folder that was chosen at the installation.\"\"\"

import sys

from kbhub.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["serve", "--connect", *sys.argv[1:]]))
"""


def files() -> dict[str, str]:
    """Return path below the repository → text of every file that this script writes."""
    made = {
        **_claude_code(),
        **_codex(),
        **_copilot_cli(),
        **_gemini_cli(),
        **_bundle(),
        "server.json": _json(_registry_entry()),
        **{f"docs/assets/add-to-{client}.svg": links.button(client) for client in links.LINKED},
        **_pages(),
    }
    for plugin in ("claude-code", "codex", "copilot-cli", "gemini-cli"):
        for name, skill in SKILLS.items():
            made[f"plugins/{plugin}/skills/{name}/SKILL.md"] = skill.read_text("utf-8")
    for file in ("claude-code/agents/kbhub-researcher.md", "gemini-cli/agents/kbhub-researcher.md"):
        made[f"plugins/{file}"] = SUBAGENT.read_text("utf-8")
    return made


def _pages() -> dict[str, str]:
    readme, page = ((ROOT / path).read_text("utf-8") for path in ("README.md", "docs/how-to/install.md"))
    readme = README_MARK.sub(f"<!-- mcp-name: {REGISTRY_NAME} -->", readme)
    return {
        "README.md": BUTTONS.sub(links.buttons("docs/assets"), readme),
        "docs/how-to/install.md": BUTTONS.sub(links.buttons("../assets"), page),
    }


def hooks_of(name: ClientName) -> str:
    """Return what `kbhub setup --hooks` writes for a client that has no hooks yet."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        machine = Machine(home, {"KBHUB_DATA_DIR": str(home / "data")}, "linux")
        (task,) = hooks_tasks([client_named(name)], machine, COMMAND[:1], remove=False)
        return carry_out(task).file.read_text("utf-8")


def _loaded(name: ClientName) -> dict[str, Any]:
    """Return the fields with which a client always shows the tools to its model."""
    return dict(client_named(name).shape.loaded)


def _plugin() -> dict[str, Any]:
    return {
        "name": SERVER,
        "version": __version__,
        "description": SHORT,
        "author": AUTHOR,
        "license": "MIT",
        "keywords": KEYWORDS,
    }


def _claude_code() -> dict[str, str]:
    entry = {"name": SERVER, "description": SHORT, "source": "./plugins/claude-code", "category": "productivity"}
    catalogue = {"name": SERVER, "description": LONG, "owner": AUTHOR, "plugins": [entry]}
    return {
        ".claude-plugin/marketplace.json": _json(catalogue),
        "plugins/claude-code/.claude-plugin/plugin.json": _json(_plugin()),
        "plugins/claude-code/.mcp.json": _json({"mcpServers": {SERVER: {**LAUNCH, **_loaded("claude-code")}}}),
        "plugins/claude-code/hooks/hooks.json": hooks_of("claude-code"),
        **_markdown_commands("plugins/claude-code/commands"),
    }


def _codex() -> dict[str, str]:
    entry = {
        "name": SERVER,
        "source": {"source": "local", "path": "./plugins/codex"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }
    parts = {"skills": "./skills/", "mcpServers": "./.mcp.json", "hooks": "./hooks/hooks.json"}
    shown = {
        "displayName": SERVER,
        "shortDescription": SHORT,
        "longDescription": LONG,
        "developerName": AUTHOR["name"],
        "category": "Productivity",
        "defaultPrompt": ["What do my notes say about rolling back a release?"],
    }
    return {
        ".agents/plugins/marketplace.json": _json(
            {"name": SERVER, "interface": {"displayName": SERVER}, "plugins": [entry]}
        ),
        "plugins/codex/.codex-plugin/plugin.json": _json({**_plugin(), **parts, "interface": shown}),
        "plugins/codex/.mcp.json": _json({"mcpServers": {SERVER: LAUNCH}}),
        "plugins/codex/hooks/hooks.json": hooks_of("codex"),
    }


def _copilot_cli() -> dict[str, str]:
    entry = {"name": SERVER, "description": SHORT, "version": __version__, "source": "./plugins/copilot-cli"}
    catalogue = {"name": SERVER, "owner": AUTHOR, "metadata": {"description": LONG}, "plugins": [entry]}
    parts = {"skills": "skills/", "commands": "commands/", "mcpServers": ".mcp.json", "hooks": "hooks.json"}
    return {
        ".github/plugin/marketplace.json": _json(catalogue),
        "plugins/copilot-cli/plugin.json": _json({**_plugin(), **parts}),
        "plugins/copilot-cli/.mcp.json": _json({"mcpServers": {SERVER: {**LAUNCH, **_loaded("copilot-cli")}}}),
        "plugins/copilot-cli/hooks.json": hooks_of("copilot-cli"),
        **_markdown_commands("plugins/copilot-cli/commands"),
    }


def _gemini_cli() -> dict[str, str]:
    manifest = {"name": SERVER, "version": __version__, "description": SHORT, "mcpServers": {SERVER: LAUNCH}}
    made = {
        "plugins/gemini-cli/gemini-extension.json": _json(manifest),
        "plugins/gemini-cli/hooks/hooks.json": hooks_of("gemini-cli"),
    }
    for name, (description, _, text) in COMMANDS.items():
        prompt = text.replace("{arguments}", "{{args}}")
        made[f"plugins/gemini-cli/commands/{SERVER}/{name}.toml"] = (
            f'description = "{description}"\nprompt = """\n{prompt}"""\n'
        )
    return made


def _bundle() -> dict[str, str]:
    folder = {
        "type": "directory",
        "title": "Folder with your notes",
        "description": "Its Markdown is searched, folders in it too. Nothing in it is changed.",
        "required": True,
    }
    arguments = ["run", "--directory", "${__dirname}", "server.py", "--base", "notes=${user_config.notes}"]
    manifest = {
        "manifest_version": "0.4",
        "name": SERVER,
        "display_name": SERVER,
        "version": __version__,
        "description": SHORT,
        "long_description": LONG,
        "author": AUTHOR,
        "license": "MIT",
        "keywords": KEYWORDS,
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {"command": "uv", "args": arguments},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "user_config": {"notes": folder},
        "compatibility": {"platforms": ["darwin", "win32", "linux"], "runtimes": {"python": ">=3.11"}},
    }
    project = (
        f'[project]\nname = "{SERVER}-bundle"\nversion = "{__version__}"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["{SERVER}=={__version__}"]\n'
    )
    return {
        "plugins/bundle/manifest.json": _json(manifest),
        "plugins/bundle/pyproject.toml": project,
        "plugins/bundle/server.py": BUNDLED,
    }


def _registry_entry() -> dict[str, Any]:
    package = {
        "registryType": "pypi",
        "identifier": SERVER,
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": word} for word in COMMAND[1:]],
        "environmentVariables": [
            {
                "name": "KBHUB_BASES",
                "description": "Folders to search in every project, as ID=DIR, separated as in PATH",
                "placeholder": "notes=~/notes",
            }
        ],
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": SERVER,
        "description": SHORT,
        "version": __version__,
        "packages": [package],
    }


def _markdown_commands(folder: str) -> dict[str, str]:
    made = {}
    for name, (description, hint, text) in COMMANDS.items():
        hinted = f'argument-hint: "{hint}"\n' if hint else ""
        prompt = text.replace("{arguments}", "$ARGUMENTS")
        made[f"{folder}/{name}.md"] = f"---\ndescription: {description}\n{hinted}---\n\n{prompt}"
    return made


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write what has changed, and name it."""
    for path, text in files().items():
        file = ROOT / path
        if not file.is_file() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8", newline="\n")
            sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
