"""Print what a command lists in the format that was asked for; long text page by page in a terminal."""

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
from kbhub.render.plain import neutralised

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbhub.cli.options import Tables
    from kbhub.render.formats import Listing

PAGER = "less"
"""What shows pages where PAGER names nothing."""

LESS_OPTIONS = "FRX"
"""For a `less` that has no options of the user's: leave at once if all fits, show colours, keep the screen."""

SHELL = "/bin/sh"
SHELL_SIGNS = frozenset("|&;<>()$`")
"""What makes a PAGER a line for the shell: editors set `head -n 10000 | cat`, so that no agent waits for a key."""


def present(
    formats: Tables,
    listing: Callable[[], Listing],
    text: Callable[[], str],
    *,
    document: str | Callable[[], str] | None = None,
) -> None:
    """Print results in the format that was asked for.

    Args:
        formats: the options of the command.
        listing: gives the results as flat records, for every format but text.
        text: gives them for a person.
        document: JSON of them, or what gives it, where it says more than flat records do.

    Raises:
        UsageError: two formats are asked for, or one that these results do not have.
    """
    form = formats.format()
    if form == "text":
        page(text(), pager=not formats.no_pager)
    elif form == "json":
        whole = document() if callable(document) else document
        show_json(whole if whole is not None else listings.formatted(listing(), form))
    else:
        written = listings.formatted(listing(), form)
        # A file gets what the documents say; a terminal would act upon some of it.
        show(neutralised(written) if sys.stdout.isatty() else written)


def page(text: str, *, pager: bool = True) -> None:
    """Print text; in a terminal, broken to its width, and with the user's pager if it does not fit on it.

    Args:
        text: made harmless for a terminal.
        pager: whether a pager may be used.
    """
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
    """Write to a pager, which may be left before the end, and which Ctrl-C is meant for."""
    while True:
        try:
            process.communicate(f"{text}\n".encode("utf-8", "backslashreplace"))
        except BrokenPipeError:
            pass
        except KeyboardInterrupt:
            continue
        return


def _is_longer_than_screen(text: str) -> bool:
    # Standard input, too: a pager asks the terminal, and a script that pipes into us waits for no key.
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
