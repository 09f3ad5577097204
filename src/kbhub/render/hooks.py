"""Render what hooks do, and the inbox, for a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kbhub.hooks.events import BY_PLUGIN
from kbhub.render.words import visible_line
from kbhub.values import counted

if TYPE_CHECKING:
    from kbhub.hooks.delivery import HooksState
    from kbhub.hooks.inbox import Inbox, Settled

_INDENT = "  "

_WIDTH = 96
"""Columns of wrapped text."""


def state_text(state: HooksState) -> str:
    """Return the state of the hooks in a project."""
    clients = ", ".join(state.clients) or "none; register them with `kbhub setup --hooks`"
    speaks = "yes" if state.allowed else "only memories that you wrote; allow the rest with `kbhub trust --documents`"
    lines = [f"clients   {visible_line(clients)}", f"allowed   {speaks}", f"delivered {summary_line(state)}"]
    lines += (
        f"twice     {visible_line(one)} runs every hook twice; remove the plugin, or what `kbhub setup` registered "
        "(`kbhub setup --remove`)"
        for one in state.clients
        if f"{one}{BY_PLUGIN}" in state.clients
    )
    if state.proposals:
        lines.append(f"inbox     {counted(state.proposals, 'proposed memory', 'proposed memories')}; list them "
                     "with `kbhub memories inbox`")  # fmt: skip
    return "\n".join(lines)


def summary_line(state: HooksState) -> str:
    """Return a line on what was delivered and read."""
    if not state.deliveries:
        return f"nothing in the last {state.days} days"
    sessions = counted(state.sessions, "session")
    named = counted(state.delivered, "note")
    return f"{named} in {sessions} of the last {state.days} days, {state.read} read afterwards; {state.tokens:,} tokens"


def inbox_text(inbox: Inbox) -> str:
    """Return the proposals with the calls that settle them."""
    blocks = []
    for one in inbox.proposals:
        said = textwrap.fill(visible_line(one.text), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
        blocks.append(f"{one.id}  {visible_line(one.origin)}\n{said}")
    last = "Accept with `kbhub memories inbox --accept ID…` (or `all`); dismiss with `--dismiss ID…`."
    return "\n\n".join([*blocks, last])


def settled_text(done: Settled) -> str:
    """Return the outcome of proposals."""
    lines = [f"Remembered {one.memory.ref}: {visible_line(one.memory.title)}" for one in done.accepted]
    if done.dismissed:
        lines.append(f"Dismissed {', '.join(done.dismissed)}")
    if done.left:
        lines.append(f"{done.left} left in the inbox")
    return "\n".join(lines)
