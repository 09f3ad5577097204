"""What is printed where: results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

from kbhub.errors import KbhubError
from kbhub.render.layout import fitted, wrapped
from kbhub.render.plain import json_escaped, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.progress import Progress, TaskID

MESSAGE_CHARACTERS = 2_000
"""Of one message at most: a screen full. Paths are up to 4,096 (Linux), arguments up to 131,072."""

DUMB = ("dumb", "unknown")
"""Values of TERM of terminals that only print."""

USUAL_WIDTH = 80
"""Columns where nothing says how many there are."""

PATIENCE_SECONDS = 0.2
"""Time before a progress bar appears: what takes less would only flicker."""


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether to colour what goes to a stream: `NO_COLOR`, then `FORCE_COLOR`, then whether it is a terminal.

    Args:
        stream: where the text goes.
        env: environment variables; the two count if they are not empty (no-color.org, force-color.org).
    """
    if env.get("NO_COLOR"):
        return False
    return bool(env.get("FORCE_COLOR")) or (stream.isatty() and env.get("TERM") != "dumb")


def line_width(env: Mapping[str, str]) -> int:
    """Return the columns of the terminal: `COLUMNS`, then what one of the standard streams says, as rich has it.

    Args:
        env: environment variables.
    """
    if sys.stdout.isatty() and env.get("TERM") in DUMB:
        return USUAL_WIDTH
    if (columns := env.get("COLUMNS", "")).isdigit() and int(columns):
        return int(columns)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            columns_there = os.get_terminal_size(stream.fileno()).columns if stream else 0
        except (ValueError, OSError):  # closed, or no terminal
            continue
        if columns_there:
            return columns_there - (os.name == "nt")  # an old console there ends a full line by itself
    return USUAL_WIDTH


def terminal_width() -> int | None:
    """Return the columns of the terminal that shows the results; None if they go elsewhere, or it only prints."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in DUMB:
        return None
    return line_width(os.environ)


def show_text(text: str) -> None:
    """Print a result for a person: in a terminal, no line is wider than it.

    Raises:
        KbhubError: as for `show`.
    """
    width = terminal_width()
    show(text if width is None else fitted(text, width))


def show(text: str) -> None:
    """Print a result.

    Raises:
        KbhubError: standard output does not take it; a reader that went away is no failure, and passes as it came.
    """
    if text:
        write_verbatim(text if text.endswith("\n") else f"{text}\n")


def write_verbatim(text: str) -> None:
    """Print a result to the letter, with no line end of ours.

    Raises:
        KbhubError: as for `show`.
    """
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise KbhubError(f"The results cannot be written: {error.strerror}.") from error


def show_json(document: str) -> None:
    """Print a JSON document; what a terminal would act upon becomes an escape, which means the same."""
    show(json_escaped(document))


def complain(message: str) -> None:
    """Print a message on one line of standard error; in a terminal, broken at words to its width."""
    # What is printed may quote a file; results must come before what is said about them.
    sys.stdout.flush()
    line = f"kbhub: {one_line(shortened(message))}"
    if sys.stderr.isatty():
        line = "\n  ".join(wrapped(line, line_width(os.environ) - len("  ")))
    sys.stderr.write(f"{line}\n")


def shortened(message: str) -> str:
    """Return a message without its middle if it is too long; what to do about it is at the end."""
    if len(message) <= MESSAGE_CHARACTERS:
        return message
    half = MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"


@contextmanager
def progress_bars(verb: str = "indexing ") -> Iterator[Callable[[str, int, int], None] | None]:
    """Show how far each base is, on standard error if that is a terminal and there is something to wait for.

    Args:
        verb: what is done with each base, before its name.

    Yields:
        What to call with (base id, files done, files to do); none where nobody looks on.
    """
    if not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        yield _Bars(stack, verb)


class _Bars:
    """Progress bars that appear when the waiting begins to be felt, and vanish at the end.

    Args:
        stack: ends them.
        verb: before the name of each base.
    """

    def __init__(self, stack: ExitStack, verb: str) -> None:
        self._stack, self._verb = stack, verb
        self._began: float | None = None
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, base: str, done: int, todo: int) -> None:
        """Show that a base is so far."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if self._bars is None:
            if now - self._began < PATIENCE_SECONDS:
                return
            self._bars = self._stack.enter_context(_new_bars())
        if base not in self._tasks:
            self._tasks[base] = self._bars.add_task(f"{self._verb}{one_line(base)}", total=todo)
        self._bars.update(self._tasks[base], completed=done, total=todo)


def _new_bars() -> Progress:
    # rich's progress takes 60 ms to import, and most searches have nothing to wait for.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)
