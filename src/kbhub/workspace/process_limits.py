"""Tune garbage collection, threads and memory of kbhub's processes."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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
"""Constant of glibc's malloc.h."""

NO_PLUGINS, EVERY = "PYDANTIC_DISABLE_PLUGINS", "__all__"
"""Disables pydantic's plugins. To find them it reads the metadata of all installed packages, and other packages should
not affect kbhub's models."""


def be_frugal(environ: MutableMapping[str, str]) -> None:
    """Collect garbage less often and limit numpy to one thread, unless the environment says otherwise.

    Must run before numpy and pydantic are imported; child processes inherit the environment.
    """
    environ.setdefault(ONE_THREAD, "1")
    environ.setdefault(NO_POOL, "false")
    environ.setdefault(NO_PLUGINS, EVERY)
    if gc.isenabled():
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def serve_frugally() -> None:
    """Tune a server after its imports."""
    gc.freeze()  # these objects live until the end, so exclude them from collections
    sys.setswitchinterval(SWITCH_SECONDS)
    _keep_one_heap()


def _keep_one_heap() -> None:
    """Make all threads share one malloc arena of glibc."""
    # Otherwise each thread has its own, which keeps freed memory. After 60 queries on 100,000 chunks, a server takes
    # 135 MiB with a single arena, and 146 MiB without.
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):  # other C libraries have a single heap
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def collect_rarely() -> None:
    """Tune a process that exits after answering one query."""
    if gc.isenabled():
        gc.set_threshold(OBJECTS_OF_A_SEARCH, *gc.get_threshold()[1:])


def end_frugally() -> None:
    """Skip the interpreter's three garbage collections at exit; the system frees the memory anyway."""
    gc.freeze()
