"""Addresses of documents, `kbhub://{base}/{+path}` by RFC 6570, and which of them are new, changed or deleted."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from kbhub.errors import IndexUnavailable
from kbhub.index import catalogue
from kbhub.values import struct

if TYPE_CHECKING:
    from kbhub.hub import Hub
    from kbhub.types import Base


TEMPLATE = "kbhub://{base}/{+path}"

# What RFC 6570 does not escape in `{+path}`, without `?`, `#` and brackets, which would end or break the path.
_KEPT = ":/@!$&'()*+,;="

_ADDRESS = re.compile(r"kbhub://([^/?#]+)/([^?#]+)", re.IGNORECASE)
_ODD = re.compile(r"[%?#\[\]]")

Address = tuple[str, str]
"""Id of a base, and a path in it."""


State = tuple[object, dict[str, bytes]]
"""A value that changes with the index, and path → hash of its documents."""

_NOTHING: State = (None, {})


def uri_of(base: str, path: str) -> str:
    """Return the address of a document by base id and path relative to the base, with `/`."""
    return f"kbhub://{quote(base, safe='')}/{quote(path, safe=_KEPT)}"


def parse_uri(uri: str) -> Address | None:
    """Return the base and path of an address, however it is escaped, or None if it is not one of ours."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        return None
    base, path = map(unquote, match.groups())
    return (base, path) if base and path else None


def template_value(path: str) -> str:
    """Return a path as the value of `{+path}`, escaping what would break the expanded address.

    Expansion leaves escaped characters as they are (RFC 6570, section 3.2.3).
    """
    return _ODD.sub(lambda match: quote(match[0], safe=""), path)


def from_template_value(value: str) -> str:
    """Return the path for a value that a person typed, fully or partly, escaped or not."""
    return unquote(value)


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
