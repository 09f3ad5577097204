"""What tells agents to search first: lines in AGENTS.md, CLAUDE.md and GEMINI.md, a skill, a subagent, and hooks.

Sources of the hooks: as for `hooks.events`. Copilot CLI reads every file in a folder, so it gets one of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kbhub.errors import ConfigError
from kbhub.hooks.events import BY_PLUGIN, CLIENT_EVENTS, EVENTS, EventName, HookClient
from kbhub.setup.clients import SERVER, Client, Machine, client_named
from kbhub.setup.plan import MAX_BYTES, Action, PlannedStep, Step, planned
from kbhub.setup.registration import data_of, decode, parse
from kbhub.values import struct
from kbhub.workspace import config_edits
from kbhub.workspace.config import BOM
from kbhub.workspace.files import content_of
from kbhub.workspace.formats import INSTRUCTIONS

LINES = (Path(__file__).parent / "skill" / "agents.md").read_text("utf-8").rstrip("\n")

_MARK = re.compile(rb"(?P<start><!-- kbhub:start\b[^>]*-->)|(?P<end><!-- kbhub:end -->)")
_IMPORT = re.compile(rb"^@(?:\./)?AGENTS\.md\s*$", re.MULTILINE)

SKILL = Path(__file__).parent / "skill" / "SKILL.md"

SKILLS = {SERVER: SKILL, "kbhub-wiki": SKILL.with_name("kbhub-wiki.md")}

OPENCODE = SKILL.with_name("opencode.js")
"""Our plugin of opencode, which has these instead of hooks."""

OPENCODE_FILE = "{xdg}/opencode/plugins/kbhub.js"

SUBAGENT = SKILL.with_name("kbhub-researcher.md")
"""The subagent, in the form that most clients take."""

OURS = b"<!-- Written by `kbhub setup --"
"""Marks a skill or a subagent that kbhub may change and delete."""


def agents_tasks(root: Path, machine: Machine, *, remove: bool) -> list[PlannedStep]:
    """Plan to write the lines into the files of a project (its symlinks resolved), or to remove them."""
    present = [root / name for name in INSTRUCTIONS if os.path.lexists(root / name)]
    if not present and not remove:
        present = [root / INSTRUCTIONS[0]]
    tasks: dict[str, PlannedStep] = {}
    for file in present:
        if (real := os.path.realpath(file)) in tasks:
            continue
        step = Step(subject="agents-md", title=file.name, action="delete" if remove else "write", file=file)
        tasks[real] = planned(step, partial(_edited, file=file, remove=remove), machine, within=root)
        before = content_of(file, MAX_BYTES) if tasks[real].do and not remove else None
        there = file.name != INSTRUCTIONS[0] and (file.parent / INSTRUCTIONS[0]).is_file()
        if there and before is not None and _MARK.search(before) is None and _IMPORT.search(before):
            nothing = {"action": "nothing", "notes": (f"It imports {INSTRUCTIONS[0]}.",)}
            tasks[real] = PlannedStep(step.model_copy(update=nothing))
    return list(tasks.values())


def _edited(content: bytes | None, file: Path, *, remove: bool) -> bytes | None:
    """Return the file with the lines up to date, or without them and the newlines around them; None for no file."""
    text = content or b""
    if b"\0" in text:
        raise ConfigError(file, "is not UTF-8 text; it was left unchanged")
    newline = b"\r\n" if b"\r\n" in text else b"\n"
    lines = LINES.encode().replace(b"\n", newline)
    marks = [*_MARK.finditer(text)]
    if not marks and remove:
        return content
    if not marks:  # after a blank line; the file ends with a newline only if it did before
        ended = not text or text.endswith(b"\n")
        return text + newline * (bool(text) + (not ended)) + lines + newline * ended
    if [mark.lastgroup for mark in marks] != ["start", "end"]:
        message = "its kbhub:start and kbhub:end are not a single pair; fix them, the file was left unchanged"
        raise ConfigError(file, message)
    head, tail = text[: marks[0].start()], text[marks[1].end() :]
    if not remove:
        return head + lines + tail
    if not tail:
        return head.removesuffix(newline * 2) or None
    head = head.removesuffix(newline) if head.endswith(newline * 2) else head
    return head + tail.removeprefix(newline) or None


def skill_tasks(clients: Sequence[Client], machine: Machine, *, remove: bool) -> list[PlannedStep]:
    """Plan to write or delete the skills, once per folder of skills even if several clients share it."""
    readers: dict[Path, list[str]] = {}
    for client in clients:
        if client.skills:
            readers.setdefault(machine.path(client.skills), []).append(client.title)
    tasks = []
    for folder, titles in readers.items():
        for name, skill in SKILLS.items():
            title = f"Skill {'' if name == SERVER else f'{name} '}for {', '.join(titles)}"
            file = folder / name / SKILL.name
            tasks.append(_file_task("skill", title, file, skill.read_bytes(), machine, remove=remove))
    return tasks


def subagent_tasks(
    clients: Sequence[Client], machine: Machine, root: Path | None = None, *, remove: bool
) -> list[PlannedStep]:
    """Plan to write or delete the file of the subagent for each client that has such files.

    With the `root` of a project (its symlinks resolved), its files there, and hooks that tell every subagent.
    """
    tasks = hooks_tasks(clients, machine, (SERVER,), root, remove=remove) if root else []
    for client in clients:
        if client.subagent:
            text = SUBAGENT.read_text("utf-8")
            if client.name == "opencode":  # takes the name from that of the file
                text = text.replace("name: kbhub-researcher", "mode: subagent")
            elif client.name == "codex":  # TOML
                _, head, body = text.split("---\n", 2)
                fields = dict(line.split(": ", 1) for line in head.splitlines())
                lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
                text = "\n".join([*lines, f"developer_instructions = '''\n{body.lstrip()}'''", ""])
            title, file = f"Subagent for {client.title}", machine.path(client.subagent, root)
            tasks.append(_file_task("subagent", title, file, text.encode(), machine, root, remove=remove))
    return [task for task in tasks if not remove or task.step.action != "nothing"]


def _file_task(
    subject: str, title: str, file: Path, text: bytes, machine: Machine, root: Path | None = None, *, remove: bool
) -> PlannedStep:
    """Plan to write or delete a file that is all kbhub's, and with it a folder that has nothing else."""

    def change(content: bytes | None) -> bytes | None:
        if content is not None and OURS not in content:
            raise ConfigError(file, "is no longer marked as kbhub's, so it was left unchanged")
        return None if remove else text

    step = Step(subject=subject, title=title, action="delete" if remove else "write", file=file)
    return planned(step, change, machine, within=root, folder=True)


