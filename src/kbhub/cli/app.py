"""The application with its commands and help; run a command line, and report expected errors on one line."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from kbhub.cli import FLAGS, GROUPS, VALUES
from kbhub.cli.console import complain
from kbhub.errors import KbhubError, UsageError

if TYPE_CHECKING:
    from cyclopts.argument import Argument
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDEST_NAMES = 26
"""Maximum width of the column of names; the description of a longer name starts on the next line."""

WIDEST_LINE = 100
"""Maximum width of a line, for readability."""

_INDENT = 2
_SPACE_BESIDE = 20
"""Minimum width of the descriptions."""

UNBROKEN = 10_000
"""Line width that keeps rich from wrapping, longer than any description."""


class HelpColumns:
    """Help formatter for cyclopts; `summary` returns that of a command whose module is not loaded."""

    def __init__(self, summary: Callable[[str], str]) -> None:
        self._summary = summary

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG002
        """Print a group of commands, arguments or options."""
        if panel.entries:
            entries = [(_names(entry), _description(console, entry)) for entry in panel.entries]
            entries = [(names, about or self._summary(names)) for names, about in entries]
            _print(console, _panel_text(str(panel.title), entries, console.width))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:  # noqa: ARG002
        """Print the usage line."""
        _print(console, f"Usage: {_plain(console, usage).removeprefix('Usage: ')}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:  # noqa: ARG002
        """Print the description of a command, each paragraph wrapped to the width."""
        paragraphs = [" ".join(paragraph.split()) for paragraph in _plain(console, description).split("\n\n")]
        filled = [_filled(text, min(console.width, WIDEST_LINE)) for text in paragraphs if text]
        _print(console, "\n\n".join(filled) + "\n")


def _filled(text: str, width: int, first: str = "", rest: str = "") -> str:
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.fill(text)


def _names(entry: HelpEntry) -> str:
    names = ", ".join(entry.display_labels)
    value = "" if entry.choices or not entry.metavar or entry.positional_label else f" {entry.metavar.rstrip('.')}"
    return names + value


def _description(console: Console, entry: HelpEntry) -> str:
    parts = [_plain(console, entry.description)]
    if entry.choices:
        parts.append(f"({', '.join(entry.choices)})")
    return " ".join(part for part in parts if part)


def _plain(console: Console, text: Any) -> str:
    """Return a text or rich renderable from cyclopts without styles and wrapping."""
    if text is None or isinstance(text, str):
        return (text or "").strip()
    options = console.options.update(width=UNBROKEN)
    return "".join(segment.text for segment in console.render(text, options)).strip()


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _panel_text(title: str, entries: Sequence[Sequence[str]], width: int) -> str:
    """Lay out one group of commands, arguments or options: names and description of each."""
    column = min(max(len(names) for names, _ in entries), WIDEST_NAMES) + 2 * _INDENT
    lines = [f"{title}:"]
    for names, description in entries:
        opening = f"{' ' * _INDENT}{names}"
        if len(opening) > column - _INDENT:
            lines.append(opening)
            opening = ""
        widest = max(min(width, WIDEST_LINE), column + _SPACE_BESIDE)
        text = _filled(description, widest, opening.ljust(column), " " * column)
        lines.append(text or opening)
    return "\n".join(lines) + "\n"


COMMANDS = {
    "ask": ("basics:ask", "[OPTIONS] QUESTION…"),
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
    "write": ("documents:write", "[OPTIONS] REF"),
    "delete": ("documents:delete", "[OPTIONS] REF"),
    "restore": ("documents:restore", "[OPTIONS] [NAME]"),
    "rename": ("documents:rename", "[OPTIONS] REF NEW"),
    "eval": ("evaluation:evaluate", "[OPTIONS] [DATASET…]"),
    "related": ("documents:related", "[OPTIONS] REF"),
    "tags": ("documents:tags", "[OPTIONS] [TAG…]"),
    "remember": ("memories:remember", "[OPTIONS] TEXT… | -"),
    "recall": ("memories:recall", "[OPTIONS] QUERY…"),
    "forget": ("memories:forget", "[OPTIONS] [ID…]"),
    "hooks": ("memories:hooks", "[OPTIONS]"),
    "hook": ("memories:hook", "EVENT --client NAME"),
    "rerank": ("evaluation:rerank", "[OPTIONS] QUERY FILE…"),
    "embed": ("evaluation:embed", "[OPTIONS] TEXT…"),
    "log show": ("upkeep:show", "[OPTIONS]"),
    "log clear": ("upkeep:clear", "[OPTIONS]"),
    "gaps": ("upkeep:gaps", "[OPTIONS]"),
    "publish": ("team:publish", "[OPTIONS] BASE --to URL"),
    "pull": ("team:pull", "[OPTIONS] URL BASE DIR"),
    "team init": ("team:team_init", "[OPTIONS] [URL]"),
    "team grant": ("team:team_grant", "[OPTIONS] URL ROLE RIGHTS"),
    "team revoke": ("team:team_revoke", "[OPTIONS] URL ROLE"),
    "team list": ("team:team_list", "[OPTIONS] URL"),
    "setup": ("setup:setup", "[OPTIONS]"),
    "completion": ("setup:completion", "[OPTIONS] SHELL"),
    "schema": ("setup:schema", "[OPTIONS] [NAME]"),
    "distil": ("documents:distil", "[OPTIONS] MODEL [TEXT]"),
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
_ABOUT = {
    "bases": ("List, add, remove and rename your bases, in ~/.kbhub.json.\n\nWithout a command, `list`.", "[COMMAND]"),
    "context": ("Describe what is where, for people and agents.\n\nWithout a command, `list`.", "[COMMAND]"),
    "log": (
        "Show or clear the query log of this project. It never leaves this machine.\n\nWithout a command, `show`.",
        "[COMMAND]",
    ),
    "team": (
        "Set up a PostgreSQL database for shared bases, and manage who may use them. Needs kbhub[postgres].",
        "COMMAND",
    ),
}
"""Group of commands → its help, and its usage after the name."""


def _register() -> None:
    groups = {
        name: App(name=name, help=about, usage=f"kbhub {name} {usage}") for name, (about, usage) in _ABOUT.items()
    }
    for words, (function, usage) in COMMANDS.items():
        parent, _, name = words.rpartition(" ")
        if parent and parent not in app:
            app.command(groups[parent])
        names = ("rm", "remove") if words == "context rm" else name
        groups.get(parent, app).command(f"kbhub.cli.commands.{function}", name=names, usage=f"kbhub {words} {usage}")
    app.command(
        "kbhub.cli.commands.memories:memories_app",
        name="memories",
        help="List or search memories; export, import, move and restore them.\n\nExample: kbhub memories --tag deploy",
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
