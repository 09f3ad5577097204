"""The command line of `serve --connect`, read without the command line's libraries (0.2 s and 8 MB).

Only what is plainly right is read here. Everything else, from `--help` to a misspelt option, goes the ordinary way,
which ends in the same place or says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbhub.daemon.link import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND, MODE = "serve", "--connect"

_FLAGS = {"--structured": "structured", "--read-only": "read_only"}
_VALUES = {"--root": "root", "--config": "config", "--cache-dir": "cache_dir", "--protocol": "protocol"}
_BASE = "--base"
PROTOCOLS = ("auto", "legacy")


def wanted(arguments: Sequence[str]) -> Wanted | None:
    """Read a command line.

    Args:
        arguments: what follows the program's name.

    Returns:
        What it asks for; none if it is not `serve --connect` with options that can be understood at a glance.
    """
    if arguments[:1] != [COMMAND] or MODE not in arguments:
        return None
    found: dict[str, Any] = {}
    bases: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        name, mark, value = argument.partition("=")
        if argument == MODE:
            continue
        if argument in _FLAGS:
            found[_FLAGS[argument]] = True
            continue
        if name not in (*_VALUES, _BASE):
            return None
        value = value if mark else next(rest, "")
        if not value or value.startswith("-") or _VALUES.get(name) in found:
            return None
        if name == _BASE:
            bases.append(value)
        else:
            found[_VALUES[name]] = value
    if found.get("protocol", "auto") not in PROTOCOLS:
        return None
    return Wanted(**found, base=tuple(bases))
