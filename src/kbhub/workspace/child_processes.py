"""Start child processes, and keep processes frugal."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

from kbhub import __version__

YOUNG_OBJECTS = 50_000
"""Garbage collection threshold for young objects. Imports at startup exceed Python's default of 700 a hundred times,
and all of those objects stay alive. A search creates some thousands, most of them freed by reference counting."""

OBJECTS_OF_A_SEARCH = 200_000
"""Threshold for a process that answers one query and exits: its 60,000 objects live until then, and collecting takes
25 ms. Indexing a base in the first search exceeds it."""

ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""Number of threads that numpy starts on import, each with its own memory. The products here take less than a
millisecond, which more threads only slow down."""

NO_POOL = "TOKENIZERS_PARALLELISM"
"""Whether tokenizers start a thread per core. They get word by word, which takes 4 % more CPU in threads, and a process
with threads cannot be forked."""

SWITCH_SECONDS = 0.0005
"""Thread switch interval; Python's default is 5 ms. A search releases the GIL with each row that SQLite reads, and
would wait that long to get it back during indexing: one search in 20 took 115 ms and now takes 70, and indexing is not
slower."""

_M_ARENA_MAX = -8

NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
"""Disables pydantic's plugins. To find them it reads the metadata of all installed packages, and other packages should
not affect kbhub's models."""


def be_frugal(environ: MutableMapping[str, str], young: int = YOUNG_OBJECTS) -> None:
    """Collect garbage only after `young` objects, and limit numpy to one thread unless the environment says otherwise.

    Must run before numpy and pydantic are imported; child processes inherit the environment.
    """
    environ.setdefault(ONE_THREAD, "1")
    environ.setdefault(NO_POOL, "false")
    environ.setdefault(NO_PLUGINS, "__all__")
    if gc.isenabled():
        gc.set_threshold(young, *gc.get_threshold()[1:])


def serve_frugally() -> None:
    """Tune a server after its imports."""
    gc.freeze()  # these objects live until the end, so exclude them from collections
    sys.setswitchinterval(SWITCH_SECONDS)
    # One malloc arena of glibc for all threads: each keeps freed memory. After 60 queries on 100,000 chunks, a server
    # takes 135 MiB instead of 146.
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # other C libraries have a single heap
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


NICENESS = 10
"""Priority of such a process, below that of interactive work, in POSIX terms."""


def greeting(task: str) -> bytes:
    """Return the first output of a process, which proves that it is ours and of the same version."""
    return f"kbhub {__version__} {task}\n".encode()


def start(module: str) -> subprocess.Popen[bytes]:
    """Start `main` of a module, by its full name, as a process with pipes to its standard input and output.

    `multiprocessing` would run the importing program again in it, and `-m` would load the module twice.
    """
    return subprocess.Popen(  # noqa: S603 - a module of ours
        # -P: the working directory may contain a module with the name of some library.
        [sys.executable, "-P", "-c", f"from {module} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # on Windows
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, close its pipes and wait for it."""
    with suppress(OSError), process:  # unsent data does not matter
        process.kill()


@contextmanager
def answering() -> Iterator[BinaryIO]:
    """Set up this process as one started by `start`; yield the stream for its output."""
    be_frugal(os.environ)
    with suppress(AttributeError, OSError):  # not on Windows
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # anything else that is printed goes to stderr
        yield answers