HOOKS = "hooks"

OWN_NAME = "kbhub.json"
"""Name of a file that has no hooks but ours."""

PLUGIN = "kbhub"
"""Name of the plugin, which clients know as `NAME@MARKETPLACE`."""

HOOK_SECONDS = 5
"""Seconds after which a client gives up on a hook; kbhub itself gives up after .4."""

END_SECONDS = 20
"""The same at the end of a session."""

_OURS = re.compile(rf'\bhook (?:{"|".join(EVENTS)}) --client [a-z-]+\s*"')


@struct
class Hooked:
    """How a client's hooks are registered."""

    client: HookClient
    file: str
    """A template, as in `setup.clients`."""
    tools: str = ""
    """Regular expression for the names of the tools that work on files."""
    unit: Literal["s", "ms"] = "s"
    own: bool = False
    """Whether the file is kbhub's alone."""
    plugins: str = ""
    """A template of the client's list of installed plugins, if the file says, too, which are enabled."""
    project: tuple[str, ...] = ()
    """Files in a project that enable and disable plugins there, the most important one last."""
    hint: str = ""


HOOKED: tuple[Hooked, ...] = (
    Hooked(
        "claude-code", "{claude}/settings.json", tools="Read|Edit|MultiEdit|Write|NotebookEdit|Bash",
        plugins="{claude}/plugins/installed_plugins.json",
        project=(".claude/settings.json", ".claude/settings.local.json"),
    ),
    Hooked(
        "codex", "{codex}/hooks.json", tools="Bash|apply_patch|shell|exec_command",
        hint="Codex runs new hooks only after you review them: type `/hooks` in Codex.",
    ),
    Hooked("copilot-cli", f"{{copilot}}/hooks/{OWN_NAME}", tools="bash|view|edit|create|powershell", own=True),
    Hooked(
        "gemini-cli", "{home}/.gemini/settings.json", unit="ms",
        tools="read_file|read_many_files|replace|write_file|run_shell_command",
    ),
)  # fmt: skip


def hooks_tasks(
    clients: Sequence[Client], machine: Machine, argv: Sequence[str], root: Path | None = None, *, remove: bool
) -> list[PlannedStep]:
    """Plan to register or remove the hooks of those clients that have some; `argv` is what starts kbhub.

    In the project at `root`, only the one for subagents. Copilot CLI and VS Code run that of Claude Code there.
    """
    names, tasks = {client.name for client in clients}, list[PlannedStep]()
    if root and not names.isdisjoint(("vscode", "vscode-insiders")):
        names.add("copilot-cli")
    if root and "claude-code" in names and not remove:
        names.discard("copilot-cli")
    for hooked in (one for one in HOOKED if one.client in names):
        file, title = machine.path(hooked.file, root), client_named(hooked.client).title
        wanted = {
            event: _entry(hooked, name, machine, argv)
            for name, event in CLIENT_EVENTS[hooked.client].items()
            if not remove and (root is None or name == "subagent-start")
        }
        if not (wanted or remove):
            continue
        action: Action = "delete" if remove else "write"
        step = Step(subject="hooks", title=f"Hooks for {title}", action=action, file=file)
        change = partial(_with_hooks, file=file, wanted=wanted, own=hooked.own)
        notes = (hooked.hint,) if hooked.hint and not remove else ()
        tasks.append(planned(step, change, machine, within=root, notes=notes, folder=hooked.own))
    if "opencode" in names and root is None:
        text = OPENCODE.read_text("utf-8").replace('["kbhub"]', json.dumps(argv), 1).encode()
        file = machine.path(OPENCODE_FILE)
        tasks.append(_file_task("hooks", "Hooks for opencode", file, text, machine, remove=remove))
    return [task for task in tasks if not remove or task.step.action != "nothing"]


