"""Entry point: run the command line, say a foreseen failure in one line, give the exit code."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from kbhub.cli import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

PIPE_CLOSED = 141
"""Exit code when the reader of our output went away: 128 plus the number of SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what follows the program's name; none takes them from the command line.

    Returns:
        The exit code: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.
    """
    try:
        _make_streams_total()
        # Here and not above, so that Ctrl-C while modules load ends as quietly as later.
        from kbhub.cli.run import run  # noqa: PLC0415

        code = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("kbhub: interrupted.", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _make_streams_total() -> None:
    """Let any text be printed: UTF-8 into files and pipes; what a terminal's encoding lacks, as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
