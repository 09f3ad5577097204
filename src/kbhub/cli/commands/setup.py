"""Registering kbhub with agents, and what shells and editors need: setup, completion, schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from kbhub.cli.app import app, confirmed, page, wants_colour
from kbhub.cli.options import RARE, Common, Exact, Reply, command, hub_options
from kbhub.errors import KbhubError, UsageError
from kbhub.frozen import Model
from kbhub.hooks.events import CLIENTS as HOOK_CLIENTS
from kbhub.hub import Hub
from kbhub.render.setup import question, setup_report
from kbhub.render.terminal import json_escaped
from kbhub.render.terminal import text as text_of
from kbhub.setup.clients import CLIENTS, SERVER, AnyName, Client, Machine
from kbhub.setup.found import add_found, found
from kbhub.setup.instructions import agents_tasks, hooks_tasks, skill_tasks, subagent_tasks
from kbhub.setup.plan import MODE, PlannedStep, SetupReport, carry_out, launch, pastes, this_installation
from kbhub.setup.registration import SERVE, chosen_clients, client_tasks, registrations, without_project_file
from kbhub.workspace.discovery import find_workspace
from kbhub.workspace.files import WORKING_DIRECTORY_GONE, working_directory
from kbhub.workspace.project import required
from kbhub.workspace.validation import schema_file, schema_files

NO_CLIENT = "No MCP client found on this machine. Name one: `kbhub setup --client NAME`; `--help` lists them."
FOUND_QUESTION = "Search what your agents keep of this project, too, only here ({})? `kbhub base add --found` does."
NO_SKILL = "None of these clients reads skills; `kbhub setup --agents-md` names the command in a project's AGENTS.md."
REGISTERED = "The server is still registered; `kbhub setup --remove {}` removes it, with hooks and subagents."
NOTHING = "{} has no {} that kbhub can write."
ASK_FIRST = "This changes files, and there is no terminal to ask on. Run it with --yes, or preview it with --dry-run."
SPEAK = (
    "Hooks deliver only memories that you wrote, until you allow a project's notes with `kbhub base trust --documents`."
)
HOOKS_QUESTION = "Register hooks, too, which give agents the notes that matter for a prompt or a file?"
SUBAGENT_QUESTION = "Write {} so that subagents search here, too?"


@command(colour=True)
def setup(
    *,
    client: Annotated[tuple[AnyName, ...], Parameter(metavar="NAME")] = (),
    project: bool = False,
    agents_md: bool = False,
    skill: bool = False,
    subagent: Annotated[bool | None, Parameter(negative="--no-subagent")] = None,
    hooks: Annotated[bool | None, Parameter(negative="--no-hooks")] = None,
    own_process: Annotated[bool, Parameter(group=RARE)] = False,
    no_server: Annotated[bool, Parameter(group=RARE)] = False,
    remove: bool = False,
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"))] = False,
    common: Common,
) -> Reply:
    """Register kbhub with the coding agents on this machine.

    Other MCP clients are registered, too. Shows the changes and asks before making them. Edits each client's file after
    making a copy, and preserves everything that is not kbhub's. With --agents-md, --skill or --subagent but neither
    --client nor --project, does only that.

    Example: kbhub setup --dry-run

    Args:
        client: This client, found or not; may be repeated. For jetbrains-ai, print what to paste.
        project: Write files into the project instead (.mcp.json, .vscode/mcp.json …), for a team to share.
        agents_md: Add lines to the project's AGENTS.md, CLAUDE.md and GEMINI.md that make agents search first.
        skill: Install skills to search and to ingest sources, in clients that support skills.
        subagent: Install the subagent kbhub-researcher, which searches, reads and answers with refs; with --project,
            into the project, with a hook for subagents. Without this option, kbhub asks you.
        hooks: Register hooks, which give agents the notes that matter for a prompt or a file. Without this option,
            kbhub asks you.
        own_process: Give each window a server of its own, instead of one process for all (`serve --connect`).
        no_server: Install the skills alone, which tell agents to use the command; register no server.
        remove: Undo what the same options set up or, without any, what all of them did here.
        dry_run: Show the changes without making them.
        yes: Skip the confirmation prompt.

    Returns:
        The exit code: 1 if something failed or no client was found, 2 if there is no terminal to ask on.
    """
    if no_server and own_process:
        raise UsageError("--no-server and --own-process cannot be used together: without a server there is no process.")
    if project and hooks and not remove:
        raise UsageError("--project and --hooks cannot be used together: hooks are registered for you alone.")
    machine = Machine(Path.home(), dict(os.environ))
    tasks, notes = list[PlannedStep](), tuple[str, ...]()
    chosen, how = chosen_clients(machine, client), launch(this_installation(), machine)
    serve, root = (SERVE,) if own_process else (SERVE, MODE), _project(common, machine) if project else None
    by_hand = () if no_server else pastes(client, (*how.argv, *serve), remove=remove)
    if not no_server and (client or project or not (agents_md or skill or subagent)):
        if root:
            sharing = chosen_clients(machine, client, root) if remove else chosen
            tasks += client_tasks(sharing, machine, (SERVER, *serve), root, remove=remove)
            if client or not tasks:  # else nobody asked for those that have none
                notes = without_project_file(sharing, remove=remove)
        else:
            notes = (how.note,) if how.note and (chosen or by_hand) and not remove else ()
            tasks += client_tasks(chosen, machine, (*how.argv, *serve), remove=remove)
            asking = hooks is None and not (yes or dry_run)
            if remove and hooks is not False:  # first, as what was done last is undone first; of clients gone, too
                tasks[:0] = hooks_tasks(chosen if client else CLIENTS, machine, how.argv, remove=True)
            elif hooks or (asking and any(one.name in HOOK_CLIENTS for one in chosen) and confirmed(HOOKS_QUESTION)):
                tasks += (hooking := hooks_tasks(chosen, machine, how.argv, remove=False))
                notes += (SPEAK,) if hooking else ()
            if (chosen or by_hand) and subagent is None and not (remove or yes or dry_run):
                tasks += _offered(chosen, machine, common, lines=not agents_md and SPEAK not in notes)
        if remove and subagent is None:
            tasks += subagent_tasks(chosen if client else CLIENTS, machine, root, remove=True)
        if remove and not client:  # what other options wrote goes, too
            left = [] if project or skill else skill_tasks(CLIENTS, machine, remove=True)
            left += [] if agents_md else _lines(common, machine, remove=True)
            tasks += [task for task in left if task.step.action != "nothing"]
        notes = notes if notes or tasks or by_hand else (NO_CLIENT,)
    elif hooks:
        tasks += hooks_tasks(chosen, machine, how.argv, remove=remove)
    if skill or no_server:
        tasks += skill_tasks(chosen, machine, remove=remove)
        notes += () if tasks else (NO_SKILL,)
    there = {one.client.name for one in registrations(machine)} if no_server and not remove else set()
    if still := " ".join(f"--client {one.name}" for one in chosen if one.name in there):
        notes += (REGISTERED.format(still),)
    if subagent:
        tasks += subagent_tasks(chosen, machine, root, remove=remove)
    if agents_md:
        tasks += agents_tasks(_project(common, machine), machine, remove=remove)
    subjects = {task.step.subject for task in tasks}
    if hooks and not remove and (client or "hooks" not in subjects):
        notes += tuple(NOTHING.format(one.title, "hooks") for one in chosen if one.name not in HOOK_CLIENTS)
    if subagent and not remove and (client or "subagent" not in subjects):
        notes += tuple(NOTHING.format(one.title, "subagents") for one in chosen if not one.subagent)
    if not (tasks or notes or by_hand or chosen):
        notes = (NO_CLIENT,)
    steps, changes = tuple(task.step for task in tasks), not dry_run and any(task.do for task in tasks)
    if changes and not yes:
        text = text_of(setup_report(steps, (), Path.home()), colour=wants_colour(sys.stderr))
        if not sys.stdin.isatty():
            page("" if common.json else text, pager=False)
            raise UsageError(ASK_FIRST)
        if not confirmed(f"{text}\n\n{question(steps)}"):
            return Reply(hints=("Nothing was changed.",), code=1)
    steps = tuple(carry_out(task) for task in tasks) if changes else steps
    if not yes and any((step.action, step.state) == ("register", "done") for step in steps):
        notes += _searched(common)
    said = setup_report(steps, by_hand, Path.home(), done=not dry_run)
    code = 1 if any(step.state == "failed" for step in steps) or not (steps or by_hand) else 0
    return Reply(SetupReport(dry_run=dry_run, steps=steps, pastes=by_hand, notes=notes), said, notes=notes, code=code)


def _searched(common: Common) -> tuple[str, ...]:
    """Ask, where kbhub is new, whether to search what clients keep of this project, and return the added bases."""
    hub, names = Hub(hub_options(common)), ""
    with suppress(KbhubError):
        names = ", ".join(found(hub))
    if not names or not confirmed(FOUND_QUESTION.format(names)):
        return ()
    return tuple(f"Added the base {base.id}: {base.path}." for base in add_found(hub).bases)


def _lines(common: Common, machine: Machine, *, remove: bool) -> list[PlannedStep]:
    """Plan to write the lines into this project's files, or to remove them; no steps if there is no project."""
    with suppress(UsageError):
        return agents_tasks(_project(common, machine), machine, remove=remove)
    return []


