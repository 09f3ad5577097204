"""Command lines that are answered without the libraries of the command line (cyclopts, rich: 0.2 s).

Only what is plainly right is read here. Everything else, from options in another place to a misspelt one, goes the
ordinary way, which ends in the same place or says what is wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.cli.console import complain
from kbhub.errors import KbhubError
from kbhub.frugality import collect_rarely

if TYPE_CHECKING:
    from collections.abc import Sequence

SEARCH = "search"


def quickly(given: Sequence[str]) -> int | None:
    """Answer a command line, if it can be done at a glance; a foreseen failure is one line on standard error.

    Args:
        given: what follows the program's name.

    Returns:
        The exit code; none if the command line is to be parsed.
    """
    try:
        code = _searched(given) if given[:1] == [SEARCH] else None
        return code if code is not None else _explained(given)
    except KbhubError as error:
        complain(str(error))
        return error.exit_code


def _explained(given: Sequence[str]) -> int | None:
    # What a search does without.
    from kbhub.cli.pages import answered  # noqa: PLC0415

    return answered(given, os.environ)


def _searched(given: Sequence[str]) -> int | None:
    # What a page of help does without.
    from kbhub.cli.search_line import asked  # noqa: PLC0415

    line = asked(given)
    if line is None:
        return None
    collect_rarely()
    # SQLite, pydantic and numpy.
    from kbhub.cli.commands.searching import search  # noqa: PLC0415

    return search(**line)
