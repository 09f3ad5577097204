"""Memories of two machines: memories sync."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kbhub.cli.options import AllowSecret, Reply, command, problem_lines
from kbhub.hub import Hub
from kbhub.memory.exchange import Exchanged, SideChanges, exchange
from kbhub.values import counted


@command()
def sync(
    hub: Hub,
    *,
    remote: Annotated[str | None, Parameter(metavar="NAME")] = None,
    user: bool = False,
    dry_run: bool = False,
    allow_secret: AllowSecret = False,
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
    return Reply(done, _text(done), notes=problem_lines(done.left_out), code=1 if done.left_out else 0)


def _text(done: Exchanged) -> str:
    verb = "Would sync" if done.dry_run else "Synced"
    memories = counted(done.memories, "memory", "memories")
    return f"{verb} {memories} with {done.remote}. Here: {_changes(done.here)}. There: {_changes(done.there)}."


def _changes(one: SideChanges) -> str:
    parts = ((one.added, "new"), (one.changed, "changed"), (one.deleted, "deleted"))
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "no change"
