"""What reaches agents without being asked for, and what waits for a person: hook, hooks, memories inbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.console import complain, show_json, show_text
from kbhub.cli.hubs import complain_all, hub_options
from kbhub.cli.options import Common
from kbhub.errors import UsageError
from kbhub.hooks.delivery import SESSION_TOKENS
from kbhub.hooks.events import EventName, HookClient
from kbhub.hooks.inbox import Inbox, settle, waiting
from kbhub.hooks.replay import replay
from kbhub.hooks.state import hooks_state
from kbhub.hub import Hub
from kbhub.render.hooks import inbox_text, replayed_text, settled_text, state_text
from kbhub.server.daemon.hook_client import run
from kbhub.setup.hooks import hooked_clients
from kbhub.workspace.files import expand


def hook(
    event: Annotated[EventName, Parameter(metavar="EVENT")],
    /,
    *,
    client: Annotated[HookClient, Parameter(metavar="NAME")],
) -> int:
    """Answer a hook of a coding agent. Clients run this; for a summary, run `kbhub hooks`.

    Reads the client's JSON from standard input, and prints what the client adds to the model's context, or nothing. Any
    failure is silent and the exit code is always 0, so a hook never gets in the way.

    Example: kbhub hook prompt --client claude-code < event.json

    Args:
        event: The event: session-start, prompt, tool or session-end.
        client: The client that runs the hook.
    """
    if sys.stdin.isatty():
        raise UsageError(
            "This command is for clients, which send JSON on standard input. Run `kbhub hooks` to see what hooks do "
            "here."
        )
    return run(event, client, os.environ)


def hooks(
    *,
    replay_: Annotated[str | None, Parameter(name="--replay", metavar="TRANSCRIPT")] = None,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Show which clients run hooks, whether this project allows them, and what they delivered.

    With --replay, show what they would have delivered during a past session. Register hooks with `kbhub setup --hooks`.
    Of plugins, only that of Claude Code is seen, enabled for all projects or this one; other clients list their own.

    Example: kbhub hooks --replay ~/.claude/projects/-work-shop/4f1c.jsonl

    Args:
        replay_: Session log of Claude Code, Codex or Gemini CLI.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    if replay_ is not None:
        replayed = replay(hub, Path(expand(replay_, hub.options.home, hub.options.cwd)))
        if common.json:
            show_json(replayed.model_dump_json(indent=2))
        else:
            show_text(replayed_text(replayed, SESSION_TOKENS))
            complain_all(replayed.notes)
        return 0
    workspace = hub.discovery().workspace
    project = workspace.git_root or workspace.directory
    state = hooks_state(hub, hooked_clients(hub.options.env, hub.options.home, project))
    if common.json:
        show_json(state.model_dump_json(indent=2))
    else:
        show_text(state_text(state))
    return 0


def inbox(
    *ids: str,
    accept: Annotated[bool, Parameter(negative="")] = False,
    dismiss: Annotated[bool, Parameter(negative="")] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """List the memories proposed at the end of sessions, and accept or dismiss them.

    Proposals are sentences of yours: what you corrected, decided or asked to remember. No search finds them until you
    accept them.

    Example: kbhub memories inbox --accept 4f1c2a

    Args:
        ids: Ids of proposals, or `all`.
        accept: Remember these proposals.
        dismiss: Drop these proposals.
        common: Options of every command.
    """
    hub = Hub(hub_options(common))
    if accept and dismiss:
        raise UsageError("--accept cannot be used with --dismiss.")
    if not accept and not dismiss:
        if ids:
            raise UsageError("Say what to do with these proposals: --accept or --dismiss.")
        found = Inbox(proposals=waiting(hub))
        if common.json:
            show_json(found.model_dump_json(indent=2))
        elif found.proposals:
            show_text(inbox_text(found))
        else:
            complain("The inbox is empty: no proposals are waiting for you.")
        return 0
    done = settle(hub, ids, accept=accept)
    if common.json:
        show_json(done.model_dump_json(indent=2))
    else:
        show_text(settled_text(done))
    return 0