def _offered(chosen: Sequence[Client], machine: Machine, common: Common, *, lines: bool) -> list[PlannedStep]:
    """Ask whether subagents are to know of kbhub, and return the steps; none if there is nothing to do."""
    tasks, told = subagent_tasks(chosen, machine, remove=False), _lines(common, machine, remove=False) if lines else []
    what = ["a subagent"] if any(task.do for task in tasks) else []
    files = ", ".join(task.step.title for task in told if task.do)
    what += [f"some lines in this project's {files}"] if files else []
    return [*tasks, *told] if what and confirmed(SUBAGENT_QUESTION.format(" and ".join(what))) else []


def _project(common: Common, machine: Machine) -> Path:
    """Return the folder of the project: its git root or, without one, the workspace directory."""
    cwd = working_directory()
    if cwd is None and common.root is None:
        raise UsageError(WORKING_DIRECTORY_GONE)
    workspace = find_workspace(
        root=common.root, env=machine.env, cwd=cwd or Path(os.sep), home=machine.home, serve=False
    )
    return required(workspace.root)


class CompletionResult(Model):
    """What `kbhub dev completion` made."""

    shell: str = Field(description="Which shell it is for.")
    script: str = Field(description="The script.")


class SchemaEntry(Model):
    """A schema."""

    name: str = Field(description="Its name.")
    path: str = Field(description="Its file.")
    description: str = Field(description="What it describes.")


