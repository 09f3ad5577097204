"""Answers to the hooks of clients, each from a hub of the session's directory."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from kbhub.hooks.delivery import deliver
from kbhub.hooks.events import CLIENTS, EVENTS, answer, event_of
from kbhub.hooks.inbox import propose
from kbhub.hub import Hub, HubOptions, SharedState
from kbhub.values import struct
from kbhub.workspace.files import user_home

MOST_HUBS = 16
"""Hubs kept open, one per directory: more than anybody works in at a time. Each holds what discovery found."""


@struct
class HookMessage:
    """The arguments and input of the hook command."""

    event: str
    client: str
    data: bytes
    """What the client sent: JSON."""


class Hooking:
    """Hubs for the events of several sessions, with shared models and indexes. Thread-safe."""

    def __init__(self, shared: SharedState | None = None) -> None:
        self._shared = shared
        self._hubs: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], Hub] = OrderedDict()
        self._lock = threading.Lock()

    def answered(self, told: HookMessage, env: Mapping[str, str], cwd: str = "") -> str:
        """Return the output for the client, empty for nothing; raise `ValueError` if it sent no JSON.

        `cwd` counts if the client names no directory that exists.
        """
        name = next((name for name in EVENTS if name == told.event), None)
        client = next((client for client in CLIENTS if client == told.client), None)
        event = event_of(name, client, json.loads(told.data)) if name and client else None
        if event is None:
            return ""
        hub = self._hub(event.cwd if os.path.isdir(event.cwd) else cwd or os.getcwd(), env)  # noqa: PTH109, PTH112
        if event.name == "session-end":
            propose(hub, event)
            return ""
        delivery = deliver(hub, event)
        return answer(event, delivery.text) if delivery else ""

    def forget(self) -> None:
        """Close the hubs."""
        with self._lock:
            self._hubs.clear()

    def _hub(self, cwd: str, env: Mapping[str, str]) -> Hub:
        key = cwd, tuple(sorted(env.items()))
        with self._lock:
            if key not in self._hubs:
                options = HubOptions(serve=True, env=dict(env), cwd=Path(cwd), home=user_home(env), shared=self._shared)
                self._hubs[key] = Hub(options)
            self._hubs.move_to_end(key)
            while len(self._hubs) > MOST_HUBS:
                self._hubs.popitem(last=False)
            return self._hubs[key]
