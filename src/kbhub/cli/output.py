"""Print results in the selected format, with a pager for long text on a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from kbhub.cli.console import show, show_json, terminal_width
from kbhub.render import formats as listings
from kbhub.render.layout import fitted
from kbhub.render.words import neutralised

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbhub.cli.options import Tables
    from kbhub.render.formats import Listing


PAGER = "less"
"""The default if PAGER is not set."""

LESS_OPTIONS = "FRX"
"""Default options of `less`: quit if the text fits on a screen, show colours, keep the screen."""

SHELL = "/bin/sh"

SHELL_SIGNS = frozenset("|&;<>()$`")
"""Characters for which PAGER needs a shell; some editors set it to `head -n 10000 | cat` for agents."""


def present(
    formats: Tables,
    listing: Callable[[], Listing],
    text: Callable[[], str],
    *,
    document: str | Callable[[], str] | None = None,
) -> None:
    """Print results in the selected format.

    `listing` returns them as flat records, for all formats but text; `text` returns them for a person. `document` is,
    or returns, their JSON if it contains more than the flat records. Raises `UsageError` if two formats are selected,
    or one that does not fit these results.
    """
    form = formats.format()
    if form == "text":
        page(text(), pager=not formats.no_pager)
    elif form == "json":
        whole = document() if callable(document) else document
        show_json(whole if whole is not None else listings.formatted(listing(), form))
    else:
        written = listings.formatted(listing(), form)
        # Files get the original text, but terminals must not get its control characters.
        show(neutralised(written) if sys.stdout.isatty() else written)


def page(text: str, *, pager: bool = True) -> None:
    """Print neutralised text; on a terminal, wrapped and, if longer than the screen, in the user's pager."""
    width = terminal_width()
    if width is not None:
        text = fitted(text, width)
    command = _pager() if pager and _is_longer_than_screen(text) else None
    if command is None:
        show(text)
        return
    sys.stdout.flush()
    environment = {"LESS": LESS_OPTIONS, **os.environ}
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:  # noqa: S603 - the user's own
            _feed(process, text)
    except OSError:
        show(text)


def _feed(process: subprocess.Popen[bytes], text: str) -> None:
    """Write to a pager, which may quit early and handles Ctrl-C itself."""
    while True:
        try:
            process.communicate(f"{text}\n".encode("utf-8", "backslashreplace"))
        except BrokenPipeError:
            pass
        except KeyboardInterrupt:
            continue
        return


def _is_longer_than_screen(text: str) -> bool:
    # Standard input must be a terminal, too: a pager would block a script that pipes into kbhub.
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    size = shutil.get_terminal_size()
    rows = sum(1 + max(0, len(line) - 1) // max(1, size.columns) for line in text.splitlines())
    return rows >= size.lines


def _pager() -> list[str] | None:
    """Return the command of the user's pager; None if there is none or it only prints."""
    named = os.environ.get("PAGER", PAGER)
    try:
        words = shlex.split(named)
    except ValueError:
        return None
    program = shutil.which(words[0]) if words else None
    # A program of the working directory came with a clone.
    if program is None or not os.path.isabs(program) or words == ["cat"]:  # noqa: PTH117
        return None
    if SHELL_SIGNS.isdisjoint(named):
        return [program, *words[1:]]
    return [SHELL, "-c", named] if os.name == "posix" else None