class SchemaList(Model):
    """All schemas."""

    schemas: tuple[SchemaEntry, ...] = Field((), description="Those of files first, then those of tools.")


@command(lambda made: Exact(made.script))
def completion(shell: Literal["bash", "zsh", "fish", "powershell"], /) -> CompletionResult:
    """Print the shell completion script for bash, zsh or fish.

    Save it where the shell looks for completions: for bash, ~/.local/share/bash-completion/completions/kbhub; for zsh,
    _kbhub in a folder of fpath; for fish, ~/.config/fish/completions/kbhub.fish. Regenerate it after an upgrade.

    Example: kbhub dev completion bash

    Args:
        shell: The shell.
    """
    return CompletionResult(shell=shell, script=app.generate_completion(prog_name="kbhub", shell=shell))


@command()
def schema(name: str | None = None, /, *, path: bool = False) -> Reply:
    """Print the JSON Schema of the global config, a pointer, a memory, or the input or output of a tool.

    Without NAME, list the schemas. Use the path that --path prints as "$schema" in a config, so that editors complete
    and check it offline.

    Example: kbhub dev schema config --path

    Args:
        name: config, pointer, memory, or a tool with .input or .output, such as search.input.
        path: Print the path of the schema file instead of its content.
    """
    if name is None:
        entries = tuple(_entry(name, file) for name, file in schema_files().items())
        width = max((len(entry.name) for entry in entries), default=0)
        lines = [f"{one.name.ljust(width)}  {one.description.partition('. ')[0].rstrip('.')}" for one in entries]
        listed = Exact("".join(f"{line}\n" for line in ([entry.path for entry in entries] if path else lines)))
        return Reply(SchemaList(schemas=entries), listed)
    file = schema_file(name)
    if path:
        return Reply(_entry(name, file), Exact(f"{file}\n"))
    return Reply(text=Exact(json_escaped(file.read_text("utf-8"))))


def _entry(name: str, file: Path) -> SchemaEntry:
    return SchemaEntry(name=name, path=str(file), description=json.loads(file.read_text("utf-8"))["description"])
