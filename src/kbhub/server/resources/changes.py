"""Detect new, changed and deleted documents of the active bases from their indexes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kbhub.errors import IndexUnavailable
from kbhub.index import catalogue
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.server.resources.addresses import Address
    from kbhub.types import Base

State = tuple[object, dict[str, bytes]]
"""A value that changes with the index, and path → hash of its documents."""

_NOTHING: State = (None, {})


@struct
class Changes:
    """Changes since the last look."""

    listed: bool
    """Whether documents were added or removed."""
    documents: frozenset[Address]
    """Added, changed and removed documents."""


class DocumentChanges:
    """Compares the documents of the active bases with the last look.

    Nothing is compared before `begin`: reading the hashes of a large base takes some 10 ms after each change, which
    clients that never list documents need not pay.

    Args:
        hub: the hub whose bases are compared.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._known: dict[str, State] | None = None

    def begin(self) -> None:
        """Record the current state, unless one is recorded."""
        with self._lock:
            if self._known is None:
                self._known = {base.id: self._state(base, _NOTHING) for base in self._hub.discovery().bases}

    def end(self) -> None:
        """Forget the recorded state."""
        with self._lock:
            self._known = None

    def look(self) -> Changes:
        """Return the changes since the last look.

        Documents of newly active bases do not count as changed, since changed bases are announced separately.

        Raises:
            KbhubError: the configuration is invalid.
        """
        with self._lock:
            if self._known is None:
                return Changes(listed=False, documents=frozenset())
            states: dict[str, State] = {}
            listed, changed = False, set()
            for base in self._hub.discovery().bases:
                before = self._known.get(base.id)
                states[base.id] = now = self._state(base, before or _NOTHING)
                if before is None or before[1] is now[1]:
                    continue
                listed = listed or before[1].keys() != now[1].keys()
                changed |= {(base.id, path) for path, _ in before[1].items() ^ now[1].items()}
            self._known = states
            return Changes(listed=listed, documents=frozenset(changed))

    def _state(self, base: Base, before: State) -> State:
        index = self._hub.index(base)
        try:
            with index.snapshot():
                mark = (index.path, index.generation())
                return before if mark == before[0] else (mark, catalogue.content_hashes(index))
        except IndexUnavailable:  # it is being built or rebuilt; keep the recorded state
            return before