def hooked_clients(machine: Machine, project: Path | None = None) -> tuple[str, ...]:
    """Return the titles of the clients that run kbhub's hooks, such as `Claude Code` or `Claude Code (plugin)`."""
    titles = []
    for hooked in HOOKED:
        file, title = machine.path(hooked.file), client_named(hooked.client).title
        with suppress(ConfigError):
            if _places(content_of(file, MAX_BYTES), file):
                titles.append(title)
        if hooked.plugins:
            enabled = _plugins(file, "enabledPlugins")
            if project is not None:  # its files come with a clone, so there the plugin has to be installed, too
                installed = _plugins(machine.path(hooked.plugins), "plugins")
                for name in hooked.project:
                    here = _plugins(project / name, "enabledPlugins").items()
                    enabled |= {plugin: value for plugin, value in here if value is not True or plugin in installed}
            titles += [f"{title}{BY_PLUGIN}"] if True in enabled.values() else []
    with suppress(ConfigError):
        if OURS in (content_of(machine.path(OPENCODE_FILE), MAX_BYTES) or b""):
            titles.append("opencode")
    return tuple(titles)


def _plugins(file: Path, key: str) -> dict[str, Any]:
    """Return a file's entries for kbhub's plugin, by name with marketplace; empty if it cannot be read."""
    with suppress(ConfigError):
        found = data_of(file).get(key)
        if isinstance(found, dict):
            return {name: value for name, value in found.items() if name.startswith(f"{PLUGIN}@")}
    return {}


def _with_hooks(content: bytes | None, file: Path, wanted: dict[str, Any], *, own: bool) -> bytes | None:
    """Return the file with exactly the wanted hooks, by event, and no empty lists; None if nothing is left."""
    places = _places(content, file)
    if {event: entry for event, _, entry in places} == wanted and len(places) == len(wanted):
        return content
    before = decode(content, file)
    mark, text = BOM * before.startswith(BOM), before.removeprefix(BOM)
    for event, number, _ in reversed(places):
        text = config_edits.remove_value(text, [HOOKS, event, number], file)
        if not parse(text, "json", file)[HOOKS][event]:
            text = config_edits.remove_value(text, [HOOKS, event], file)
    if places and not parse(text, "json", file)[HOOKS]:
        text = config_edits.remove_value(text, [HOOKS], file)
    if places and file.name == OWN_NAME and not parse(text, "json", file).keys() - {"version"}:
        mark = text = ""
    if not wanted:
        return f"{mark}{text}".encode() or None
    if not text.strip():
        text = config_edits.NEW_FILE
    if own and "version" not in parse(text, "json", file):
        text = config_edits.set_value(text, ["version"], 1, file)
    for event, entry in wanted.items():
        text = config_edits.add_item(text, [HOOKS, event], entry, file)
    return f"{mark}{text}".encode()


def _places(content: bytes | None, file: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """Return kbhub's entries in a file: event, place in its list, entry."""
    held = parse(decode(content, file), "json", file).get(HOOKS)
    if held is None:
        return []
    if not isinstance(held, dict):
        raise ConfigError(file, "expected an object; it was left unchanged", HOOKS)
    return [
        (event, number, entry)
        for event, entries in held.items()
        if isinstance(entries, list)
        for number, entry in enumerate(entries)
        if _OURS.search(json.dumps(entry))
    ]


def _entry(hooked: Hooked, name: EventName, machine: Machine, argv: Sequence[str]) -> dict[str, Any]:
    words = [*argv, "hook", name, "--client", hooked.client]
    seconds = END_SECONDS if name == "session-end" else HOOK_SECONDS
    matcher = {"matcher": hooked.tools} if name == "tool" else {}
    if hooked.own:
        line = {"bash": shlex.join(words), "powershell": f"& {subprocess.list2cmdline(words)}"}
        return {"type": "command", **matcher, **line, "timeoutSec": seconds}
    command = subprocess.list2cmdline(words) if machine.platform == "win32" else shlex.join(words)
    timeout = seconds * 1000 if hooked.unit == "ms" else seconds
    named = {"name": f"kbhub {name}"} if hooked.unit == "ms" else {}
    return {**matcher, "hooks": [{"type": "command", **named, "command": command, "timeout": timeout}]}
