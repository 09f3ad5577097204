"""What is asked here, and what nothing answers: log, gaps."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common, Tables

MOST_SHOWN = 100_000
"""Queries of one list at most, as many as are kept."""

log_app = App(
    name="log",
    help="Show or clear the log of this project's queries. It never leaves this machine.\n\nWithout a command, `show`.",
    usage="kbhub log [COMMAND]",
)
app.command(log_app)


@log_app.command(name="show", usage="kbhub log show [OPTIONS]")
def show(
    *,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), metavar="N", validator=Number(gte=1, lte=MOST_SHOWN))
    ] = None,
    formats: Tables = Tables(),  # noqa: B008 - frozen
) -> int:
    """Show what was asked here, by you and by agents, newest first.

    Example: kbhub log show --limit 100

    Args:
        limit: Queries to show (20).
        formats: Options of every command.
    """
    return commands.querylog.show_queries(limit=limit, formats=formats)


@log_app.command(name="clear", usage="kbhub log clear [OPTIONS]")
def clear(
    *,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    common: Common = Common(),  # noqa: B008 - frozen
) -> int:
    """Forget what was asked in this project, and the gaps that it showed.

    Example: kbhub log clear

    Args:
        all_: In every project.
        common: Options of every command.
    """
    return commands.querylog.clear_queries(every_project=all_, common=common)


@app.command(usage="kbhub gaps [OPTIONS]")
def gaps(
    *,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    close: Annotated[str | None, Parameter(metavar="ID")] = None,
    formats: Tables = Tables(),  # noqa: B008 - frozen
) -> int:
    """List the questions that are asked again and again, and that nothing here answers.

    A gap closes by itself when a document or a memory answers it. It is looked again before they are listed.

    Example: kbhub gaps

    Args:
        all_: List those, too, that are answered or closed.
        close: Close this one for good.
        formats: Options of every command.
    """
    return commands.querylog.gaps(every=all_, close=close, formats=formats)
