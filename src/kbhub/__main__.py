"""Entry point: a hook of a client, or the command line."""

from __future__ import annotations

import os
import sys

# As type checkers know it, too; `typing` would be half of what this file costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what follows the program's name; none takes them from the command line.

    Returns:
        The exit code: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.
    """
    typed = sys.argv[1:] if arguments is None else list(arguments)
    if typed[:1] == ["hook"] and (code := _hooked(typed)) is not None:
        if arguments is None:  # the process is over, and not only a call
            os._exit(code)
        return code
    if "--connect" in typed and all((sys.stdin, sys.stdout, sys.stderr)) and not sys.stdin.isatty():
        if (code := _connected(typed)) is not None:
            return code
        sys.argv[1:], arguments = (typed, None) if arguments is None else (sys.argv[1:], typed)
    # A hook runs before every prompt and tool call, while somebody waits: the command line would double its time.
    from kbhub.cli.main import main as run  # noqa: PLC0415

    return run(arguments)


def _hooked(typed: Sequence[str]) -> int | None:
    """Answer a client's hook; None if the command line is to be parsed."""
    from kbhub.server.daemon.launch import run_hook, wanted_hook  # noqa: PLC0415 - as above

    asked = None if sys.stdin is None or sys.stdin.isatty() else wanted_hook(typed)
    return None if asked is None else run_hook(*asked, os.environ)


def _connected(typed: list[str]) -> int | None:
    """Serve a window through the daemon; None if it is to serve itself or the command line is to be parsed."""
    from kbhub.server.daemon.proxy import MODE, connect, wanted  # noqa: PLC0415 - as above, and as small as can be

    if (asked := wanted(typed)) is None:
        return None
    code = connect(asked, os.environ)
    typed.remove(MODE)
    return code


if __name__ == "__main__":
    # `python -m` looks into the working directory first: modules and extensions of a repository are not to be run.
    if not sys.flags.safe_path and sys.path[0] != __file__.removesuffix(os.path.join("", "kbhub", "__main__.py")):  # noqa: PTH118
        del sys.path[0]
    sys.exit(main())
