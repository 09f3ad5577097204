"""Tables of servers in a TOML file (Codex).

A new table goes to the end of the file and a table that goes takes its own lines along: both need no understanding of
the rest. Values inside a table are changed by tomlkit, which keeps comments and spacing.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from kbhub.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEADER = re.compile(r"[ \t]*\[")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # a string may hold what else Python takes for the end of a line


def parse(text: str, path: Path) -> dict[str, Any]:
    """Parse a file.

    Raises:
        ConfigError: it is malformed.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, f"malformed TOML: {error}") from error


def added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Give the text with a table at the end or, where the servers are in braces, in there."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join((*keys, name))}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    head = "" if not text.strip() else text if text.endswith("\n") else text + newline
    edited = head + (newline if head else "") + newline.join(lines) + newline
    try:
        parse(edited, path)
    except ConfigError:
        return _rewritten(text, [*keys], path, lambda holder: holder.update({name: entry}))
    return edited


def changed(text: str, keys: Sequence[str], name: str, fields: dict[str, Any], path: Path) -> str:
    """Give the text with values of a table replaced."""
    return _rewritten(text, [*keys, name], path, lambda table: table.update(fields))


def removed(text: str, keys: Sequence[str], name: str, path: Path) -> str:
    """Give the text without a table and those below it; comments before the next table stay."""
    heads = re.compile(
        r"[ \t]*\[[ \t]*"
        + r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in (*keys, name))
        + r"[ \t]*[.\]]"
    )
    lines = _LINE.findall(text)
    gone: set[int] = set()
    at = 0
    while at < len(lines):
        if not heads.match(lines[at]):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _HEADER.match(lines[end]):
            end += 1
        following = end
        while end > at + 1 and lines[end - 1].strip()[:1] in ("", "#"):
            end -= 1
        gone.update(range(at, end))
        at = following
    if not gone:
        return _rewritten(text, [*keys], path, lambda holder: holder.remove(name))
    # Of two blank lines that meet now, one was ours.
    first, after = min(gone), max(gone) + 1
    if first and not lines[first - 1].strip() and (after == len(lines) or not lines[after].strip()):
        gone.add(first - 1)
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _rewritten(text: str, keys: Sequence[str], path: Path, change: Any) -> str:
    try:
        document = tomlkit.parse(text)
        holder: Any = document
        for key in keys:
            holder = holder[key]
        change(holder)
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, AttributeError) as error:
        raise ConfigError(path, "is written in an unusual way; make the change by hand") from error


def _value(value: Any) -> str:
    return str(tomlkit.item(value).as_string())
