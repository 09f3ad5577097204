"""`kbhub serve` without options, as clients start it, without importing the command line libraries (0.2 s)."""

from __future__ import annotations

import os

from kbhub.cli.console import complain
from kbhub.errors import KbhubError
from kbhub.hub import HubOptions
from kbhub.server.stdio import serve as serve_stdio
from kbhub.workspace.discovery import parse_base_arguments


def serve() -> int:
    """Serve on standard input and output like `commands.daemon.serve`; returns only an exit code."""
    env = dict(os.environ)
    try:
        options = HubOptions(bases=parse_base_arguments((), env), serve=True, env=env)
        serve_stdio(options, protocol=env.get("KBHUB_PROTOCOL") or "auto")
    except KbhubError as error:
        complain(str(error))
        return error.exit_code
