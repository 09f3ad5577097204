"""The application with its commands: parse a command line, run its command, report expected errors on one line."""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from kbhub import __version__
from kbhub.cli.arguments import FLAGS, GROUPS, VALUES
from kbhub.cli.console import complain
from kbhub.cli.help import HelpColumns
from kbhub.errors import KbhubError, UsageError

if TYPE_CHECKING:
    from cyclopts.argument import Argument


COMMANDS = {
    "ask": ("ask:ask", "[OPTIONS] QUESTION…"),
    "audit": ("upkeep:audit", "[OPTIONS] [BASE…]"),
    "bases list": ("bases:list_", "[OPTIONS]"),
    "bases add": ("bases:add", "[OPTIONS] PATH|ID=PATH"),
    "bases remove": ("bases:remove", "[OPTIONS] ID"),
    "bases rename": ("bases:rename", "[OPTIONS] OLD NEW"),
    "bases show": ("bases:show", "[OPTIONS] ID"),
    "context add": ("bases:add_context", "[OPTIONS] [BASE[/PATH]] TEXT"),
    "context list": ("bases:list_contexts", "[OPTIONS] [BASE[/PATH]]"),
    "context rm": ("bases:remove_context", "[OPTIONS] [BASE[/PATH]]"),
    "ls": ("bases:ls", "[OPTIONS] [BASE[/PATH]]"),
    "cleanup": ("bases:cleanup", "[OPTIONS]"),
    "search": ("search:search", "[OPTIONS] QUERY…"),
    "read": ("basics:read", "[OPTIONS] REF…"),
    "index": ("upkeep:index", "[OPTIONS] [BASE…]"),
    "ui": ("ui:ui", "[OPTIONS]"),
    "status": ("basics:status", "[OPTIONS]"),
    "doctor": ("upkeep:doctor", "[OPTIONS]"),
    "init": ("basics:init", "[OPTIONS]"),
    "trust": ("basics:trust", "[OPTIONS] [POINTER]"),
    "serve": ("daemon:serve", "[OPTIONS]"),
    "stop": ("daemon:stop", "[OPTIONS]"),
    "write": ("edits:write", "[OPTIONS] REF"),
    "delete": ("edits:delete", "[OPTIONS] REF"),
    "restore": ("edits:restore", "[OPTIONS] [NAME]"),
    "rename": ("edits:rename", "[OPTIONS] REF NEW"),
    "eval": ("evaluation:evaluate", "[OPTIONS] [DATASET…]"),
    "related": ("graph:related", "[OPTIONS] REF"),
    "tags": ("graph:tags", "[OPTIONS] [TAG…]"),
    "remember": ("memories:remember", "[OPTIONS] TEXT… | -"),
    "recall": ("memories:recall", "[OPTIONS] QUERY…"),
    "forget": ("memories:forget", "[OPTIONS] [ID…]"),
    "hooks": ("hooks:hooks", "[OPTIONS]"),
    "hook": ("hooks:hook", "EVENT --client NAME"),
    "rerank": ("evaluation:rerank", "[OPTIONS] QUERY FILE…"),
    "embed": ("evaluation:embed", "[OPTIONS] TEXT…"),
    "log show": ("querylog:show", "[OPTIONS]"),
    "log clear": ("querylog:clear", "[OPTIONS]"),
    "gaps": ("querylog:gaps", "[OPTIONS]"),
    "publish": ("team:publish", "[OPTIONS] BASE --to URL"),
    "pull": ("team:pull", "[OPTIONS] URL BASE DIR"),
    "setup": ("setup:setup", "[OPTIONS]"),
    "completion": ("setup:completion", "[OPTIONS] SHELL"),
    "schema": ("setup:schema", "[OPTIONS] [NAME]"),
    "distil": ("edits:distil", "[OPTIONS] MODEL [TEXT]"),
}
"""Command → the function in `commands` that runs it, imported only then, and its usage after the name."""


