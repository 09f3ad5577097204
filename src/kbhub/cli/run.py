"""The commands in order; parse a command line, run its command, report expected errors on one line."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from kbhub.cli.app import app
from kbhub.cli.console import complain
from kbhub.cli.pages import HELP_FLAGS
from kbhub.cli.quick import FLAGS, VALUES
from kbhub.errors import KbhubError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts.argument import Argument


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

app.command("kbhub.cli.commands.ask:ask", name="ask", usage="kbhub ask [OPTIONS] QUESTION…")
app.command("kbhub.cli.commands.upkeep:audit", name="audit", usage="kbhub audit [OPTIONS] [BASE…]")
app.command(bases)
app.command(context)
bases.command("kbhub.cli.commands.bases:list_", name="list", usage="kbhub bases list [OPTIONS]")
bases.command("kbhub.cli.commands.bases:add", name="add", usage="kbhub bases add [OPTIONS] PATH|ID=PATH")
bases.command("kbhub.cli.commands.bases:remove", name="remove", usage="kbhub bases remove [OPTIONS] ID")
bases.command("kbhub.cli.commands.bases:rename", name="rename", usage="kbhub bases rename [OPTIONS] OLD NEW")
bases.command("kbhub.cli.commands.bases:show", name="show", usage="kbhub bases show [OPTIONS] ID")
app.command("kbhub.cli.commands.bases:ls", name="ls", usage="kbhub ls [OPTIONS] [BASE[/PATH]]")
context.command(
    "kbhub.cli.commands.bases:add_context", name="add", usage="kbhub context add [OPTIONS] [BASE[/PATH]] TEXT"
)
context.command(
    "kbhub.cli.commands.bases:list_contexts", name="list", usage="kbhub context list [OPTIONS] [BASE[/PATH]]"
)
context.command(
    "kbhub.cli.commands.bases:remove_context", name=("rm", "remove"), usage="kbhub context rm [OPTIONS] [BASE[/PATH]]"
)
app.command("kbhub.cli.commands.bases:cleanup", name="cleanup", usage="kbhub cleanup [OPTIONS]")
app.command("kbhub.cli.commands.search:search", name="search", usage="kbhub search [OPTIONS] QUERY…")
app.command("kbhub.cli.commands.basics:read", name="read", usage="kbhub read [OPTIONS] REF…")
app.command("kbhub.cli.commands.upkeep:index", name="index", usage="kbhub index [OPTIONS] [BASE…]")
app.command("kbhub.cli.commands.ui:ui", name="ui", usage="kbhub ui [OPTIONS]")
app.command("kbhub.cli.commands.basics:status", name="status", usage="kbhub status [OPTIONS]")
app.command("kbhub.cli.commands.upkeep:doctor", name="doctor", usage="kbhub doctor [OPTIONS]")
app.command("kbhub.cli.commands.basics:init", name="init", usage="kbhub init [OPTIONS]")
app.command("kbhub.cli.commands.basics:trust", name="trust", usage="kbhub trust [OPTIONS] [POINTER]")
app.command("kbhub.cli.commands.daemon:serve", name="serve", usage="kbhub serve [OPTIONS]")
app.command("kbhub.cli.commands.daemon:stop", name="stop", usage="kbhub stop [OPTIONS]")
app.command("kbhub.cli.commands.edits:write", name="write", usage="kbhub write [OPTIONS] REF")
app.command("kbhub.cli.commands.edits:delete", name="delete", usage="kbhub delete [OPTIONS] REF")
app.command("kbhub.cli.commands.edits:restore", name="restore", usage="kbhub restore [OPTIONS] [NAME]")
app.command("kbhub.cli.commands.edits:rename", name="rename", usage="kbhub rename [OPTIONS] REF NEW")
app.command("kbhub.cli.commands.evaluation:evaluate", name="eval", usage="kbhub eval [OPTIONS] [DATASET…]")
app.command("kbhub.cli.commands.graph:related", name="related", usage="kbhub related [OPTIONS] REF")
app.command("kbhub.cli.commands.graph:tags", name="tags", usage="kbhub tags [OPTIONS] [TAG…]")
app.command("kbhub.cli.commands.memories:memories_app", name="memories")
app.command("kbhub.cli.commands.memories:remember", name="remember", usage="kbhub remember [OPTIONS] TEXT… | -")
app.command("kbhub.cli.commands.memories:recall", name="recall", usage="kbhub recall [OPTIONS] QUERY…")
app.command("kbhub.cli.commands.memories:forget", name="forget", usage="kbhub forget [OPTIONS] [ID…]")
app.command("kbhub.cli.commands.hooks:hooks", name="hooks", usage="kbhub hooks [OPTIONS]")
app.command("kbhub.cli.commands.hooks:hook", name="hook", usage="kbhub hook EVENT --client NAME")
app.command("kbhub.cli.commands.evaluation:rerank", name="rerank", usage="kbhub rerank [OPTIONS] QUERY FILE…")
app.command("kbhub.cli.commands.evaluation:embed", name="embed", usage="kbhub embed [OPTIONS] TEXT…")
app.command(log)
log.command("kbhub.cli.commands.querylog:show", name="show", usage="kbhub log show [OPTIONS]")
log.command("kbhub.cli.commands.querylog:clear", name="clear", usage="kbhub log clear [OPTIONS]")
app.command("kbhub.cli.commands.querylog:gaps", name="gaps", usage="kbhub gaps [OPTIONS]")
app.command("kbhub.cli.commands.team:publish", name="publish", usage="kbhub publish [OPTIONS] BASE --to URL")
app.command("kbhub.cli.commands.team:pull", name="pull", usage="kbhub pull [OPTIONS] URL BASE DIR")
app.command("kbhub.cli.commands.team:team_app", name="team")
app.command("kbhub.cli.commands.setup:setup", name="setup", usage="kbhub setup [OPTIONS]")
app.command("kbhub.cli.commands.setup:completion", name="completion", usage="kbhub completion [OPTIONS] SHELL")
app.command("kbhub.cli.commands.setup:schema", name="schema", usage="kbhub schema [OPTIONS] [NAME]")
app.command("kbhub.cli.commands.edits:distil", name="distil", usage="kbhub distil [OPTIONS] MODEL [TEXT]")


__all__ = ["app", "run"]

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


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; expected errors are printed as one line on standard error."""
    try:
        if not set(HELP_FLAGS).isdisjoint(arguments):  # and it is none of the pages that are kept
            load(app)
        code: int | None = app(list(arguments))
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
