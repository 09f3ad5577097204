"""Entry point: a hook of a client, or the command line."""

from __future__ import annotations

import os
import sys

# As type checkers know it, too; `typing` would be half of what this file costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the command line, and return its exit code, as `kbhub.cli.main` does."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    # A hook runs before every prompt and tool call, while somebody waits: the command line would double its time.
    if typed[:1] == ["hook"] and sys.stdin is not None and not sys.stdin.isatty():
        from kbhub.server.daemon.launch import run_hook, wanted_hook  # noqa: PLC0415

        if (hook := wanted_hook(typed)) is not None:
            code = run_hook(*hook, os.environ)
            if arguments is None:  # the process is over, and not only a call
                os._exit(code)
            return code
    if "--connect" in typed and all((sys.stdin, sys.stdout, sys.stderr)) and not sys.stdin.isatty():
        from kbhub.server.daemon.proxy import MODE, connect, wanted  # noqa: PLC0415 - as small as can be

        if (window := wanted(typed)) is not None:
            served = connect(window, os.environ)
            typed.remove(MODE)
            if served is not None:  # else it is to serve itself
                return served
        sys.argv[1:], arguments = (typed, None) if arguments is None else (sys.argv[1:], typed)
    from kbhub.cli.main import main as run  # noqa: PLC0415

    return run(arguments)


if __name__ == "__main__":
    # `python -m` looks into the working directory first: modules and extensions of a repository are not to be run.
    if not sys.flags.safe_path and sys.path[0] != __file__.removesuffix(os.path.join("", "kbhub", "__main__.py")):  # noqa: PTH118
        del sys.path[0]
    sys.exit(main())
