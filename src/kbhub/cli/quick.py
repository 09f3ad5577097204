"""Command lines that are answered without the libraries of the command line (cyclopts, rich): help and version.

Everything else goes the ordinary way, which does it or says what is wrong.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kbhub.cli.console import complain
from kbhub.cli.pages import answered
from kbhub.errors import KbhubError

if TYPE_CHECKING:
    from collections.abc import Sequence


def quickly(given: Sequence[str]) -> int | None:
    """Answer a command line that asks for help or the version; a foreseen failure is one line on standard error.

    Args:
        given: what follows the program's name.

    Returns:
        The exit code; none if the command line is to be parsed.
    """
    try:
        return answered(given, os.environ)
    except KbhubError as error:
        complain(str(error))
        return error.exit_code
