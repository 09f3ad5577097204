"""The command about the shared daemon: stop. `serve` starts it."""

from __future__ import annotations

from kbhub.cli import commands
from kbhub.cli.app import app
from kbhub.cli.options import Common


@app.command(usage="kbhub stop [OPTIONS]")
def stop(*, common: Common = Common()) -> int:  # noqa: B008 - frozen
    """End the shared daemon.

    Windows that use it go on: the next thing that they ask starts it again. Only a process that is proved to be the
    daemon is ended.

    Example: kbhub stop

    Args:
        common: Options of every command.
    """
    return commands.daemon.stop(common=common)
