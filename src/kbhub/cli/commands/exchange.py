"""What memories are exchanged with: other machines, the inbox of proposals, the hooks of agents."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.options import Reply, command
from kbhub.errors import UsageError
from kbhub.hooks.delivery import hooks_state
from kbhub.hooks.events import EventName, HookClient
from kbhub.hooks.inbox import Inbox, settle, waiting
from kbhub.hooks.sessions import HooksState
from kbhub.hub import Hub
from kbhub.memory.exchange import SideChanges, exchange
from kbhub.render.setup import inbox_report, settled_report, state_report
from kbhub.server.daemon.launch import run_hook
from kbhub.setup.clients import Machine
from kbhub.setup.instructions import hooked_clients
from kbhub.values import counted


@command()
def sync(
    hub: Hub,
    *,
    remote: Annotated[str | None, Parameter(metavar="NAME")] = None,
    user: bool = False,
    dry_run: bool = False,
    allow_secret: bool = False,
) -> Reply:
    """Sync this project's memories with your other machines, through a ref of a git remote.

    Whoever may read the remote can read them. They are pushed only when you run this. Where both machines changed a
    memory, the later change counts; what is deleted or overwritten here goes to the trash.

    Example: kbhub memories sync --remote origin

    Args:
        remote: Remote of the project's repository (origin, or the only one).
        user: Sync your own memories, of all projects, instead; use a remote that only you can read.
        dry_run: Only show what would change.
        allow_secret: Also sync what looks like it contains a credential.

    Returns:
        The exit code: 1 if some could not be synced.
    """
    done = exchange(hub, remote, scope="user" if user else "project", dry_run=dry_run, allow_secret=allow_secret)
    synced = f"{'Would sync' if dry_run else 'Synced'} {counted(done.memories, 'memory', 'memories')}"
    said = f"{synced} with {done.remote}. Here: {_changes(done.here)}. There: {_changes(done.there)}."
    return Reply(done, said, notes=[one.text for one in done.left_out], code=1 if done.left_out else 0)


def _changes(one: SideChanges) -> str:
    parts = ((one.added, "new"), (one.changed, "changed"), (one.deleted, "deleted"))
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "no change"


def hook(event: EventName, /, *, client: Annotated[HookClient, Parameter(metavar="NAME")]) -> int:
    """Answer a hook of a coding agent.

    Clients run this; for a summary, run `kbhub admin hooks`. Reads the client's JSON from standard input, and prints
    what the client adds to the model's context, or nothing. Any failure is silent and the exit code is always 0, so a
    hook never gets in the way.

    Example: kbhub hook prompt --client claude-code < event.json

    Args:
        event: What happened.
        client: The client that runs the hook.
    """
    if sys.stdin.isatty():
        raise UsageError("Clients run this, with JSON on standard input. `kbhub admin hooks` shows what hooks do here.")
    return run_hook(event, client, os.environ)


@command(state_report)
def hooks(hub: Hub) -> HooksState:
    """Show which clients run hooks, whether this project allows them, and what they delivered.

    Register hooks with `kbhub setup --hooks`. Of plugins, only that of Claude Code is seen, enabled for all projects or
    this one; other clients list their own.

    Example: kbhub admin hooks
    """
    machine = Machine(hub.options.home, hub.options.env)
    return hooks_state(hub, hooked_clients(machine, hub.discovery().workspace.root))


@command()
def inbox(hub: Hub, *ids: Annotated[str, Parameter(name="ID")], accept: bool = False, dismiss: bool = False) -> Reply:
    """List the memories proposed at the end of sessions, and accept or dismiss them.

    Proposals are sentences of yours: what you corrected, decided or asked to remember. No search finds them until you
    accept them.

    Example: kbhub memories inbox --accept 4f1c2a

    Args:
        ids: Ids of proposals, or `all`.
        accept: Remember these proposals.
        dismiss: Drop these proposals.
    """
    if accept and dismiss:
        raise UsageError("--accept cannot be used with --dismiss.")
    if not accept and not dismiss:
        if ids:
            raise UsageError("Say what to do with these proposals: --accept or --dismiss.")
        found = Inbox(proposals=waiting(hub))
        empty = () if found.proposals else ("The inbox is empty: no proposals are waiting for you.",)
        return Reply(found, inbox_report(found), notes=empty)
    done = settle(hub, ids, accept=accept)
    return Reply(done, settled_report(done))
