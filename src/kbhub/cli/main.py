"""Run the command line, print expected failures on one line, and return the exit code."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from kbhub.cli import ALONE, INTERRUPTED, OLD, UNWRITTEN, arranged, discard_results, leading
from kbhub.errors import KbhubError
from kbhub.workspace.child_processes import OBJECTS_OF_A_SEARCH, be_frugal

PIPE_CLOSED = 141
"""Exit code when the reader of our output went away: 128 plus the number of SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted."""
    try:
        be_frugal(os.environ)
        _prepare_streams()
        if logging.lastResort:  # prints warnings, as those about extensions that cannot be loaded
            logging.lastResort.setFormatter(logging.Formatter("kbhub: %(message)s"))
        typed = sys.argv[1:] if arguments is None else list(arguments)
        given = arranged(typed)
        if given == ["serve"] and not sys.stdin.isatty():  # without the command line, which takes 0.2 s to load
            # A client waits for it, and no other command needs it.
            from kbhub.server.stdio import serve_plainly  # noqa: PLC0415

            serve_plainly()
        if given[:1] == ["search"]:
            be_frugal(os.environ, OBJECTS_OF_A_SEARCH)
        # Here and not above, so that Ctrl-C while modules load ends as quietly as later.
        from kbhub.cli.app import run  # noqa: PLC0415

        code = run(given)
        if (old := next((word for word in leading(typed)[1] if word != "help"), "")) in OLD:
            print(f"kbhub: `kbhub {old}` is deprecated; use `kbhub {OLD[old]}`.", file=sys.stderr)  # noqa: T201
        if code == 0 and " ".join(typed) in ALONE:
            print(f"kbhub: See `kbhub {' '.join(typed)} --help` for more.", file=sys.stderr)  # noqa: T201
        if arguments is None:  # the process is over, and not only a call
            gc.freeze()  # skips the three collections at exit: the system frees the memory anyway
    except KeyboardInterrupt:
        print("kbhub: interrupted.", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:
        discard_results()
        return PIPE_CLOSED
    except KbhubError as error:
        from kbhub.cli.app import complain  # noqa: PLC0415 - the server starts without it

        complain(str(error))
        return error.exit_code
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it keeps the help that it could not take, and fails again
            discard_results()
            print(f"kbhub: {UNWRITTEN.format(error.strerror)}", file=sys.stderr)  # noqa: T201
            return 1
        raise
    return code


def _prepare_streams() -> None:
    """Let a stream that the caller closed (`>&-`) read or write nothing, and make any text printable."""
    # Each takes the lowest free descriptor, which is its own, so no file opened later becomes standard output.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the process ends
    for stream in (sys.stdout, sys.stderr):  # UTF-8 in files and pipes, escapes for what a terminal's encoding lacks
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
