"""Parse a command line, run its command, and report expected errors on one line."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from kbhub.cli.arrangement import FLAGS, VALUES
from kbhub.cli.console import complain
from kbhub.cli.pages import HELP_FLAGS
from kbhub.cli.registry import app, load
from kbhub.errors import KbhubError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts.argument import Argument

__all__ = ["app", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run a command; expected errors are printed as one line on standard error.

    Args:
        arguments: the command line arguments.

    Returns:
        The exit code.
    """
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


_DASHES = {"kbhub search": "words", "kbhub read": "refs"}
"""Commands whose arguments may well begin like options, and what those arguments are."""


MOST_NAMED = 8
"""Commands that are named where one is unknown."""

_NUMBERS: dict[object, str] = {int: "a whole number", float: "a number"}
"""Type of an option → what it takes, in words."""


def _usage_text(error: CycloptsError) -> str:
    error.verbose = False  # the verbose text is about our functions
    text = _unknown_command(error) if isinstance(error, UnknownCommandError) else " ".join(str(error).split())
    command = " ".join(("kbhub", *(error.command_chain or ())))
    if isinstance(error, MissingArgumentError) and error.argument:
        text = f"{error.keyword} needs a value." if error.keyword else f"`{command}` needs {_name(error.argument)}."
    if isinstance(error, CoercionError) and error.token and (wanted := _NUMBERS.get(error.target_type)):
        text = f'Invalid value "{error.token.value}" for {error.token.keyword}. Expected {wanted}.'
    if isinstance(error, UnusedCliTokensError):
        text = f"Too many arguments: {shlex.join(error.unused_tokens or [])}."
    if isinstance(error, UnknownOptionError) and command in _DASHES:
        text += f" Put {_DASHES[command]} that start with a dash after `--`."
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.unused_tokens[0].startswith("-"):
        option = error.unused_tokens[0]
        common = option.partition("=")[0] in FLAGS | VALUES
        text = (
            f"A command is missing after {option}."
            if common
            else f"{option} is no common option; others follow a command."
        )
    return f"{text} `{command} --help` shows how."


def _unknown_command(error: UnknownCommandError) -> str:
    """Return what cyclopts says of an unknown command; to say it, cyclopts would import the modules of all commands."""
    word = error.unused_tokens[0] if error.unused_tokens else ""
    names = [name for name in error.app or () if not name.startswith("-")]
    nearest = "".join(f' Did you mean "{name}"?' for name in get_close_matches(word, names, n=1))
    shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else ".")
    return f'Unknown command "{word}".{nearest} Available commands: {shown}'


def _name(argument: Argument) -> str:
    """Return the name of an argument as its page of help has it."""
    return argument.parameter.metavar or argument.name.strip("-_").upper()