def _summary(command: str) -> str:
    """Return the first sentence of a command's docstring without importing its module, which would load the search."""
    module, _, function = COMMANDS[command][0].partition(":")
    source = Path(__file__).parent.joinpath("commands", f"{module}.py").read_text("utf-8")
    found = re.search(rf'^def {function}\(.*?"""(.+?)(?:\n\n|""")', source, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


app = App(
    name="kbhub",
    help="Search the Markdown knowledge of a project and your own, from the shell and from coding agents.\n\nRun "
    "`kbhub COMMAND --help` for a command's options and an example. Common options, such as `--root DIR` and "
    "`--json`, may come before or after the command.",
    group_parameters=Group("Options", sort_key=1),
    version=__version__,
    help_format="plaintext",
    help_formatter=HelpColumns(_summary),
    # No `--no-json` and the like: leaving the option out does the same.
    default_parameter=Parameter(negative=(), show_default=False),
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
bases = App(
    name="bases",
    help="List, add, remove and rename your bases, in ~/.kbhub.json.\n\nWithout a command, `list`.",
    usage="kbhub bases [COMMAND]",
)
context = App(
    name="context",
    help="Describe what is where, for people and agents.\n\nWithout a command, `list`.",
    usage="kbhub context [COMMAND]",
)
log = App(
    name="log",
    help="Show or clear the query log of this project. It never leaves this machine.\n\nWithout a command, `show`.",
    usage="kbhub log [COMMAND]",
)


def _register() -> None:
    for words, (function, usage) in COMMANDS.items():
        parent, _, name = words.rpartition(" ")
        group = {"bases": bases, "context": context, "log": log}.get(parent, app)
        if parent and parent not in app:
            app.command(group)
        names = ("rm", "remove") if words == "context rm" else name
        group.command(f"kbhub.cli.commands.{function}", name=names, usage=f"kbhub {words} {usage}")
    app.command(
        "kbhub.cli.commands.memories:memories_app",
        name="memories",
        help="List or search memories; export, import, move and restore them.\n\nExample: kbhub memories --tag deploy",
    )
    app.command(
        "kbhub.cli.commands.team:team_app",
        name="team",
        help="Set up a PostgreSQL database for shared bases, and manage who may use them. Needs kbhub[postgres].",
    )


_register()

_DASHES = {"kbhub search": "words", "kbhub read": "refs"}
"""Commands whose arguments may well begin like options, and what those arguments are."""

MOST_NAMED = 8
"""Commands that are named where one is unknown."""

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
"""Type of an option → what it takes, in words."""


def load(group: App) -> None:
    """Import every command of a group: in a list of commands, cyclopts describes only those that are loaded."""
    for name, command in group.resolved_commands().items():
        if not name.startswith("-"):
            load(command)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; expected errors are printed as one line on standard error."""
    try:
        words = [word for word in arguments if word not in app.help_flags]
        if words and words[0] in GROUPS and (words == ["team"] or words != arguments):
            load(app[words[0]])
        code: int | None = app(arguments)
    except CycloptsError as error:
        complain(_usage_text(error))
        return UsageError.exit_code
    except KbhubError as error:
        complain(str(error))
        return error.exit_code
    return code or 0


def _usage_text(error: CycloptsError) -> str:
    error.verbose = False  # the verbose text is about our functions
    text = _unknown_command(error) if isinstance(error, UnknownCommandError) else " ".join(str(error).split())
    command = " ".join(("kbhub", *(error.command_chain or ())))
    if isinstance(error, MissingArgumentError) and error.argument:
        text = (
            f"{error.keyword} requires a value."
            if error.keyword
            else (f"`{command}` requires {_name(error.argument)}.")
        )
    if isinstance(error, CoercionError) and error.token and (wanted := _NUMBERS.get(error.target_type)):
        text = f'Invalid value "{error.token.value}" for {error.token.keyword}. Expected {wanted}.'
    if isinstance(error, UnusedCliTokensError):
        text = f"Unexpected arguments: {shlex.join(error.unused_tokens or [])}."
    if isinstance(error, UnknownOptionError) and command in _DASHES:
        text = text.removesuffix(" Did you mean -?")  # `-` is standard input, and like any short option
        text += f" Put {_DASHES[command]} that start with a dash after `--`."
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.unused_tokens[0].startswith("-"):
        option = error.unused_tokens[0]
        common = option.partition("=")[0] in FLAGS | VALUES
        text = f"No command after {option}." if common else f"{option} cannot precede a command."
    return f"{text} See `{command} --help`."


def _unknown_command(error: UnknownCommandError) -> str:
    """Return cyclopts' message about an unknown command.

    Cyclopts itself would import the modules of all commands for it.
    """
    word = error.unused_tokens[0] if error.unused_tokens else ""
    names = [name for name in error.app or () if not name.startswith("-")]
    nearest = "".join(f' Did you mean "{name}"?' for name in get_close_matches(word, names, n=1))
    shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else ".")
    return f'Unknown command "{word}".{nearest} Available commands: {shown}'


def _name(argument: Argument) -> str:
    """Return the name of an argument as in its help page."""
    return argument.parameter.metavar or argument.name.strip("-_").upper()
