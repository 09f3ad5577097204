"""`kbhub serve --connect`: from the command line to a running proxy. Light: every editor window loads it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from kbhub.server.daemon import proxy
from kbhub.server.daemon.folder import DaemonFolder
from kbhub.server.daemon.launch import DaemonUnavailable, reach
from kbhub.server.daemon.protocol import ConnectOptions, Refused, greeting
from kbhub.workspace.files import data_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbhub.server.daemon.protocol import DaemonLink


COMMAND, MODE = "serve", "--connect"

_FLAGS = {"--structured": "structured", "--read-only": "read_only"}
_VALUES = {"--root": "root", "--config": "config", "--cache-dir": "cache_dir", "--protocol": "protocol"}
_BASE = "--base"
PROTOCOLS = ("auto", "legacy")


def wanted(arguments: Sequence[str]) -> ConnectOptions | None:
    """Parse arguments after the program's name; None if they are not `serve --connect` with plainly valid options."""
    if arguments[:1] != [COMMAND] or MODE not in arguments:
        return None
    options: dict[str, Any] = {}
    bases: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        name, mark, value = argument.partition("=")
        if argument == MODE:
            continue
        if argument in _FLAGS:
            options[_FLAGS[argument]] = True
            continue
        if name not in (*_VALUES, _BASE):
            return None
        value = value if mark else next(rest, "")
        if not value or value.startswith("-") or _VALUES.get(name) in options:
            return None
        if name == _BASE:
            bases.append(value)
        else:
            options[_VALUES[name]] = value
    if options.get("protocol", "auto") not in PROTOCOLS:
        return None
    return ConnectOptions(**options, base=tuple(bases))


def connect(wanted: ConnectOptions, env: Mapping[str, str]) -> int | None:
    """Serve the client on standard input and output through the daemon; blocks while that works.

    Returns an exit code if this client cannot be served at all, None if it must be served without a daemon.
    """
    folder = DaemonFolder(data_dir(env))
    hello = greeting(wanted, env, os.getcwd())  # noqa: PTH109 - a string is needed

    def open_link() -> DaemonLink:
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
        _complain(f"Cannot use the daemon ({error}); serving without it.")
    return None


def _complain(message: str) -> None:
    sys.stderr.write(f"kbhub: {' '.join(message.split())}\n")
    sys.stderr.flush()
