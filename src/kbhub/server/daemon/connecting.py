"""`kbhub serve --connect`: from the command line to a running proxy. Light: every editor window loads it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from kbhub.server.daemon import proxy
from kbhub.server.daemon.folder import Folder
from kbhub.server.daemon.link import Refused, passed_on
from kbhub.server.daemon.starting import DaemonUnavailable, reach
from kbhub.workspace.places import data_dir, user_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.server.daemon.link import Link, Wanted

PATHS = ("KBHUB_CONFIG", "KBHUB_CACHE_DIR", "KBHUB_DATA_DIR")
"""Variables with paths relative to the client's working directory."""

BASES = "KBHUB_BASES"


def connect(wanted: Wanted, env: Mapping[str, str]) -> int | None:
    """Serve the client on standard input and output through the daemon; blocks while that works.

    Args:
        wanted: the parsed command line.
        env: environment variables.

    Returns:
        An exit code if this client cannot be served at all; None if it must be served without a daemon.
    """
    folder = Folder(data_dir(env))
    hello = greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is needed

    def open_link() -> Link:
        try:
            return reach(folder, hello, {"ends": True}, env)
        except (Refused, DaemonUnavailable) as error:
            raise ConnectionError(str(error)) from error

    try:
        proxy.run(reach(folder, hello, {"ends": True}, env), open_link)
    except Refused as refusal:
        if refusal.exit_code:
            _complain(refusal.message)
            return refusal.exit_code
        _complain(f"{refusal.message}; serving without the daemon.")
    except DaemonUnavailable as error:
        _complain(f"No daemon can be used ({error}); serving without one.")
    return None


def greeting(wanted: Wanted, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """Describe the client's workspace independently of the process that reads it.

    Args:
        wanted: the parsed command line.
        env: environment variables.
        cwd: the working directory.
    """

    def absolute(path: str | None) -> str | None:
        return os.path.join(cwd, path) if path and not path.startswith("~") else path  # noqa: PTH118

    def based(entry: str) -> str:
        name, mark, path = entry.partition("=")
        return f"{name}{mark}{absolute(path) or ''}"

    variables = passed_on(env)
    variables |= {name: absolute(variables[name]) or "" for name in PATHS if name in variables}
    if BASES in variables:
        variables[BASES] = os.pathsep.join(map(based, variables[BASES].split(os.pathsep)))
    absolute_wanted = wanted._replace(
        config=absolute(wanted.config), cache_dir=absolute(wanted.cache_dir), base=tuple(map(based, wanted.base))
    )
    return {"cwd": cwd, "home": str(user_home(env)), "env": variables, "wanted": absolute_wanted._asdict()}


def _complain(message: str) -> None:
    sys.stderr.write(f"kbhub: {' '.join(message.split())}\n")
    sys.stderr.flush()
