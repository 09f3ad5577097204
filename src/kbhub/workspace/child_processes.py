"""Start, greet and end processes of kbhub's own that work for the process that starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from kbhub import __version__
from kbhub.workspace.process_tuning import be_frugal

if TYPE_CHECKING:
    from collections.abc import Iterator

NICENESS = 10
"""Priority of such a process, below that of interactive work, in POSIX terms."""


def greeting(task: str) -> bytes:
    """Return the first output of a process, which proves that it is ours and of the same version.

    Args:
        task: what the process does, in a word.
    """
    return f"kbhub {__version__} {task}\n".encode()


def start(module: str) -> subprocess.Popen[bytes]:
    """Start a module of kbhub as a process, with pipes to its standard input and output.

    `multiprocessing` would run the importing program again in it.

    Args:
        module: its full name.

    Raises:
        OSError: no process can be started.
    """
    options: dict[str, Any] = {}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NO_WINDOW}
    return subprocess.Popen(  # noqa: S603 - a module of ours
        # -P: the working directory may contain a module with the name of some library.
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        **options,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, close its pipes and wait for it."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # unsent data does not matter
            if pipe:
                pipe.close()
    process.wait()


@contextmanager
def answering() -> Iterator[BinaryIO]:
    """Set up this process as one that `start` has started; yield the stream for its output."""
    be_frugal(os.environ)
    with suppress(AttributeError, OSError):  # not on Windows
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # anything else that is printed goes to stderr
        yield answers
