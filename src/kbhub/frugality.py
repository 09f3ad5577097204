"""What every process of kbhub does first, so that it takes no more of the machine than it needs."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

YOUNG_OBJECTS = 50_000
"""Objects that are made before the collector looks for circles among them; Python's own 700 is reached a hundred times
by what a start imports, all of which stays. A search makes some thousands, and lets most of them go itself."""

ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""How many threads numpy's arithmetic starts as it is imported, each with memory of its own. The products here take
less than a millisecond, which threads that wait for each other make longer, not shorter."""


def be_frugal(environ: MutableMapping[str, str]) -> None:
    """Collect garbage seldom, and let numpy calculate in one thread, unless the user says otherwise.

    Args:
        environ: the environment of this process, before numpy is imported; what it starts has it, too.
    """
    environ.setdefault(ONE_THREAD, "1")
    if gc.isenabled():
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
