"""What every process of kbhub does first, so that it takes no more of the machine than it needs."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

YOUNG_OBJECTS = 50_000
"""Objects that are made before the collector looks for circles among them; Python's own 700 is reached a hundred times
by what a start imports, all of which stays. A search makes some thousands, and lets most of them go itself."""

OBJECTS_OF_A_SEARCH = 200_000
"""The same for a process that answers one question and ends: the 60,000 objects that it makes stay until then, and to
look through them takes 25 ms. What a first search of a base indexes goes beyond, and is looked through."""

ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""How many threads numpy's arithmetic starts as it is imported, each with memory of its own. The products here take
less than a millisecond, which threads that wait for each other make longer, not shorter."""


SWITCH_SECONDS = 0.0005
"""How long a thread calculates before another one has its turn; Python's own 5 ms. A search gives its turn away with
each row that SQLite reads, and would wait so long for the next while files are indexed or compared beside it: one
search in 20 took 115 ms then and takes 70, and the indexing does not take longer."""

_M_ARENA_MAX = -8
"""As glibc's malloc.h has it."""

NO_PLUGINS, EVERY = "PYDANTIC_DISABLE_PLUGINS", "__all__"
"""Which plugins pydantic does without. For them it reads the metadata of all that is installed, and what is installed
beside kbhub has no business in its models."""


def be_frugal(environ: MutableMapping[str, str]) -> None:
    """Collect garbage seldom, and let numpy calculate in one thread, unless the user says otherwise.

    Args:
        environ: the environment of this process, before numpy and pydantic are imported; what it starts has it, too.
    """
    environ.setdefault(ONE_THREAD, "1")
    environ.setdefault(NO_PLUGINS, EVERY)
    if gc.isenabled():
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def serve_frugally() -> None:
    """Do what every server does once all is loaded that it starts with."""
    gc.freeze()  # what is there now stays to the end and need not be looked at again
    sys.setswitchinterval(SWITCH_SECONDS)
    _keep_one_heap()


def _keep_one_heap() -> None:
    """Let all threads share the C library's heap, where it is glibc.

    It gives each thread one of its own, which keeps what a comparison of many files or a large array took. With one
    for all, a server that has answered 60 queries at 100,000 chunks has 135 MiB to itself in place of 146.
    """
    if sys.platform != "linux":
        return
    # No other process of kbhub needs it.
    import ctypes  # noqa: PLC0415

    with suppress(OSError, AttributeError):  # a C library that does not know this has one heap
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def collect_rarely() -> None:
    """Collect garbage as seldom as suits a process that ends with its answer."""
    if gc.isenabled():
        gc.set_threshold(OBJECTS_OF_A_SEARCH, *gc.get_threshold()[1:])


def end_frugally() -> None:
    """Leave what is in memory to the system; the interpreter would look for circles in it thrice before it ends."""
    gc.freeze()
