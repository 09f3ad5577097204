"""Tables of servers in a TOML file (Codex).

Tables are appended and removed as whole lines, without parsing the rest of the file. Values inside a table are changed
with tomlkit, which keeps comments and spacing.
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
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # not splitlines(), which also splits inside strings


def parse(text: str, path: Path) -> dict[str, Any]:
    """Parse a client's TOML file; `ConfigError` if it is malformed."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, f"malformed TOML: {error}") from error


def added(text: str, keys: Sequence[str], name: str, entry: dict[str, Any], path: Path) -> str:
    """Return the text with a table appended, or added in place if the servers are an inline table."""
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
    """Return the text with some values of a table replaced."""
    return _rewritten(text, [*keys, name], path, lambda table: table.update(fields))


def removed(text: str, keys: Sequence[str], name: str, path: Path) -> str:
    """Return the text without a table and its subtables; comments before the next table stay."""
    heads = re.compile(
        r"[ \t]*\[[ \t]*"
        + r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in (*keys, name))
        + r"[ \t]*[.\]]"
    )
    lines = _LINE.findall(text)
    dropped: set[int] = set()
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
        dropped.update(range(at, end))
        at = following
    if not dropped:
        return _rewritten(text, [*keys], path, lambda holder: holder.remove(name))
    # Drop one of the two blank lines that are now adjacent.
    first, after = min(dropped), max(dropped) + 1
    if first and not lines[first - 1].strip() and (after == len(lines) or not lines[after].strip()):
        dropped.add(first - 1)
    return "".join(line for number, line in enumerate(lines) if number not in dropped)


def _rewritten(text: str, keys: Sequence[str], path: Path, change: Any) -> str:
    try:
        document = tomlkit.parse(text)
        holder: Any = document
        for key in keys:
            holder = holder[key]
        change(holder)
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, AttributeError) as error:
        raise ConfigError(path, "has an unusual layout; make the change by hand") from error


def _value(value: Any) -> str:
    return str(tomlkit.item(value).as_string())
