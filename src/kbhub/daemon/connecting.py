"""`kbhub serve --connect`: from a command line to a proxy that runs. Light: every editor window loads it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from kbhub.daemon import proxy
from kbhub.daemon.folder import Folder
from kbhub.daemon.link import Refused, passed_on
from kbhub.daemon.starting import DaemonUnavailable, reach
from kbhub.places import data_dir, user_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbhub.daemon.link import Link, Wanted

PATHS = ("KBHUB_CONFIG", "KBHUB_CACHE_DIR", "KBHUB_DATA_DIR")
"""Variables that are paths, relative to the working directory of who was started with them."""

BASES = "KBHUB_BASES"


def connect(wanted: Wanted, env: Mapping[str, str]) -> int | None:
    """Serve the client on standard input and output by way of the daemon; does not return while that works.

    Args:
        wanted: what the command line asks for.
        env: environment variables.

    Returns:
        An exit code, if this client cannot be served at all; none if it has to be served without a daemon.
    """
    folder = Folder(data_dir(env))
    hello = greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is wanted

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
    """Say who a client works for, in a way that does not depend on the process that reads it.

    Args:
        wanted: what the command line asks for.
        env: environment variables.
        cwd: the working directory.
    """

    def absolute(path: str | None) -> str | None:
        return os.path.join(cwd, path) if path and not path.startswith("~") else path  # noqa: PTH118

    def based(entry: str) -> str:
        name, mark, path = entry.partition("=")
        return f"{name}{mark}{absolute(path) or ''}"

    told = passed_on(env)
    told |= {name: absolute(told[name]) or "" for name in PATHS if name in told}
    if BASES in told:
        told[BASES] = os.pathsep.join(map(based, told[BASES].split(os.pathsep)))
    asked = wanted._replace(
        config=absolute(wanted.config), cache_dir=absolute(wanted.cache_dir), base=tuple(map(based, wanted.base))
    )
    return {"cwd": cwd, "home": str(user_home(env)), "env": told, "wanted": asked._asdict()}


def _complain(message: str) -> None:
    sys.stderr.write(f"kbhub: {' '.join(message.split())}\n")
    sys.stderr.flush()
