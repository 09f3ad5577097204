"""Parse a command line, run its command, say a foreseen failure in one line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from cyclopts import CycloptsError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

from kbhub.cli import declared
from kbhub.cli.app import app
from kbhub.cli.arrangement import FLAGS, VALUES
from kbhub.cli.console import complain
from kbhub.errors import KbhubError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["app", "declared", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run a command; a foreseen failure is one line on standard error.

    Args:
        arguments: what follows the program's name.

    Returns:
        The exit code.
    """
    try:
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


def _usage_text(error: CycloptsError) -> str:
    error.verbose = False  # the verbose text is about our functions
    text = " ".join(str(error).split())
    if isinstance(error, UnusedCliTokensError):
        text = f"Too many arguments: {shlex.join(error.unused_tokens or [])}."
    command = " ".join(("kbhub", *(error.command_chain or ())))
    if isinstance(error, UnknownOptionError) and command in _DASHES:
        text += f" Put {_DASHES[command]} that start with a dash after `--`."
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.unused_tokens[0].startswith("-"):
        option = error.unused_tokens[0]
        common = option.partition("=")[0] in FLAGS | VALUES
        text = f"A command is missing after {option}." if common else f"{option} comes after the command."
    return f"{text} `{command} --help` shows how."
