"""What hooks do in a project: who runs them, whether it may speak, what was delivered and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from kbhub.frozen import Model
from kbhub.hooks.consent import may_speak
from kbhub.hooks.deliveries import KEPT_DAYS, counted
from kbhub.hooks.inbox import waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbhub.hub import Hub


class HooksState(Model):
    """Hooks in a project."""

    clients: tuple[str, ...] = Field(
        (), description="Titles of the clients that run them, with ` (plugin)` if kbhub's plugin brings them."
    )
    allowed: bool = Field(description="Whether the documents of this project may be delivered.")
    days: int = Field(KEPT_DAYS, description="Number of days the counts cover.")
    sessions: int = Field(0, description="Sessions to which something was delivered.")
    deliveries: int = Field(0, description="Events for which something was delivered.")
    delivered: int = Field(0, description="Memories and documents that were delivered.")
    read: int = Field(0, description="Those that were read afterwards.")
    tokens: int = Field(0, description="Tokens of everything delivered.")
    proposals: int = Field(0, description="Proposed memories in the inbox.")


def hooks_state(hub: Hub, clients: Sequence[str]) -> HooksState:
    """Return the state of hooks in the workspace's project; `clients` are titles of the clients that run them."""
    counts = counted(hub)
    return HooksState(
        clients=tuple(clients),
        allowed=may_speak(hub),
        sessions=counts.sessions,
        deliveries=counts.deliveries,
        delivered=counts.refs,
        read=counts.read,
        tokens=counts.tokens,
        proposals=len(waiting(hub)),
    )
