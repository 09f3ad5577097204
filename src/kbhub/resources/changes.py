"""Which documents of the active bases are new, changed or gone since the last look, by what their indexes say."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable
from kbhub.later import catalogue
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.resources.addresses import Address
    from kbhub.types import Base

State = tuple[object, dict[str, bytes]]
"""What changes whenever an index does, and the hashes of the documents in it by path."""

_NOTHING: State = (None, {})


@struct
class Changes:
    """What is otherwise than before."""

    listed: bool
    """Whether documents have come or gone."""
    documents: frozenset[Address]
    """Those that have come, changed or gone."""


class DocumentChanges:
    """Compares the documents of the active bases with those of the last look.

    Nothing is compared before `begin`: who has asked for no document need not be told of any, and reading the hashes
    of a large base takes some 10 ms whenever it has changed.

    Args:
        hub: whose bases count.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._known: dict[str, State] | None = None

    def begin(self) -> None:
        """Take what there is now for what is known, unless something is known already."""
        with self._lock:
            if self._known is None:
                self._known = {base.id: self._state(base, _NOTHING) for base in self._hub.discovery().bases}

    def end(self) -> None:
        """Forget what is known."""
        with self._lock:
            self._known = None

    def look(self) -> Changes:
        """Give what has changed since the last look.

        Documents of bases that were not active then count as known: that the bases are others is told anyway.

        Raises:
            KbhubError: the configuration is wrong.
        """
        with self._lock:
            if self._known is None:
                return Changes(listed=False, documents=frozenset())
            known: dict[str, State] = {}
            listed, changed = False, set()
            for base in self._hub.discovery().bases:
                before = self._known.get(base.id)
                known[base.id] = now = self._state(base, before or _NOTHING)
                if before is None or before[1] is now[1]:
                    continue
                listed = listed or before[1].keys() != now[1].keys()
                changed |= {(base.id, path) for path, _ in before[1].items() ^ now[1].items()}
            self._known = known
            return Changes(listed=listed, documents=frozenset(changed))

    def _state(self, base: Base, before: State) -> State:
        index = self._hub.index(base)
        try:
            with index.snapshot():
                mark = (index.path, index.generation())
                return before if mark == before[0] else (mark, catalogue.content_hashes(index))
        except IndexUnavailable:  # it is being made, or made anew; what was known of it stays known
            return before
