"""Registering kbhub with agents: setup."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common
from kbhub.setup.clients import ClientName  # noqa: TC001 - cyclopts reads it


@app.command(usage="kbhub setup [OPTIONS]")
def setup(
    *,
    client: Annotated[tuple[ClientName, ...], Parameter(metavar="NAME")] = (),
    project: bool = False,
    agents_md: Annotated[bool, Parameter(name="--agents-md")] = False,
    skill: bool = False,
    remove: bool = False,
    dry_run: bool = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"))] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Register kbhub with the coding agents and other MCP clients on this machine.

    Shows what it will do and asks. Each client's own command does it where there is one; else its file is edited, after
    a copy was made, and all that is not kbhub's stays as it is. With --agents-md or --skill and neither --client nor
    --project, only that is done.

    Example: kbhub setup --dry-run

    Args:
        client: This client, whether it was found or not; may be repeated.
        project: Write files into the project instead (.mcp.json, .vscode/mcp.json …), for a team to share.
        agents_md: Put lines into AGENTS.md, CLAUDE.md and GEMINI.md of the project that make agents search first.
        skill: Give clients that have skills one that says when and how to search.
        remove: Take out what the same options put in.
        dry_run: Only show what would be done.
        yes: Do not ask.
        common: Options of every command.
    """
    return commands.setup.setup(
        client,
        project=project,
        agents_md=agents_md,
        skill=skill,
        remove=remove,
        dry_run=dry_run,
        yes=yes,
        common=common,
    )
