"""Print results on standard output, long ones in a pager, and everything else on standard error."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from kbhub.cli import UNWRITTEN
from kbhub.errors import KbhubError
from kbhub.render.terminal import fitted, json_escaped, visible_line, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

MESSAGE_CHARACTERS = 2_000
"""Maximum length of a message, a screenful; it may quote paths of up to 4,096 characters and arguments of 131,072."""

DUMB = ("dumb", "unknown")

USUAL_WIDTH = 80

PATIENCE_SECONDS = 0.2
"""Delay before a progress bar appears, so that it does not flicker."""


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Return whether to use colours: by `NO_COLOR`, then `FORCE_COLOR`, then whether the stream is a terminal.

    Both variables apply unless empty (no-color.org, force-color.org).
    """
    if env.get("NO_COLOR"):
        return False
    return bool(env.get("FORCE_COLOR")) or (stream.isatty() and env.get("TERM") != "dumb")


def line_width() -> int:
    """Return the columns of the terminal, as `COLUMNS` or standard output have them."""
    columns = shutil.get_terminal_size((USUAL_WIDTH, 0)).columns
    return columns - (os.name == "nt")  # an old console there ends a full line by itself


def terminal_width() -> int | None:
    """Return the columns of the terminal that shows the results; None if there is none or it is dumb."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in DUMB:
        return None
    return line_width()


def show_text(text: str) -> None:
    """Print a result for a person, wrapped to the width of a terminal."""
    width = terminal_width()
    show(text if width is None else fitted(text, width))


def show(text: str) -> None:
    """Print a result, adding a newline if it is missing."""
    if text:
        write_verbatim(text if text.endswith("\n") else f"{text}\n")


def write_verbatim(text: str) -> None:
    """Print a result exactly, without adding a newline."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise KbhubError(UNWRITTEN.format(error.strerror)) from error


def show_json(document: str) -> None:
    """Print a JSON document, escaping the characters that a terminal would act upon."""
    show(json_escaped(document))


def complain(message: str) -> None:
    """Print a message on one line of standard error; on a terminal, wrapped at words."""
    # What is printed may quote a file; results must come before what is said about them.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:  # said at the end, if this is not the message that says so
        pass
    line = f"kbhub: {visible_line(shortened(message))}"
    if sys.stderr.isatty():
        line = "\n  ".join(wrapped(line, line_width() - len("  ")))
    sys.stderr.write(f"{line}\n")


def confirmed(question: str) -> bool:
    """Ask on standard error; `False` unless the answer is yes, or if there is no terminal to ask on."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def shortened(message: str) -> str:
    """Return a message without its middle if it is too long, since its end says what to do."""
    if len(message) <= MESSAGE_CHARACTERS:
        return message
    half = MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"


@contextmanager
def progress_bars(verb: str = "indexing ") -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield what shows the progress of a base (id, done, to do) on standard error, or None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    began: float | None = None
    bars: Progress | None = None
    tasks: dict[str, TaskID] = {}
    with ExitStack() as stack:

        def show_progress(base: str, done: int, todo: int) -> None:
            nonlocal began, bars
            now = time.monotonic()
            began = now if began is None else began
            if bars is None:
                if now - began < PATIENCE_SECONDS:
                    return
                bars = stack.enter_context(_new_bars())
            if base not in tasks:
                tasks[base] = bars.add_task(f"{verb}{visible_line(base)}", total=todo)
            bars.update(tasks[base], completed=done, total=todo)

        yield show_progress


def _new_bars() -> Progress:
    # Importing rich.progress takes 60 ms, and most searches need no progress bar.
    from rich import console, progress  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=console.Console(file=sys.stderr), transient=True)


PAGER = "less"

LESS_OPTIONS = "FRX"
"""Default options of `less`: quit if the text fits on a screen, show colours, keep the screen."""

SHELL = "/bin/sh"

SHELL_SIGNS = frozenset("|&;<>()$`")
"""Characters for which PAGER needs a shell; some editors set it to `head -n 10000 | cat` for agents."""


def page(text: str, *, pager: bool = True) -> None:
    """Print neutralised text; on a terminal, wrapped and, if longer than the screen, in the user's pager."""
    width = terminal_width()
    if width is not None:
        text = fitted(text, width)
    size, command = shutil.get_terminal_size(), None
    # Standard input must be a terminal, too: a pager would block a script that pipes into kbhub.
    if pager and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        rows = sum(1 + max(0, len(line) - 1) // max(1, size.columns) for line in text.splitlines())
        command = _pager() if rows >= size.lines else None
    if command is None:
        show(text)
        return
    sys.stdout.flush()
    environment = {"LESS": LESS_OPTIONS, **os.environ}
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:  # noqa: S603 - the user's own
            with suppress(KeyboardInterrupt):
                process.communicate(f"{text}\n".encode("utf-8", "backslashreplace"))
            while process.poll() is None:  # it handles Ctrl-C itself
                with suppress(KeyboardInterrupt):
                    process.wait()
    except OSError:
        show(text)


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
