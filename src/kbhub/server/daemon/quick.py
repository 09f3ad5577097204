"""Parse the command line of `serve --connect` without the CLI's libraries (0.2 s and 8 MB).

Only plainly valid command lines are parsed. Everything else, from `--help` to a misspelt option, takes the ordinary
way, which has the same result or explains the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.server.daemon.link import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND, MODE = "serve", "--connect"

_FLAGS = {"--structured": "structured", "--read-only": "read_only"}
_VALUES = {"--root": "root", "--config": "config", "--cache-dir": "cache_dir", "--protocol": "protocol"}
_BASE = "--base"
PROTOCOLS = ("auto", "legacy")


def wanted(arguments: Sequence[str]) -> Wanted | None:
    """Parse a command line.

    Args:
        arguments: arguments after the program's name.

    Returns:
        The result; None if it is not `serve --connect` with plainly valid options.
    """
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
    return Wanted(**options, base=tuple(bases))
